"""Release checkpoints are found by any kind of path, loaded by name, and readable by TF 1."""

import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.io import files
from bert_tf.modeling import BertClassifier, BertModel, BertPretrainer
from tests.common import TINY, tiny, write_hugging_face, write_release


@pytest.fixture(scope="module")
def prefix(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("model") / "bert_model.ckpt")
    checkpoints.write(path, checkpoints.tensors(BertPretrainer(TINY)))
    return path


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
def test_find(prefix, suffix):
    folder = pathlib.Path(prefix).parent
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
        ("good", {"intermediate_size": 64}, r"\(16, 32\), expected \(16, 64\)"),
        ("good", {"num_hidden_layers": 3}, "2 layers, expected 3"),
        ("good", {"num_hidden_layers": 1}, "2 layers, expected 1"),
        ("cut.index", {}, "cut/good"),
        ("cut.data-00000-of-00001", {}, "cut/good"),
    ],
)
def test_errors(prefix, tmp_path, name, change, message):
    (tmp_path / "text").write_text("hello")
    checkpoints.write(str(tmp_path / "foreign"), {"x": np.zeros(2, "float32")})
    (tmp_path / "cut").mkdir()
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(prefix + ending, tmp_path / f"good{ending}")
        whole = (tmp_path / f"good{ending}").read_bytes()
        size = len(whole) // 2 if name == f"cut{ending}" else len(whole)
        (tmp_path / "cut" / f"good{ending}").write_bytes(whole[:size])
    path = "cut/good" if name.startswith("cut") else name
    with pytest.raises(bert_tf.UserError, match=message):
        checkpoints.warm_start(BertModel(tiny(**change)), str(tmp_path / path))


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
