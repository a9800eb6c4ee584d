"""Vector files: JSON lines, TFRecords and NumPy arrays."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf import pipelines
from bert_tf.pipelines import vector_files
from bert_tf.pipelines.feature_extraction import TextVectors


def test_numbers_are_rounded_as_by_python():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 1, 200)).astype("float32")
    values[0, 0] = np.arange(200) / 128  # ties
    values[1, 0] = -np.arange(200) / 2**20
    values[2, 0] *= 1e-6
    line = vector_files.json_line(TextVectors(0, ["a"] * 50, [-1], values))
    for token, row in zip(json.loads(line)["features"], values, strict=True):
        assert token["layers"][0]["values"] == [round(float(x), 6) for x in row[0]]


def test_tfrecord(tmp_path):
    rng = np.random.default_rng(0)
    texts = [
        TextVectors(i, ["[CLS]", *"abcé"[:i], "[SEP]"], [0, -1], rng.normal(size=(i + 2, 2, 16)))
        for i in range(5)
    ]
    for dtype in ("float32", "float16"):
        path = str(tmp_path / dtype)
        with pipelines.vector_writer(path, "tfrecord", dtype) as write:
            for text in texts:
                write(text)
        records = pipelines.read_vectors(path)
        for text, (index, tokens, layers, values) in zip(texts, records, strict=True):
            assert (index, tokens, layers) == (text.index, text.tokens, ["0", "-1"])
            assert values.dtype == dtype
            np.testing.assert_array_equal(values, text.values.astype(dtype))


def test_errors(tmp_path):
    path = tmp_path / "new"
    for file_format, dtype in (("npz", "float32"), ("tfrecord", "float64")):
        with (
            pytest.raises(bert_tf.UserError, match=rf"{path}: found '(npz|float64)'"),
            pipelines.vector_writer(str(path), file_format, dtype),
        ):
            pass
    with (
        pytest.raises(bert_tf.UserError, match=f"{path}: found 2 rows, expected 3"),
        pipelines.array_writer(str(path), 3, 4) as write,
    ):
        write(np.zeros(4))
        write(np.zeros(4))
    assert not list(tmp_path.iterdir())
    path.write_bytes(b"no records")
    with pytest.raises(bert_tf.UserError, match=f"{path}: not a TFRecord file"):
        list(pipelines.read_vectors(str(path)))
