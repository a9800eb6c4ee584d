"""Vector files: JSON lines and NumPy arrays."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.features.pipeline import TextVectors, array_writer, json_line


def test_numbers_are_rounded_as_by_python():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 1, 200)).astype("float32")
    values[0, 0] = np.arange(200) / 128  # ties
    values[1, 0] = -np.arange(200) / 2**20
    values[2, 0] *= 1e-6
    line = json_line(0, TextVectors(["a"] * 50, [-1], values))
    for token, row in zip(json.loads(line)["features"], values, strict=True):
        assert token["layers"][0]["values"] == [round(float(x), 6) for x in row[0]]


def test_an_array_with_missing_rows_is_an_error(tmp_path):
    path = tmp_path / "new"
    with (
        pytest.raises(bert_tf.UserError, match=f"{path}: found 2 rows, expected 3"),
        array_writer(str(path), 3, 4) as write,
    ):
        write(np.zeros(4))
        write(np.zeros(4))
    assert not list(tmp_path.iterdir())
