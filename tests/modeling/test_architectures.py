"""DistilBERT and ELECTRA from Hugging Face folders, compared with `transformers`."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertClassifier, BertModel, BertPretrainer, BertSpanLabeler
from tests.common import WITHOUT_DROPOUT, features, write_vocab
from tests.modeling.conftest import (
    CHECKS,
    BackboneTest,
    make_model,
    padded_batch,
    run_with_transformers,
)

SIZES = {"vocab_size": 50, "max_position_embeddings": 12, "initializer_range": 0.5}
CONFIGS = {
    "DistilBert": {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32, "activation": "gelu"},
    "Electra": {"embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 2,
                "num_attention_heads": 2, "intermediate_size": 32},
}  # fmt: skip
POOLER = ["bert/pooler/dense/kernel", "bert/pooler/dense/bias"]
NEXT_SENTENCE = ["cls/seq_relationship/output_weights", "cls/seq_relationship/output_bias"]


def write_folder(transformers, folder, name, head="Model", **options):
    """Write a random model of `transformers`; return it and its path."""
    import torch

    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(**SIZES, **CONFIGS[name], **options)
    model = getattr(transformers, f"{name}{head}")(config).eval()
    with torch.no_grad():  # zeros and ones would hide unused biases and scales
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    model.save_pretrained(folder)
    return model, str(folder)


def assert_same(actual, expected, is_token=...):
    actual, expected = np.asarray(actual)[is_token], expected[is_token]
    np.testing.assert_allclose(actual, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", CONFIGS)
def test_encoder(transformers, tmp_path, caplog, name):
    caplog.set_level("INFO")
    reference, folder = write_folder(transformers, tmp_path / "hf", name)
    model = BertModel.from_preset(folder)
    assert f"randomly initialized: {', '.join(POOLER)}" in caplog.text
    assert "not used" not in caplog.text
    batch = features()
    expected = run_with_transformers(reference, batch)["last_hidden_state"]
    is_token = batch["input_mask"] == 1
    for skip_padding in (False, True):
        outputs = model(batch, skip_padding=skip_padding)
        assert_same(outputs["sequence_output"], expected, is_token)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same(loaded(batch)["sequence_output"], expected, is_token)


@pytest.mark.slow
@pytest.mark.parametrize("name", CONFIGS)
def test_model(tmp_path, name):
    """See `BackboneTest`."""
    given = {"model_type": name.lower(), **SIZES, **CONFIGS[name]}
    config = bert_tf.BertConfig.from_dict(given)
    changes = {**WITHOUT_DROPOUT, "initializer_range": 0.02}  # small enough for float16
    config = bert_tf.BertConfig.from_dict({**config.to_dict(), **changes})

    def make(dtype):
        return make_model(BertClassifier, dtype, config)[0]

    test = BackboneTest(make, padded_batch(), tmp_path)
    for check in CHECKS:
        getattr(test, check)()


@pytest.mark.parametrize(
    ("head", "model_class", "output", "missing", "options"),
    [
        # The dense layer of the classifier is the pooler with a different activation.
        ("ForSequenceClassification", BertClassifier, "logits", [], {"num_labels": 3}),
        ("ForMaskedLM", BertPretrainer, "masked_lm_logits", [*POOLER, *NEXT_SENTENCE], {}),
    ],
)
@pytest.mark.parametrize("name", CONFIGS)
def test_heads(transformers, tmp_path, caplog, name, head, model_class, output, missing, options):
    reference, folder = write_folder(transformers, tmp_path / "hf", name, head, **options)
    model = model_class.from_preset(folder)
    assert ("randomly initialized: " + ", ".join(missing) in caplog.text) == bool(missing)
    batch = {**features(), "masked_lm_positions": np.tile(np.arange(8, dtype="int32"), (3, 1))}
    expected = run_with_transformers(reference, batch)["logits"]
    is_token = batch["input_mask"] == 1 if missing else ...
    assert_same(model(batch)[output], expected, is_token)


def test_span_labeler_and_conversion_to_the_release(transformers, tmp_path):
    reference, folder = write_folder(
        transformers, tmp_path / "hf", "DistilBert", "ForQuestionAnswering"
    )
    write_vocab(tmp_path / "hf")
    batch = features()
    expected = run_with_transformers(reference, batch)["start_logits"]
    checkpoints.convert(folder, str(tmp_path / "release"), "release")
    for path in (folder, str(tmp_path / "release")):
        model = BertSpanLabeler.from_preset(path)
        assert_same(model(batch)["start_logits"], expected, batch["input_mask"] == 1)
    with pytest.raises(bert_tf.UserError, match="pooler_act=relu; only BERT"):
        checkpoints.convert(folder, str(tmp_path / "again"), "hugging_face")
