"""`.keras` files and clones: frozen layers, users' functional models, LoRA, int8."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import modeling
from bert_tf.modeling import BertClassifier, BertModel, MaskedLMHead
from tests.common import TINY, features, tiny
from tests.modeling.conftest import assert_same_outputs

SMALLER = tiny(num_hidden_layers=1)


def reload(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.saving.load_model(tmp_path / "model.keras")


def trainable_names(model):
    return [variable.path for variable in model.trainable_variables]


def train(model, steps=2):
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    # Tracing would take most of the time.
    model.compile("adam", {"logits": loss}, run_eagerly=True)
    batch = {name: features()[name] for name in model.input}
    model.fit(batch, {"logits": np.arange(3) % 2}, epochs=steps, verbose=0)


def head_on_outputs(bert):
    """Return a user's model that extends the encoder's graph."""
    logits = keras.layers.Dense(2, name="answer")(bert.output["pooled_output"])
    return keras.Model(bert.input, logits)


def head_on_model(bert):
    """Return a user's model with the encoder as a layer."""
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in bert.input}
    return keras.Model(inputs, keras.layers.Dense(2, name="answer")(bert(inputs)["pooled_output"]))


def encoder_of(model):
    return next((x for x in model.layers if isinstance(x, BertModel)), model)


def train_a_part(encoder):
    """Freeze a model, then train one of its layers without one of its sublayers."""
    encoder.trainable = False
    encoder.get_layer("layer_1").trainable = True
    encoder.get_layer("layer_1").key.trainable = False


@pytest.mark.parametrize(
    ("make", "freeze"),
    [
        (lambda _: BertClassifier(TINY, 2), train_a_part),
        (head_on_outputs, lambda x: setattr(x.get_layer("layer_0").query, "trainable", False)),
        pytest.param(head_on_model, train_a_part, marks=pytest.mark.slow),
    ],
)
def test_files_and_clones_keep_layers_frozen(tmp_path, make, freeze):
    model = make(BertModel(TINY))
    before = trainable_names(model)
    freeze(encoder_of(model))
    frozen = trainable_names(model)
    assert len(frozen) < len(before)
    loaded = reload(model, tmp_path)
    assert trainable_names(loaded) == frozen
    assert_same_outputs(loaded, model)
    assert trainable_names(keras.models.clone_model(model)) == frozen


@pytest.mark.parametrize(("num_layers", "count"), [(0, 36), (1, 20), (2, 4), (None, 2)])
def test_freeze(num_layers, count):
    model = BertClassifier(TINY, 2)
    model.freeze(num_layers)
    assert len(model.trainable_variables) == count


@pytest.mark.parametrize(
    ("method", "arguments", "match"),
    [
        ("freeze", [-1], "`num_layers=-1`.*2"),
        ("freeze", [3], "`num_layers=3`.*2"),
        ("enable_lora", [2, ["querry"]], "`target_layer_names`.*querry.*query"),
        ("enable_lora", [0], "`rank=0`"),
        ("enable_lora", [2, []], "`target_layer_names`.*none.*query"),
    ],
)
def test_layers_that_do_not_exist_are_an_error(method, arguments, match):
    with pytest.raises(bert_tf.UserError, match=match):
        getattr(BertClassifier(TINY, 2), method)(*arguments)


# ---------------------------------------------------------------- graphs of layers


def layers_by_hand():
    """Return a user's encoder with a masked-LM head, built from layers of bert_tf."""
    ids, mask, segments, positions = (
        keras.Input((None,), dtype="int32", name=name)
        for name in ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")
    )
    embeddings = modeling.Embeddings(TINY)
    x = modeling.TransformerLayer(TINY, name="layer_0")(embeddings(ids, segments), mask)
    logits = MaskedLMHead(TINY, embeddings)(x, positions)
    inputs = {tensor.name: tensor for tensor in (ids, mask, segments, positions)}
    return keras.Model(inputs, {"words": logits, "classes": modeling.Projection(3, 0.02)(x)})


def head_in_a_graph():
    """Return a masked-LM head whose embedding table is in a nested model."""
    model = modeling.BertPretrainer(TINY)
    return keras.Model(model.input, keras.ops.softmax(model.output["masked_lm_logits"]))


