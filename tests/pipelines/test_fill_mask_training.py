"""Training `FillMask` on texts: the loss, long texts, and masks of a seed."""

import keras
import pytest

import bert_tf
from bert_tf.configs.train import FitConfig
from bert_tf.data import records
from tests.training.training_helpers import one_device

LETTERS = "abcdefghij"
TEXTS = [" ".join((LETTERS * 2)[i : i + 9]) for i in range(10)] * 4


def make(folder, strategy=None, max_seq_length=12):
    keras.utils.set_random_seed(0)
    with (strategy or one_device()).scope():
        return bert_tf.FillMask.from_preset(str(folder), max_seq_length=max_seq_length)


def test_fit(encoder_folder, tmp_path):
    fill_mask = make(encoder_folder)
    before = fill_mask.evaluate(TEXTS)["loss"]
    history = fill_mask.fit(TEXTS * 12, validation_split=0.1, epochs=2, batch_size=8,
                            learning_rate=5e-3, verbose=0).history  # fmt: skip
    results = fill_mask.evaluate(TEXTS)
    assert results["loss"] < before - 0.4 and len(history["val_loss"]) == 2
    assert results == fill_mask.evaluate(TEXTS)  # the same masks
    fill_mask.save_to_preset(tmp_path / "saved")
    loaded = make(tmp_path / "saved")
    assert loaded.evaluate(TEXTS)["loss"] == pytest.approx(results["loss"], rel=1e-5)


def test_long_texts_are_split(encoder_folder):
    """No token is lost."""
    fill_mask = make(encoder_folder, max_seq_length=8)  # two sequences per text
    features = fill_mask.features(fill_mask.run_data({"train": TEXTS}), "train")
    ids = records.parse(features.in_memory("reading"), features.schema, features.axes)["input_ids"]
    tokens = [token for row in ids.numpy() for token in row[row > 0][1:-1]]
    pieces = fill_mask.tokenizer.encode_batch(TEXTS)
    assert len(ids) == 2 * len(TEXTS) and tokens == [token for row in pieces for token in row]


def test_a_seed_gives_the_same_masks(encoder_folder):
    fill_mask, runs = make(encoder_folder), []
    for seed in (0, 0, 1):
        data = fill_mask.run_data({"train": TEXTS}, seed=seed)
        objective, features = fill_mask.objective(data), fill_mask._features(data, "train")
        batches, num_steps, _ = fill_mask._batches(features, objective, FitConfig(batch_size=8))
        batches = batches.take(2 * num_steps).as_numpy_iterator()
        runs.append([row for batch in batches for row in batch["input_ids"].tolist()])
    assert runs[0] == runs[1] != runs[2] and sorted(runs[0][:40]) != sorted(runs[0][40:])
