"""Checkpoints are found by any path; weights are loaded by name into any Keras model."""

import json
import pathlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.checkpoints.hugging_face import HuggingFaceFolder
from bert_tf.io import files
from bert_tf.modeling import BertClassifier, BertModel, BertTokenClassifier
from tests.common import TINY, tiny, write_hugging_face, write_release


def test_head_rows_are_matched_by_label(tmp_path, caplog):
    """Labels come from id2label or tagger.json; without labels, rows keep their order."""
    caplog.set_level("INFO")
    model, labels = BertClassifier(TINY, 3), ("O", "B-X", "I-X")
    path = str(tmp_path / "head" / "model.ckpt-1")
    values = {n: v.numpy() for n, v in checkpoints.weights(model).items()}
    values["output_bias"] = np.array([2, 0, 1], "float32")
    checkpoints.write(path, values)
    head = [checkpoints.weights(model)[name] for name in ("output_weights", "output_bias")]

    def load(name, metadata, **options):
        (tmp_path / "head" / name).write_text(json.dumps(metadata))
        for variable in head:
            variable.assign(np.zeros(variable.shape))
        checkpoints.warm_start(model, path, labels=labels, **options)
        return [variable.numpy() for variable in head]

    def ids(*names):
        return {"id2label": dict(enumerate(names))}

    for names in (("LABEL_0", "LABEL_1", "LABEL_2"), labels, ("a", "b")):
        matrix, bias = load("config.json", {**TINY.to_dict(), **ids(*names)})
        np.testing.assert_array_equal(matrix, values["output_weights"])
        assert bias.tolist() == [2, 0, 1]
    assert "head of" not in caplog.text
    mixed = {**TINY.to_dict(), **ids("I-X", "O", "B-X")}
    for name, metadata in (
        ("config.json", mixed),
        ("tagger.json", {"data_scheme": "iob2", "names": ["I-X", "O", "B-X"]}),
    ):
        matrix, bias = load(name, metadata, require_all=True)
        np.testing.assert_array_equal(matrix, values["output_weights"][[1, 2, 0]])
        assert bias.tolist() == [0, 1, 2]
        assert "reordered" in caplog.text and "I-X, O, B-X, the model has" in caplog.text
        caplog.clear()
    other = {"data_scheme": "iob2", "names": ["O", "B-Y", "I-Y"]}
    _, bias = load("tagger.json", other)
    assert bias.tolist() == [0, 0, 0] and "randomly initialized: output_weights" in caplog.text
    with pytest.raises(bert_tf.UserError, match=r"cannot use its head: .*O, B-Y, I-Y"):
        load("tagger.json", other, require_all=True)


@pytest.mark.parametrize("suffix", ["", ".index", ".meta", ".data-00000-of-00001", "folder", "C:"])
def test_find(release, suffix):
    folder, prefix = pathlib.Path(release), f"{release}/bert_model.ckpt"
    if suffix == "C:":  # moved from Windows
        (folder / "checkpoint").write_text(r'model_checkpoint_path: "C:\\out\\bert_model.ckpt"')
    path = folder if suffix in ("folder", "C:") else prefix + suffix
    assert checkpoints.find(str(path)) == prefix


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("none", {}, "`init_checkpoint`.*none"),
        ("", {}, "`init_checkpoint`: found foreign.index, good.index"),
        ("text", {}, "`init_checkpoint`.*text"),
        ("foreign", {}, "foreign: .* x, "),
        ("good", {"vocab_size": 60}, r"word_embeddings: .*\(50, 16\), expected \(60, 16\)"),
        ("good", {"num_hidden_layers": 3}, "2 layers, expected 3"),
        ("good .index", {}, "good"),
        ("good .data-00000-of-00001", {}, "good"),
    ],
)
def test_errors(release, tmp_path, name, change, message):
    (tmp_path / "text").write_text("hello")
    checkpoints.write(str(tmp_path / "foreign"), {"x": np.zeros(2, "float32")})
    name, _, cut = name.partition(" ")
    for ending in (".index", ".data-00000-of-00001"):
        data = pathlib.Path(f"{release}/bert_model.ckpt{ending}").read_bytes()
        size = len(data) // (2 if cut == ending else 1)
        (tmp_path / f"good{ending}").write_bytes(data[:size])
    with pytest.raises(bert_tf.UserError, match=message):
        checkpoints.warm_start(BertModel(tiny(**change)), str(tmp_path / name))


def test_failed_write_leaves_the_previous_checkpoint(tmp_path, monkeypatch):
    prefix = str(tmp_path / "model.ckpt-1")
    checkpoints.write(prefix, {"x": np.zeros(2, "float32")})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(**_):
        raise tf.errors.ResourceExhaustedError(None, None, "no space left")

    monkeypatch.setattr(tf.raw_ops, "SaveV2", full)
    with pytest.raises(bert_tf.UserError, match=r"cannot be written .no space left"):
        checkpoints.write(prefix, {"x": np.ones(2, "float32")})
    monkeypatch.undo()
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

    def gone(source, target, overwrite=False):
        raise tf.errors.UnavailableError(None, None, "gone")

    monkeypatch.setattr(files.Local, "rename", staticmethod(gone))
    with pytest.raises(bert_tf.UserError, match=r"cannot be written .gone"):
        checkpoints.write(str(tmp_path / "model.ckpt-2"), {"x": np.ones(2, "float32")})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_weights_that_are_not_finite_are_refused(tmp_path):
    """Covers TF1 checkpoints and safetensors, both when loaded and when converted."""
    model, name = BertModel(TINY), "bert/encoder/layer_1/output/dense/bias"
    checkpoints.weights(model)[name].assign([np.nan] * 3 + [0.0] * 13)
    (tmp_path / "release").mkdir()
    write_release(tmp_path / "release", model)
    write_hugging_face(tmp_path / "hf", model)
    message = f"3 of the 16 values of {name}"
    for path in ("release", "hf"):
        with pytest.raises(bert_tf.UserError, match=message):
            checkpoints.warm_start(model, str(tmp_path / path))
        with pytest.raises(bert_tf.UserError, match=message):
            checkpoints.convert(str(tmp_path / path), str(tmp_path / "out"), "release")
    assert not (tmp_path / "out").exists()


