"""Errors in side files are one sentence that names the file and the field."""

import json
from typing import Annotated, NamedTuple

import pytest

import bert_tf
from bert_tf.io import json_files
from bert_tf.io.json_files import Count, Finite, Limits, Positive


class Entry(NamedTuple):
    size: Count
    records: int = 0


FIELDS = {
    "labels": list[str],
    "length": Positive,
    "scale?": {"mean": Finite},
    "entry?": Entry,
    "pooling?": Annotated[str, Limits(choices=("mean", "max"))],
    "stride?": Positive | None,
    "share?": Annotated[float, Limits(0.0, 1.0)],
    "lower?": bool,
    "columns?": dict,
    "names?": dict[str, str] | None,
}
VALID = {
    "labels": ["a", "b"], "length": 3, "scale": {"mean": 1, "x": 0}, "pooling": "max",
    "stride": None, "lower": True, "columns": {}, "other": [1],
}  # fmt: skip


def read(tmp_path, text):
    (tmp_path / "side.json").write_text(text)
    return json_files.read(str(tmp_path / "side.json"), FIELDS, "run_x.py")


def test_valid_values_are_returned_with_unknown_fields(tmp_path):
    assert read(tmp_path, json.dumps(VALID)) == VALID
    minimal = {"labels": [], "length": 1}
    assert read(tmp_path, json.dumps(minimal)) == minimal


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"labels": None}, "labels is null, .*list.*string"),
        ({"labels": ["a", 7]}, r"labels\[1\] is 7, .*string"),
        ({"length": 0}, "length is 0, .*integer.* 1"),
        ({"length": True}, "length is true, .*integer"),
        ({"length": 10**30}, "length is 10{30}, .*integer"),
        ({"entry": {}}, r"entry\.size is missing, .*integer.* 0"),
        ({"share": 2}, "share is 2, .*number.* 0.* 1"),
        ({"scale": {"mean": float("nan")}}, r"scale\.mean is NaN, .*finite"),
        ({"scale": {"mean": 10**400}}, r"scale\.mean is 10+\.\.\., .*finite"),
        ({"pooling": "sum"}, 'pooling is "sum", .*mean, max'),
        ({"stride": "x" * 99}, r'stride is "x{39}\.\.\., .*integer.*null'),
        ({"lower": 1}, "lower is 1, .*true or false"),
        ({"names": {"0": "a", "x": 1}}, r'names\["x"\] is 1, .*string'),
        ({"columns": []}, r"columns is \[\], .*object"),
    ],
)
def test_invalid_values_are_named(tmp_path, changes, message):
    with pytest.raises(bert_tf.UserError, match=f"side.json: {message}.*; .* by run_x.py"):
        read(tmp_path, json.dumps({**VALID, **changes}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ", line 1: "),
        ("{\n{", ", line 2: "),
        ("[" * 200_000, ", line 1: "),
        ("9" * 5000, ", line 1: "),
        ("[]", r": the JSON is \[\], .*object"),
        ('{"labels": []}', ": length is missing"),
    ],
)
def test_text_that_is_not_such_an_object(tmp_path, text, message):
    with pytest.raises(bert_tf.UserError, match=f"side.json{message}.* by run_x.py"):
        read(tmp_path, text)
