"""The model against the release's outputs, and the properties that its design promises."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertClassifier, BertModel, BertPretrainer, Dropout

TINY = bert_tf.BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
    type_vocab_size=2,
)


def features(batch=3, length=8, seed=0):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, length + 1, size=(batch, 1))
    mask = (np.arange(length) < lengths).astype("int32")
    return {
        "input_ids": (rng.integers(1, 50, (batch, length)) * mask).astype("int32"),
        "input_mask": mask,
        "segment_ids": (rng.integers(0, 2, (batch, length)) * mask).astype("int32"),
        "masked_lm_positions": rng.integers(0, 3, (batch, 2)).astype("int32"),
    }


def test_equals_the_release(shared):
    folder = shared / "golden" / "model_tiny"
    golden = dict(np.load(folder / "io.npz"))
    config = bert_tf.BertConfig.from_json_file(str(folder / "bert_config.json"))
    model = BertPretrainer(config)
    checkpoints.warm_start(model, str(folder / "bert_model.ckpt"))
    encoded = model.get_layer("bert")(golden)
    found = {
        "embedding_output": encoded["embedding_output"],
        "sequence_output": encoded["sequence_output"],
        "pooled_output": encoded["pooled_output"],
        **{f"layer_{i}": x for i, x in enumerate(encoded["all_encoder_layers"])},
    }
    outputs = model(golden)
    log_probs = keras.ops.log_softmax(outputs["masked_lm_logits"])
    found["masked_lm_log_probs"] = keras.ops.reshape(log_probs, (-1, config.vocab_size))
    found["next_sentence_log_probs"] = keras.ops.log_softmax(outputs["next_sentence_logits"])
    for name, value in found.items():
        np.testing.assert_allclose(value, golden[f"out_{name}"], atol=2e-5, rtol=0, err_msg=name)


def test_shapes_and_attention():
    model = BertModel(TINY, with_attention_probs=True)
    batch = features()
    outputs = model(batch)
    assert outputs["sequence_output"].shape == (3, 8, 16)
    assert outputs["pooled_output"].shape == (3, 16)
    assert len(outputs["all_encoder_layers"]) == len(outputs["attention_probs"]) == 2
    probs = keras.ops.convert_to_numpy(outputs["attention_probs"][1])
    assert probs.shape == (3, 2, 8, 8)
    np.testing.assert_allclose(probs.sum(-1), 1.0, atol=1e-6)
    padded = np.broadcast_to(batch["input_mask"][:, None, None, :] == 0, probs.shape)
    assert probs[padded].max() == 0.0


def test_padding_changes_nothing():
    model = BertModel(TINY)
    batch = features(batch=1, length=6)
    batch["input_mask"][:] = 1
    longer = {name: np.pad(value, ((0, 0), (0, 5))) for name, value in batch.items()}
    short, long = model(batch), model(longer)
    np.testing.assert_allclose(
        short["sequence_output"], long["sequence_output"][:, :6], atol=1e-6, rtol=0
    )


def test_masked_lm_head_is_tied_to_the_word_embeddings():
    model = BertPretrainer(TINY)
    before = keras.ops.convert_to_numpy(model(features())["masked_lm_logits"])
    table = model.get_layer("bert").embeddings.word_embeddings
    table.assign(np.where(np.arange(50)[:, None] == 49, 3.0, table))  # word 49 is in no input
    after = keras.ops.convert_to_numpy(model(features())["masked_lm_logits"])
    changed = np.abs(after - before).max(axis=(0, 1)) > 1e-6
    assert changed[49] or (features()["input_ids"] == 49).any()
    assert sum(v.path.endswith("word_embeddings") for v in model.variables) == 1


@pytest.mark.parametrize("dtype", [None, "mixed_bfloat16"])
@pytest.mark.parametrize(
    "make", [BertModel, BertPretrainer, lambda c, **k: BertClassifier(c, 3, **k)]
)
def test_keras_file_round_trip(tmp_path, make, dtype):
    model = make(TINY, dtype=dtype)
    path = str(tmp_path / "model.keras")
    model.save(path)
    again = keras.saving.load_model(path)
    assert type(again) is type(model)
    for a, b in zip(
        keras.tree.flatten(model(features())), keras.tree.flatten(again(features())), strict=True
    ):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def test_too_long_sequence_is_refused():
    with pytest.raises(ValueError, match="13 tokens, but the model has 12 positions"):
        BertModel(TINY)(features(length=13))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 15}, "hidden_size 15 is not a multiple of num_attention_heads 2"),
        ({"vocab_size": 0}, "vocab_size must be an integer of at least 1, not 0"),
        ({"num_hidden_layers": "2"}, "num_hidden_layers must be an integer"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob must be a number in"),
        ({"hidden_act": "swish2"}, "hidden_act must be one of gelu, gelu_erf, relu, tanh, linear"),
    ],
)
def test_config_refuses_nonsense(change, message):
    with pytest.raises(bert_tf.UserError, match=message):
        bert_tf.BertConfig.from_dict({**TINY.to_dict(), **change})


def test_config_file(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text(TINY.to_json_string().replace("{", '{"pooler_type": "first",', 1))
    config = bert_tf.BertConfig.from_json_file(str(path))
    assert config.to_dict() == {**TINY.to_dict(), "pooler_type": "first"}
    path.write_text("{\n  nonsense")
    with pytest.raises(bert_tf.UserError, match=r"bert_config.json, line 2: not JSON"):
        bert_tf.BertConfig.from_json_file(str(path))
    path.write_text("[]")
    with pytest.raises(bert_tf.UserError, match="vocab_size"):
        bert_tf.BertConfig.from_json_file(str(path))


@pytest.mark.parametrize("shape", [(2000, 3, 100), (75, 31, 100), (75, 31, 75)])
def test_dropout_drops_independently_at_its_rate(shape):
    keras.utils.set_random_seed(1)
    layer = Dropout(0.1)
    ones = np.ones(shape, "float32")
    np.testing.assert_array_equal(layer(ones, training=False), ones)
    first, second = (np.array(layer(ones, training=True)) for _ in range(2))
    size, shares = first.size, []
    for values in (first, second):
        dropped = values == 0
        np.testing.assert_allclose(values[~dropped], 1 / 0.9, rtol=1e-6)
        shares.append((dropped.mean(), 0.1))
        # Both halves of a random number decide, each for itself.
        for axis in range(3):
            half = shape[axis] // 2
            one, other = np.split(np.take(dropped, range(2 * half), axis), 2, axis)
            shares.append(((one & other).mean(), 0.01))
    shares.append((((first == 0) & (second == 0)).mean(), 0.01))
    for share, wanted in shares:
        assert abs(share - wanted) < 5 * (2 * wanted / size) ** 0.5
