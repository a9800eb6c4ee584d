"""The one rule for labels: a table of values, in every container."""

import decimal
import enum

import numpy as np
import pytest

import bert_tf
from bert_tf.data.labels import Labels

pd = pytest.importorskip("pandas")
tf = pytest.importorskip("tensorflow")

WORDS, NUMBERS, BINARY = ("neg", "pos"), ("1", "2", "10", "0.5"), ("0", "1")
MULTI, SCORE = "multi_label", "regression"


class Fails(str):
    """The reason why a value is not a label, as a regular expression."""


def check(expected, function, *arguments):
    """Check the result of a function or, for `Fails`, its error."""
    if isinstance(expected, Fails):
        with pytest.raises(ValueError, match=expected):
            function(*arguments)
    else:
        result = function(*arguments)
        assert result == expected and type(result) is type(expected)


# (labels, equivalent values, expected)
ONE = [
    (WORDS, ["pos", " pos\n", b"pos", np.str_("pos"), ["pos"], {"pos"}, np.array([b"pos"])], "pos"),
    (WORDS, [1, 1.0, np.uint8(1), np.float32(1), decimal.Decimal(1), [1], tf.constant([1])], "pos"),
    (WORDS, [2, -1, -2.0, 0.5, 1e300, float("inf"), "1", "Pos", "-1", "nan", "NA"],
     Fails("one of neg, pos")),  # a text is never an index
    (WORDS, [True, np.bool_(False)], Fails("one of neg, pos; convert it")),
    (WORDS, [None, float("nan"), np.float32("nan"), pd.NA, pd.NaT, " \t", b""], None),
    (WORDS, [{"a": 1}, {"pos", "neg"}, ["neg", "pos"]], Fails("expected a label|multi_label")),
    (WORDS, [pd.Period("2020"), pd.Timestamp("2020"), enum.Enum("Mood", "pos").pos],
     Fails("expected a label.*to text, .*astype")),
    (WORDS, [b"\xff", "a\0b", "\ud800"], Fails("utf-8|NUL|surrogate")),
    (NUMBERS, ["1", 1, 1.0, np.int8(1)], "1"),
    (NUMBERS, [0.5, np.float32(0.5), "0.5", decimal.Decimal("0.50")], "0.5"),
    (NUMBERS, [0, 3, "01", "1.0", "0.50", True, "１"], Fails("one of 1, 2, 10, 0.5")),
    (("0.1", "0"), [np.float32(0.1), pd.Series([0.1], dtype="float32")], "0.1"),
    (("-1", "0"), [-0.0, np.float32(-0.0)], "0"),
    (("01", "02"), [1, 1.0, 0, True], Fails("one of 01, 02")),
    (("1.0", "5.0"), [1.0, "1.0", np.float32(1)], "1.0"),
    (("False", "True"), [True, "True", np.bool_(True), 1], "True"),
    # A row has a probability for each label.
    (WORDS, [[0, 1], (0.0, 1.0), [False, True], np.eye(2)[1]], "pos"),
    (WORDS, [[0.25, 0.75], np.float32([0.25, 0.75]), tf.constant([0.25, 0.75])], (0.25, 0.75)),
    (WORDS, [[0.2505, 0.75]], (0.2505, 0.75)),
    (WORDS, [[0.26, 0.75], [1, 1], [0, 0], [-0.5, 1.5], [float("nan"), 1.0]], Fails("sum to 1")),
    (WORDS, [[0, 0, 1], []], Fails("[03] numbers, .* 2 labels")),
    # Labels of a training set before they are known
    ((), [True, "True"], "True"),
    ((), [1e21], "1" + 21 * "0"),
    ((), [[0, 1], ["a", "b"]], Fails("multi_label|0 labels")),
]  # fmt: skip

SETS = [
    (WORDS, [["pos"], {"pos"}, np.array(["pos"]), "pos", b" pos,", ",pos ,pos"], ("pos",)),
    (WORDS, ["pos,neg", ["pos", b"neg", "pos"]], ("pos", "neg")),
    (WORDS, [{0, 1}, frozenset([0, 1])], ("neg", "pos")),  # a set is not a row
    (WORDS, [[], set(), np.array([]), "", " ", [0, 0], np.zeros(2)], ()),
    # A row of 0 and 1 in every container
    (WORDS, [[0, 1], (0, 1), [0.0, 1.0], [False, True], np.array([0, 1]), tf.constant([0, 1]),
             pd.Series([0, 1]), np.array([0, 1], object)], ("pos",)),
    (WORDS, [[1, 1], [1.0, True]], ("neg", "pos")),
    (WORDS, [[1], np.array([1]), [1.0], 1], ("pos",)),  # an index
    (("a", "b", "c"), [[0, 2], {0, 2}, np.array([0, 2]), [0.0, 2.0]], ("a", "c")),
    (WORDS, [[0, 1, 1], np.zeros(3)], Fails("a row of 2")),
    (WORDS, [[0, 2], [-1], -1, ["x"], "pos;neg", "0,1", [0.5, 0.5], [True]],
     Fails("one of neg, pos")),
    (WORDS, [["pos", None], ["pos", ""]], Fails("missing")),
    (WORDS, [[["pos"]], {"pos": 1}, np.eye(2)], Fails("expected a label")),
    (WORDS, [None, float("nan"), pd.NA], None),
    # Labels that are numbers: floats and booleans are rows, and integers are labels.
    (BINARY, [[0.0, 1.0], [False, True]], ("1",)),
    (BINARY, [[0, 1], np.array([0, 1]), pd.Series([0, 1])], Fails("ambiguous")),
    (BINARY, [["0", "1"], "0,1", [0, "1"], [1, 1], {0, 1}], ("0", "1")),
    (BINARY, [[1], [1.0], "1", 1, ["1"]], ("1",)),
    (("5", "6", "7"), [[5, 7], np.array([5, 7]), [1, 0, 1]], ("5", "7")),
    (("5", "6", "7"), [[0, 2], [1]], Fails("one of 5, 6, 7")),
    ((), [["x", 2], ("x", 2.0)], ("x", "2")),
    ((), [[0, 1, 1]], Fails("different labels")),
]  # fmt: skip

