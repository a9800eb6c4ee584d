"""`BatchRunner` and its batches."""

import tensorflow as tf

from bert_tf.pipelines import text_pipeline as runner


def test_batches_are_as_small_as_possible(monkeypatch):
    """On TPU all batches have one static shape; elsewhere a single text is a batch of one."""
    shapes = []

    def function(batch):
        shapes.append(tuple(batch["input_ids"].shape))
        return {"ids": batch["input_ids"]}

    def make_runner():
        return runner.BatchRunner(function, tf.distribute.get_strategy(), 4, 12)

    sequences = [runner.EncodedText(i, [2, *[5] * i, 3], [0] * (i + 2)) for i in range(6)]
    for multiple, expected in ((8, [(None, None)]), (None, [(4, 12)])):
        shapes.clear()
        monkeypatch.setattr(runner, "length_multiple", lambda *_, multiple=multiple: multiple)
        batch_runner = make_runner()
        results = list(batch_runner.run(sequences, "counting"))
        assert [encoded.text for encoded, _ in results] == list(range(6))
        assert shapes == expected  # traced once
        sizes = [len(values["ids"]) for _, values in results]
        assert sizes == ([8] * 6 if multiple else [12] * 6)
        ((_, values),) = batch_runner.run(sequences[:1], "counting")
        assert values["ids"].tolist() == [2, 3] + [0] * (sizes[0] - 2)
    assert make_runner()._make_batch(sequences[:1])["input_ids"].shape == (4, 12)
    monkeypatch.undo()
    assert make_runner()._make_batch(sequences[:1])["input_ids"].shape == (1, 8)
