"""Python containers with named columns are tables."""

import math

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data.columns import named_rows
from bert_tf.data.containers import from_columns
from bert_tf.tasks.classification.examples import examples_of
from bert_tf.tasks.classification.glue import custom_dataset

COLUMNS = {"text": ["007", "NA", "ä"], "n": [1, None, 3], "tags": [["x"], [], ["y", "z"]]}
ROWS = [dict(zip(COLUMNS, row, strict=True)) for row in zip(*COLUMNS.values(), strict=True)]
NUMBERS = {"text": ["a", "b"], "x": [[0.5, 1.0], [2.0, 3.0]], "is": [True, False]}


def frame(data, **options):
    return pytest.importorskip("pandas").DataFrame(data, **options)


def dataset(columns, form=None):
    if form == "torch":
        pytest.importorskip("torch")
    data = pytest.importorskip("datasets").Dataset.from_dict(columns)
    if form == "custom":
        data.set_transform(lambda batch: batch)
        return data
    return data.with_format(form)


RAGGED = {x: COLUMNS[x] for x in ("text", "tags")}
slices = tf.data.Dataset.from_tensor_slices
CONTAINERS = {
    "lists": (lambda: COLUMNS, COLUMNS),
    "dicts": (lambda: ROWS, COLUMNS),
    "sparse dicts": (lambda: [{"a": 1}, {"b": b"x"}], {"a": [1, None], "b": [None, "x"]}),
    "frame": (lambda: frame(COLUMNS), COLUMNS),
    "nullable": (lambda: frame(COLUMNS).astype({"n": "Int64", "text": "string"}), COLUMNS),
    "numbered": (lambda: frame([["a", 1]]), {"0": ["a"], "1": [1]}),
    "polars": (lambda: pytest.importorskip("polars").DataFrame(COLUMNS), COLUMNS),
    **{f"datasets {x}": (lambda x=x: dataset(COLUMNS, x), COLUMNS)
       for x in (None, "numpy", "torch", "pandas", "custom")},
    "arrays": (lambda: {x: np.array(y) for x, y in NUMBERS.items()}, NUMBERS),
    "tensors": (lambda: {x: tf.constant(y) for x, y in NUMBERS.items()}, NUMBERS),
    "ragged": (lambda: {"tags": tf.ragged.constant(COLUMNS["tags"])}, {"tags": COLUMNS["tags"]}),
    "tf.data": (lambda: slices(NUMBERS), NUMBERS),
    "batches": (lambda: slices(NUMBERS).batch(2), NUMBERS),
    "ragged batches": (lambda: slices(
        {"text": COLUMNS["text"], "tags": tf.ragged.constant(COLUMNS["tags"])}).batch(2), RAGGED),
    "a row": (lambda: {"text": "abc", "n": [1, 2]}, {"text": ["abc"], "n": [[1, 2]]}),
    "a row of tensors": (lambda: {"text": tf.constant("abc")}, {"text": ["abc"]}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTAINERS)
def test_names_and_rows(name):
    make, expected = CONTAINERS[name]
    table = from_columns(make(), "texts")
    names, rows = named_rows(table)
    rows = list(rows)
    assert sorted(names) == sorted(expected)
    assert rows[0][0] == "`texts`, item 0"
    for column, values in expected.items():
        found = [row[column] for _, row in rows]
        found = [None if isinstance(x, float) and math.isnan(x) else x for x in found]
        assert found == values and list(map(type, found)) in (
            list(map(type, values)),
            [float if type(x) is int else type(x) for x in values],  # pandas with NaN
        )


@pytest.mark.parametrize("values", ["a", ["a"], [("a", "b")], np.array(["a"]), None, []])
def test_other_values_are_not_tables(values):
    assert from_columns(values, "texts") is None
    assert from_columns(tf.data.Dataset.from_tensors(("a", "b")), "texts") is None


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: frame([["a", "b"]], columns=["x", "x"]), "`texts`.*'x'"),
        (lambda: {"text": ["a"], "label": [0, 1]}, "`texts`.*text 1, label 2"),
        (lambda: {}, "`texts`"),
        (lambda: {"text": [b"\xff"], "label": [0]}, "`texts`, item 0: not UTF-8"),
        (lambda: [{"text": "a", "label": 0}, "b"], "`texts`, item 1"),
        (lambda: {"text": ["a", None], "label": [0, 1]}, "`texts`, item 1: text is empty"),
    ],
)
def test_errors_name_the_argument(make, named):
    with pytest.raises(bert_tf.UserError, match=named):
        examples_of(from_columns(make(), "texts"), custom_dataset(), "train")
