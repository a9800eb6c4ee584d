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
        ({"labels": None}, "labels is null, expected a list, each element a string"),
        ({"labels": ["a", 7]}, r"labels\[1\] is 7, expected a string"),
        ({"length": "128"}, 'length is "128", expected an integer of at least 1'),
        ({"length": 0}, "length is 0, expected an integer of at least 1"),
        ({"length": True}, "length is true, expected an integer"),
        ({"length": 10**30}, "length is 10{30}, expected an integer"),
        ({"entry": {}}, r"entry\.size is missing, expected an integer of at least 0"),
        ({"entry": {"size": 1, "records": "x"}}, r'entry\.records is "x", expected an integer'),
        ({"share": 2}, "share is 2, expected a number between 0 and 1"),
        ({"scale": {}}, r"scale\.mean is missing, expected a finite number"),
        ({"scale": {"mean": float("nan")}}, r"scale\.mean is NaN, expected a finite number"),
        ({"scale": {"mean": 10**400}}, r"scale\.mean is 10+\.\.\., expected a finite number"),
        ({"pooling": "sum"}, 'pooling is "sum", expected one of mean, max'),
        ({"pooling": ["mean"]}, r'pooling is \["mean"\], expected one of'),
        ({"stride": "x" * 99}, r'stride is "x{39}\.\.\., expected an integer .* or null'),
        ({"lower": 1}, "lower is 1, expected true or false"),
        ({"names": {"0": "a", "x": 1}}, r'names\["x"\] is 1, expected a string'),
        ({"columns": []}, r"columns is \[\], expected an object"),
    ],
)
def test_invalid_values_are_named(tmp_path, changes, message):
    with pytest.raises(bert_tf.UserError, match=f"side.json: {message}.*; .* by run_x.py"):
        read(tmp_path, json.dumps({**VALID, **changes}))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ", line 1: invalid JSON"),
        ("{\n{", ", line 2: invalid JSON"),
        ("[" * 200_000, ", line 1: invalid JSON .nested too deeply"),
        ('{"a":' * 200_000, ", line 1: invalid JSON .nested too deeply"),
        ("9" * 5000, r", line 1: invalid JSON .Exceeds the limit"),
        ("[]", r": the JSON is \[\], expected an object"),
        ('{"labels": []}', ": length is missing"),
        ("NaN", ": the JSON is NaN"),
    ],
)
def test_text_that_is_not_such_an_object(tmp_path, text, message):
    with pytest.raises(bert_tf.UserError, match=f"side.json{message}.* by run_x.py"):
        read(tmp_path, text)


def test_type_annotations():
    for hint, valid, invalid in (
        (Positive, 1, 0), (int, 1, True), (float, 0.5, "1"), (bool, False, 0), (str, "", None),
        (float, float('inf'), float('nan')), (int | None, None, 1.5), (bool | None, True, "true"),
    ):  # fmt: skip
        assert json_files.problem(valid, hint) is None
        assert json_files.problem(invalid, hint)


CONFIG = {"vocab_size": 50, "hidden_size": 16, "num_attention_heads": 2}


@pytest.mark.parametrize(
    "changes",
    [
        {"max_position_embeddings": 10**15},
        {"vocab_size": 10**400},
        {"initializer_range": float("nan")},
        {"hidden_act": ["gelu"]},
        {"hidden_act": {}, "model_type": "bert"},
    ],
)
def test_invalid_bert_configs(tmp_path, changes):
    path = tmp_path / "bert_config.json"
    path.write_text(json.dumps({**CONFIG, **changes}))
    with pytest.raises(bert_tf.UserError, match=f"{path}: {next(iter(changes))} is "):
        bert_tf.BertConfig.from_json_file(str(path))


def test_nested_bert_config(tmp_path):
    path = tmp_path / "bert_config.json"
    path.write_text("[" * 200_000)
    with pytest.raises(bert_tf.UserError, match=f"{path}, line 1: .*too deeply"):
        bert_tf.BertConfig.from_json_file(str(path))
