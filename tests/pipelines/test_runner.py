"""`BatchRunner` and its batches."""

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
    record_format = {"schema": SCHEMA, "lengths": {"S": 12}}
    runner = prediction.BatchRunner(
        lambda ids, _: {"ids": ids}, model, tf.distribute.get_strategy(), 4, record_format
    )
    rows = [[2, *[5] * i, 3] for i in range(6)]
    rows = [[*ids, *[0] * (12 - len(ids))] for ids in rows]
    features = [{"input_ids": ids, "input_mask": [int(x > 0) for x in ids]} for ids in rows]
    items = list(enumerate(records.serialize(SCHEMA, features)))
    results = list(runner.run(items, "counting"))
    assert [item for item, _ in results] == list(range(6))
    assert [values["ids"].tolist() for _, values in results] == [ids[:size] for ids in rows]
    assert set(shapes) == {traced}
    assert runner._make_batch(tf.constant([items[0][1]]), [0])["input_ids"].shape == shape
