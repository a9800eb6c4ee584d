"""Training `FillMask` on texts: masks, the loss of transformers, and errors."""

import keras
import numpy as np
import pytest

import bert_tf
from tests.training.training_helpers import mirrored, one_device

LETTERS = "abcdefghij"
TEXTS = [" ".join((LETTERS * 2)[i : i + 9]) for i in range(10)] * 4


def make(folder, strategy=None, max_seq_length=12):
    keras.utils.set_random_seed(0)
    return bert_tf.FillMask.from_preset(
        str(folder), strategy=strategy or one_device(), max_seq_length=max_seq_length
    )


def batches_of(fill_mask, epochs=1, **options):
    dataset = fill_mask._dataset(TEXTS, "texts", 8, 0.15, epochs=epochs, **options)
    return list(dataset.as_numpy_iterator())


def test_fit(encoder_folder, tmp_path):
    fill_mask = make(encoder_folder)
    before = fill_mask.evaluate(TEXTS, verbose=0)["loss"]
    history = fill_mask.fit(TEXTS * 12, validation_split=0.1, epochs=2, batch_size=8,
                            learning_rate=5e-3, verbose=0).history  # fmt: skip
    results = fill_mask.evaluate(TEXTS, verbose=0)
    assert results["loss"] < before - 0.4 and len(history["val_loss"]) == 2
    assert results == fill_mask.evaluate(TEXTS, verbose=0)  # the same masks
    fill_mask.save_to_preset(tmp_path / "saved")
    loaded = make(tmp_path / "saved")
    assert loaded.evaluate(TEXTS, verbose=0)["loss"] == pytest.approx(results["loss"], rel=1e-5)


def test_masks(encoder_folder):
    """No token is lost, each epoch has new masks, and 15% of the tokens are masked."""
    fill_mask = make(encoder_folder, max_seq_length=8)  # two sequences per text
    batches = batches_of(fill_mask, epochs=50)
    epochs = [batches[i : i + 10] for i in range(0, 500, 10)]
    positions, changed, total = [], 0, 0
    for epoch in epochs:
        originals = []
        for inputs, targets, weights in epoch:
            ids, at = inputs["input_ids"], inputs["masked_lm_positions"]
            rows = np.arange(len(ids))[:, None]
            is_used = weights["masked_lm_logits"] > 0
            original = ids.copy()
            np.put_along_axis(
                original, at, np.where(is_used, targets["masked_lm_logits"], ids[rows, at]), 1
            )
            originals += [x[x > 0].tolist() for x in original]
            changed += (original != ids).sum()
            total += is_used.sum()
            positions.append(np.where(is_used, at, -1))
        pieces = fill_mask.tokenizer.encode_batch(TEXTS)
        tokens = [token for row in originals for token in row[1:-1]]
        assert tokens == [token for row in pieces for token in row]
    assert len({x.tobytes() for x in positions}) > 100
    assert total == 50 * 80  # one mask in up to 8 tokens
    # 80% become [MASK] and 10% a random token, which may be the original.
    assert 0.85 < changed / total < 0.93


def test_loss_is_that_of_transformers(encoder_folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    fill_mask = make(encoder_folder)
    fill_mask.save_to_preset(tmp_path / "saved")
    peer = transformers.BertForMaskedLM.from_pretrained(tmp_path / "saved").eval()
    losses = []
    for inputs, targets, weights in batches_of(fill_mask):
        labels = np.full_like(inputs["input_ids"], -100)
        values = np.where(weights["masked_lm_logits"] > 0, targets["masked_lm_logits"], -100)
        np.put_along_axis(labels, inputs["masked_lm_positions"], values, 1)
        names = {"input_ids": "input_ids", "attention_mask": "input_mask",
                 "token_type_ids": "segment_ids"}  # fmt: skip
        arguments = {name: torch.tensor(inputs[x]).long() for name, x in names.items()}
        with torch.no_grad():
            losses.append(peer(**arguments, labels=torch.tensor(labels).long()).loss.item())
    found = fill_mask.evaluate(TEXTS, batch_size=8, verbose=0)["loss"]
    assert found == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.slow
def test_two_devices_make_the_same_steps(encoder_folder):
    weights = []
    for strategy in (one_device(), mirrored(2)):
        fill_mask = make(encoder_folder, strategy)
        fill_mask.compile(keras.optimizers.SGD(0.1))
        fill_mask.fit(TEXTS, epochs=2, batch_size=8, shuffle=False, verbose=0)
        weights.append(fill_mask.model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": "a b"}, "`texts`: .*single str"),
        ({"texts": ["", " "]}, "`texts`: found no words"),
        ({"validation_data": [3]}, "`validation_data`: item 0 is 3"),
        ({"masked_lm_prob": 1.5}, "`masked_lm_prob=1.5`"),
        ({"epochs": 0}, "`epochs=0`"),
    ],
)
def test_bad_input(encoder_folder, arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        make(encoder_folder).fit(**{"texts": TEXTS, **arguments})