@pytest.mark.parametrize("make", [layers_by_hand, head_in_a_graph])
def test_the_masked_lm_head_keeps_its_table(tmp_path, make):
    model = make()
    clone = keras.models.clone_model(model)
    for copy in (reload(model, tmp_path), clone):
        copy.set_weights(model.get_weights())
        assert_same_outputs(copy, model)
        paths = [variable.path for variable in copy.variables]
        (table,) = [v for v in copy.variables if v.path.endswith("word_embeddings")]
        assert len(paths) == len(model.variables)
        table.assign(np.zeros(table.shape))
        words = keras.tree.flatten(copy({k: features()[k] for k in copy.input}))
        assert any(np.ptp(np.array(x), axis=-1).max() < 1e-6 for x in words)


def test_a_masked_lm_head_with_a_different_table_is_not_saved():
    bert, other = BertModel(TINY), BertModel(TINY)
    head = MaskedLMHead(TINY, other.embeddings)
    head(bert.output["sequence_output"], keras.Input((None,), dtype="int32"))
    with pytest.raises(bert_tf.UserError, match="masked_lm"):
        head.get_config()


# ---------------------------------------------------------------- LoRA and int8


def lora_matrices(model):
    names = ("lora_kernel_a", "lora_kernel_b")
    return {v.path: np.array(v) for v in model.variables if v.path.endswith(names)}


@pytest.mark.parametrize("dtype", [None, pytest.param("mixed_bfloat16", marks=pytest.mark.slow)])
def test_lora(tmp_path, dtype):
    model = BertClassifier(TINY, 2, dtype=dtype)
    batch = {name: features()[name] for name in model.input}
    before = np.array(model(batch)["logits"])
    model.enable_lora(2, alpha=4)
    np.testing.assert_array_equal(model(batch)["logits"], before)
    # A, B and the bias for 2 layers and 2 targets, and the head.
    assert len(model.trainable_variables) == 2 * 2 * 3 + 2
    kernel = np.array(encoder_of(model).get_layer("layer_0").query._kernel)
    train(model)
    loaded = reload(model, tmp_path)
    assert trainable_names(loaded) == trainable_names(model)
    assert_same_outputs(loaded, model)
    query = encoder_of(loaded).get_layer("layer_0").query
    np.testing.assert_array_equal(query._kernel, kernel)
    assert (query.lora_rank, query.lora_alpha) == (2, 4)
    saved = lora_matrices(loaded)
    for path, value in lora_matrices(model).items():
        np.testing.assert_array_equal(saved[path], value)
    train(loaded)
    assert all(np.abs(x - saved[path]).max() > 0 for path, x in lora_matrices(loaded).items())
    np.testing.assert_array_equal(query._kernel, kernel)


def test_lora_in_a_model_of_the_user(tmp_path):
    bert = BertModel(TINY)
    bert.enable_lora(3, ("query", "output_dense", "pooler"))
    model = head_on_outputs(bert)
    for _, layer in bert_tf.modeling.layer_states.named_layers(model):
        if getattr(layer, "lora_enabled", False):
            layer.lora_kernel_b.assign(np.full(layer.lora_kernel_b.shape, 0.1))
    for copy in (reload(model, tmp_path), keras.models.clone_model(model)):
        assert trainable_names(copy) == trainable_names(model)
        copy.set_weights(model.get_weights())
        assert_same_outputs(copy, model)


@pytest.mark.slow
def test_quantized_model_of_the_user(tmp_path):
    model = head_on_outputs(BertModel(SMALLER))
    batch = {name: features()[name] for name in model.input}
    before = np.array(model(batch))
    model.quantize("int8")
    assert 0 < np.abs(np.array(model(batch)) - before).max() < 0.1
    assert_same_outputs(reload(model, tmp_path), model)


def test_quantized_by_a_policy():
    policies = keras.dtype_policies.DTypePolicyMap("float32")
    policies["layer_0/query"] = "int8_from_float32"
    model = BertModel(SMALLER, dtype=policies)
    assert model.get_layer("layer_0").query.quantization_mode == "int8"
    copy = BertModel.from_config(model.get_config())
    copy.set_weights(model.get_weights())
    assert_same_outputs(copy, model)


@pytest.mark.parametrize("mode", [None, pytest.param("int8", marks=pytest.mark.slow)])
def test_presets(tmp_path, mode, recwarn):
    options = {"num_labels": 3, "dtype": "mixed_bfloat16"}
    model = BertClassifier(SMALLER, **options)
    if mode:
        options = {}  # they are saved
        train(model, steps=1)
        model.quantize(mode)
        assert not [x for x in recwarn if "quantize" in str(x.message)]
    model.save_to_preset(tmp_path)
    loaded = BertClassifier.from_preset(tmp_path, trainable=False, **options)
    assert loaded.dtype_policy.name == "mixed_bfloat16" and not loaded.trainable_variables
    assert_same_outputs(loaded, model)
