"""Weights loaded by name into frozen, LoRA and user-built Keras models; `from_preset`."""

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.checkpoints.hugging_face import HuggingFaceFolder
from bert_tf.io import files
from bert_tf.modeling import BertClassifier, BertModel, BertPretrainer, BertTokenClassifier
from tests.common import TINY


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the weights and the config of a pre-trained model."""
    folder = tmp_path_factory.mktemp("preset")
    checkpoints.write(str(folder / "bert_model.ckpt"), checkpoints.tensors(BertPretrainer(TINY)))
    (folder / files.CONFIG).write_text(TINY.to_json_string())
    return str(folder)


def assert_encoder_equals(model, folder):
    source = checkpoints.ReleaseCheckpoint(folder)
    loaded = [name for name in checkpoints.tensors(model) if name in source.shapes]
    assert sum(name.startswith("bert/encoder") for name in loaded) >= 16
    for name in loaded:
        np.testing.assert_array_equal(checkpoints.tensors(model)[name], source.tensor(name))


def test_frozen_models_have_all_weights(folder, tmp_path):
    model = BertClassifier(TINY, 2)
    names = set(checkpoints.weights(model))
    assert len(names) == len(model.trainable_variables)
    model.get_layer("bert").trainable = False
    assert set(checkpoints.weights(model)) == names
    model.trainable = False
    assert set(checkpoints.weights(model)) == names
    checkpoints.warm_start(model, folder)
    assert_encoder_equals(model, folder)
    written = str(tmp_path / "hugging_face")
    checkpoints.write_hugging_face(written, checkpoints.tensors(model), model.config)
    assert set(HuggingFaceFolder(written).shapes) == names


def test_warm_start_of_models_with_other_structure(folder, tmp_path):
    encoder = BertModel(TINY)
    lower = keras.Model(encoder.input, encoder.get_layer("layer_0").output)
    checkpoints.warm_start(lower, folder)
    table = encoder.embeddings.word_embeddings
    source = checkpoints.ReleaseCheckpoint(folder)
    np.testing.assert_array_equal(table, source.tensor("bert/embeddings/word_embeddings"))

    class Wrapped(keras.Model):
        """A subclassed model that builds its encoder late, so that all paths have a prefix."""

        def build(self, _):
            self.encoder = BertModel(TINY)

    wrapped = Wrapped()
    wrapped.build(None)
    checkpoints.warm_start(wrapped, folder)
    assert_encoder_equals(wrapped, folder)
    dense = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(bert_tf.UserError, match="has no BERT weights"):
        checkpoints.warm_start(dense, folder)

    class Two(keras.Model):
        """A subclassed model with two encoders."""

        def __init__(self):
            super().__init__()
            self.encoders = [BertModel(TINY), BertModel(TINY)]

    with pytest.raises(bert_tf.UserError, match=r"two weights bert/embeddings/word_embeddings"):
        checkpoints.warm_start(Two(), folder)


def test_tensors_of_lora(folder):
    model = BertClassifier(TINY, 2)
    model.enable_lora(2, ["value"], alpha=6)
    checkpoints.warm_start(model, folder)
    assert_encoder_equals(model, folder)
    value = model.get_layer("bert").get_layer("layer_1").value
    value.lora_kernel_b.assign(np.full(value.lora_kernel_b.shape, 0.1))
    kernel = checkpoints.tensors(model)["bert/encoder/layer_1/attention/self/value/kernel"]
    np.testing.assert_allclose(kernel, value.kernel, atol=1e-6)
    assert np.abs(kernel - value._kernel).max() > 0.01
    with pytest.raises(bert_tf.UserError, match=r"`checkpoints.tensors\(model\)`"):
        checkpoints.weights(model)


@pytest.mark.slow
def test_quantized_models_have_no_weights_by_name(folder):
    model = BertClassifier(TINY, 2)
    model.quantize("int8")
    for call in (checkpoints.tensors, lambda model: checkpoints.warm_start(model, folder)):
        with pytest.raises(bert_tf.UserError, match=r"quantized.*before `quantize`"):
            call(model)


# ---------------------------------------------------------------- from_preset


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("uncased_L-12_H-768_A-13", "`preset`: .*A-13.*neither"),
        ("/there/is/no/folder", "`preset`: .*/folder.*neither a folder"),
        ("empty", "`preset`: .*there is no bert_config.json or config.json in empty"),
        ("x.keras", "`preset`: .*next to x.keras; x.keras is a Keras file, for keras"),
        ("config", "`preset`: found none in the folder .*, expected one checkpoint$"),
        ("config/bert_config.json", "`preset`: .* is not a checkpoint .*; pass its folder, config"),
        *((f"config {name}", f"expected one checkpoint; {name} is .*{advice}") for name, advice in (
            ("pytorch_model-00001-of-00002.bin", "save_pretrained"), ("tf_model.h5", "from_tf"),
            ("adapter_model.safetensors", "PEFT"), ("model.weights.h5", "`load_weights`"),
        )),
    ],
)  # fmt: skip
def test_wrong_presets(tmp_path, monkeypatch, preset, message):
    monkeypatch.chdir(tmp_path)
    preset, _, weights = preset.partition(" ")
    (tmp_path / "empty").mkdir()
    (tmp_path / "config").mkdir()
    (tmp_path / "x.keras").touch()
    (tmp_path / "config" / files.CONFIG).write_text(TINY.to_json_string())
    (tmp_path / "config" / (weights or files.CONFIG)).open("a").close()
    with pytest.raises(bert_tf.UserError, match=message):
        BertModel.from_preset(preset)


def test_num_labels_of_a_preset(folder, tmp_path, caplog):
    with pytest.raises(bert_tf.UserError, match=r"`num_labels` must be given: .* neither a class"):
        BertClassifier.from_preset(folder)
    BertClassifier.from_preset(folder, num_labels=3)
    (line,) = [x.getMessage() for x in caplog.records if x.levelname == "WARNING"]
    assert "randomly initialized: output_weights, output_bias" in line
    caplog.clear()
    trained = BertClassifier(TINY, 4)
    run = tmp_path / "run"
    checkpoints.write(str(run / "model.ckpt-1"), checkpoints.tensors(trained))
    (run / files.CONFIG).write_text(TINY.to_json_string())
    model = BertClassifier.from_preset(run)
    np.testing.assert_array_equal(model.get_weights()[-1], trained.get_weights()[-1])
    assert BertTokenClassifier.from_preset(run, load_weights=False).output["logits"].shape[-1] == 4
    assert not [x for x in caplog.records if x.levelname == "WARNING"]
    checkpoints.write_hugging_face(
        str(tmp_path / "hf"), checkpoints.tensors(BertModel(TINY)), TINY, labels=[1, 2.5, 3]
    )
    assert checkpoints.read_metadata(str(tmp_path / "hf"))["labels"] == ["1", "2.5", "3"]
    with pytest.raises(bert_tf.UserError, match=r"lacks output_weights.* BertModel, .* fine-tuned"):
        checkpoints.warm_start(trained, str(tmp_path / "hf"), require_all=True)
    assert BertClassifier.from_preset(tmp_path / "hf").output["logits"].shape[-1] == 3