SCORES = [
    ((), [2, "2", " 2.0 ", b"2", np.float32(2), [2], tf.constant(2.0)], 2.0),
    ((), [None, float("nan"), ""], None),
    ((), ["x", "nan", "1_0", "inf", 1e39, [1, 2], True, [], {}], Fails("score is")),
]  # fmt: skip

CASES = [
    pytest.param(names, task_type, value, expected, id=f"{task_type[:5]}-{names}-{type(value)}-{i}")
    for task_type, table in (("classification", ONE), (MULTI, SETS), (SCORE, SCORES))
    for names, values, expected in table
    for i, value in enumerate(values)
]


@pytest.mark.parametrize(("names", "task_type", "value", "expected"), CASES)
def test_the_rule(names, task_type, value, expected):
    labels = Labels(names, task_type)
    check(expected, labels.label_of, value)
    check(
        Fails("the label is missing") if expected is None else expected, labels.read_cells, [value]
    )


@pytest.mark.parametrize(
    ("names", "task_type", "cells", "expected"),
    [
        (WORDS, MULTI, ["0", " 1 "], ("pos",)),
        (BINARY, MULTI, [0, 1], ("1",)),
        (WORDS, MULTI, ["1", "2"], Fails("label pos is 2")),
        (WORDS, MULTI, [None, ""], Fails("missing")),
        (WORDS, "classification", ["0.25", "0.75"], (0.25, 0.75)),
        (WORDS, "classification", ["0.5", "0.6"], Fails("sum to 1")),
    ],
)
def test_a_column_for_each_label(names, task_type, cells, expected):
    check(expected, Labels(names, task_type).read_cells, cells)


@pytest.mark.parametrize(
    ("names", "class_names", "values", "expected"),
    [
        (("b", "a"), ("a", "b"), [0, np.int64(1), "a"], ["a", "b", "a"]),
        (("neg", "pos"), ("Pos", "Neg"), [0, 1, "neg"], ["pos", "neg", "neg"]),
        ((), ("a", "b"), [0, 1], ["a", "b"]),
        (("a", "b"), ("a", "b"), [-1], Fails("less than 2")),
        (("0", "1"), ("no", "yes"), [], Fails("data are no, yes, expected 0, 1")),
        (("a", "b"), ("b", "c"), [], Fails("data are b, c")),
    ],
)
def test_class_labels(names, class_names, values, expected):
    check(expected, lambda: list(map(Labels(names, class_names=class_names).label_of, values)))


def test_names_are_sorted_and_aliases_are_read():
    assert Labels.find(["no", "yes", "no", None, "maybe"]) == ("maybe", "no", "yes")
    assert Labels.find([("10", "9"), ("-1",), (), (0.5, 0.5)]) == ("-1", "9", "10")
    labels = Labels(WORDS, aliases={"negative": "neg"})
    assert [labels.label_of(x) for x in ("negative ", "neg")] == ["neg", "neg"]
    # A list of ids of a ClassLabel is not a row.
    assert Labels(("b", "a"), MULTI, ("a", "b")).label_of(np.array([0, 1])) == ("a", "b")


@pytest.mark.parametrize(
    ("task_type", "label", "expected"),
    [
        ("classification", "pos", 1),
        ("classification", None, 0),
        ("classification", (0.25, 0.75), [0.25, 0.75]),
        (MULTI, ("pos",), [0, 1]),
        (MULTI, None, [0, 0]),
        (SCORE, None, 0),
    ],
)
def test_targets(task_type, label, expected):
    labels = Labels(() if task_type == SCORE else WORDS, task_type)
    np.testing.assert_array_equal(labels.encode(label), expected)
    assert isinstance(expected, int) or labels.encode(label).dtype == "float32"
    if task_type == "classification":
        assert labels.row("pos").tolist() == [0, 1]


@pytest.mark.parametrize(
    ("task_type", "choice", "labels", "expected"),
    [
        ("classification", ["balanced"], ["x", "x", "x", "y"], (4 / 6, 2)),
        ("classification", "balanced", ["x", (0.5, 0.5)], (2 / 3, 2)),
        (MULTI, "balanced", [("x",), ("x", "y"), ("x",), ()], (1 / 3, 3)),
        ("classification", ["2", ".5"], [], (2, 0.5)),
        ("classification", {"y": 3}, [], (1, 3)),
        (SCORE, "balanced", [1.0], Fails("regression")),
        ("classification", "balanced", ["y", "y"], (1, 1)),  # no "x"
        (MULTI, "balanced", [("x",), ("x",), ("x", "y")], (1, 2)),
        ("classification", ["1"], [], Fails("x, y")),
        ("classification", {"z": 1}, [], Fails("'z'")),
        ("classification", {"x": -1}, [], Fails(r"-1\.0.* x, y")),
        ("classification", {"x": 1, 0: 2}, [], Fails("twice")),
    ],
)
def test_class_weights(task_type, choice, labels, expected):
    rule = Labels(("x", "y"), task_type)
    if isinstance(expected, Fails):
        with pytest.raises(bert_tf.UserError, match=f"`class_weight\\b.*{expected}"):
            rule.weights(choice, labels, "class_weight")
    else:
        assert rule.weights(choice, labels) == pytest.approx(expected)
