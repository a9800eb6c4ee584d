"""`BatchRunner` and its batches."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.data import records
from bert_tf.training import prediction

SCHEMA = {name: records.PRETRAINING[name] for name in ("input_ids", "input_mask")}


@pytest.mark.parametrize(
    ("multiple", "traced", "size", "shape"),
    [(8, (None, None), 8, (1, 8)), (None, (4, 12), 12, (4, 12))],
)
def test_batches_are_as_small_as_possible(monkeypatch, multiple, traced, size, shape):
    """On TPU all batches have one static shape; elsewhere a single text is a batch of one."""
    shapes = []

    def model(batch, **_):
        shapes.append(tuple(batch["input_ids"].shape))
        return batch["input_ids"]

    monkeypatch.setattr(prediction, "length_multiple", lambda *_: multiple)
    runner = prediction.BatchRunner(
        lambda ids, _: {"ids": ids}, model, tf.distribute.get_strategy(), SCHEMA, {"S": 12}
    )
    rows = [np.array([2, *[5] * i, 3]) for i in range(6)]
    features = [{"input_ids": ids, "input_mask": np.ones_like(ids)} for ids in rows]
    results = list(runner.run(enumerate(features), 4, "counting"))
    assert [item for item, _ in results] == list(range(6))
    padded = [[*ids, *[0] * (size - len(ids))] for ids in rows]
    assert [values["ids"].tolist() for _, values in results] == padded
    assert set(shapes) == {traced}
    assert runner._make_batch(features[:1], 4)["input_ids"].shape == shape