# Weights of frozen, LoRA and user-built Keras models.


def assert_encoder_equals(model, release):
    source = checkpoints.ReleaseCheckpoint(release)
    loaded = [name for name in checkpoints.tensors(model) if name in source.shapes]
    assert sum(name.startswith("bert/encoder") for name in loaded) >= 16
    for name in loaded:
        np.testing.assert_array_equal(checkpoints.tensors(model)[name], source.tensor(name))


def test_frozen_models_have_all_weights(release, tmp_path):
    model = BertClassifier(TINY, 2)
    names = set(checkpoints.weights(model))
    assert len(names) == len(model.trainable_variables)
    model.get_layer("bert").trainable = False
    assert set(checkpoints.weights(model)) == names
    model.trainable = False
    assert set(checkpoints.weights(model)) == names
    checkpoints.warm_start(model, release)
    assert_encoder_equals(model, release)
    written = str(tmp_path / "hugging_face")
    checkpoints.write_hugging_face(written, checkpoints.tensors(model), model.config)
    assert set(HuggingFaceFolder(written).shapes) == names


def test_warm_start_of_models_with_other_structure(release, tmp_path):
    encoder = BertModel(TINY)
    lower = keras.Model(encoder.input, encoder.get_layer("layer_0").output)
    checkpoints.warm_start(lower, release)
    table = encoder.embeddings.word_embeddings
    source = checkpoints.ReleaseCheckpoint(release)
    np.testing.assert_array_equal(table, source.tensor("bert/embeddings/word_embeddings"))

    class Wrapped(keras.Model):
        """A subclassed model that builds its encoder late, so that all paths have a prefix."""

        def build(self, _):
            self.encoder = BertModel(TINY)

    wrapped = Wrapped()
    wrapped.build(None)
    checkpoints.warm_start(wrapped, release)
    assert_encoder_equals(wrapped, release)
    dense = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    with pytest.raises(bert_tf.UserError, match="has no BERT weights"):
        checkpoints.warm_start(dense, release)

    class Two(keras.Model):
        """A subclassed model with two encoders."""

        def __init__(self):
            super().__init__()
            self.encoders = [BertModel(TINY), BertModel(TINY)]

    with pytest.raises(bert_tf.UserError, match=r"two weights bert/embeddings/word_embeddings"):
        checkpoints.warm_start(Two(), release)


def test_tensors_of_lora(release):
    model = BertClassifier(TINY, 2)
    model.enable_lora(2, ["value"], alpha=6)
    checkpoints.warm_start(model, release)
    assert_encoder_equals(model, release)
    value = model.get_layer("bert").get_layer("layer_1").value
    value.lora_kernel_b.assign(np.full(value.lora_kernel_b.shape, 0.1))
    kernel = checkpoints.tensors(model)["bert/encoder/layer_1/attention/self/value/kernel"]
    np.testing.assert_allclose(kernel, value.kernel, atol=1e-6)
    assert np.abs(kernel - value._kernel).max() > 0.01
    with pytest.raises(bert_tf.UserError, match=r"`checkpoints.tensors\(model\)`"):
        checkpoints.weights(model)


@pytest.mark.slow
def test_quantized_models_have_no_weights_by_name(release):
    model = BertClassifier(TINY, 2)
    model.quantize("int8")
    for call in (checkpoints.tensors, lambda model: checkpoints.warm_start(model, release)):
        with pytest.raises(bert_tf.UserError, match=r"quantized.*before `quantize`"):
            call(model)


# ---------------------------------------------------------------- from_preset


@pytest.mark.parametrize(
    ("preset", "message"),
    [
        ("uncased_L-12_H-768_A-13", "`preset`: .*A-13.*neither"),
        ("x.keras", "`preset`: .*next to x.keras; x.keras is a Keras file, for keras"),
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
    (tmp_path / "config").mkdir()
    (tmp_path / "x.keras").touch()
    (tmp_path / "config" / files.CONFIG).write_text(TINY.to_json_string())
    (tmp_path / "config" / (weights or files.CONFIG)).open("a").close()
    with pytest.raises(bert_tf.UserError, match=message):
        BertModel.from_preset(preset)


def test_num_labels_of_a_preset(release, tmp_path, caplog):
    with pytest.raises(bert_tf.UserError, match=r"`num_labels` must be given: .* neither a class"):
        BertClassifier.from_preset(release)
    BertClassifier.from_preset(release, num_labels=3)
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
