"""Random damage to files, for `test_bad_inputs`.

`damage(path, rng)` picks a kind of damage that applies to the file and returns a description.
"""

import json
import os
import struct

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.errors import UserError
from tests.common import read_tensors

TEXTS = ["", " ", "x", "\0", "\ud800", "\u202e\U0001f600", "a\tb\nc", "nan", "x" * 5000, "../../x"]
NUMBERS = [0, -1, 1, 2, 0.5, -0.0, 7, 2**31, 2**63, 10**9, 10**400, 1e308, float("nan"),
           float("inf")]  # fmt: skip
VALUES = [None, True, False, *NUMBERS, *TEXTS, [], {}, [[]], [None], {"": {}}, ["a", "a"], [1, "a"]]


def damage(path, rng):
    """Damage or remove a file; return a description."""
    kind = rng.choice([*_ANY_FILE, *(x for x in _kinds_of(path) for _ in range(4))])
    try:
        kind(path, rng)
    except _CannotApply:
        _truncate(path, rng)
        kind = _truncate
    return f"{kind.__name__.strip('_').replace('_', ' ')}: {os.path.basename(path)}"


class _CannotApply(Exception):
    """The file does not have what this kind of damage changes."""


def _kinds_of(path):
    name = os.path.basename(path)
    if name.endswith((".json", ".ipynb")):
        return [_change_json, _change_json_text]
    if name.endswith(".jsonl"):
        return [_change_json_line, _change_line]
    if name.endswith(".safetensors"):
        return [_change_header, _change_bytes]
    if name.endswith(".index") and "variables" not in name:
        return [_change_tensor, _change_bytes]
    if ".data-" in name:
        return [_change_bytes]
    if "tf_record" in name or name.endswith(".tfrecord"):
        return [_change_record, _change_bytes]
    if name == "vocab.txt":
        return [_change_vocabulary]
    if name.endswith(".pb"):  # a trusted program; only a failed copy damages it
        return [_truncate]
    return [_change_line, _change_cell]


def _read(path):
    with open(path, "rb") as reader:
        return reader.read()


def _write(path, data):
    with open(path, "wb") as writer:
        writer.write(data)


def _position(data, rng):
    if not data:
        raise _CannotApply
    return rng.randrange(len(data))


# Damage to any file.


def _remove(path, rng):
    os.remove(path)


def _empty(path, rng):
    _write(path, b"")


def _truncate(path, rng):
    data = _read(path)
    _write(path, data[: _position(data, rng)] if data else b"x")


def _folder_in_its_place(path, rng):
    os.remove(path)
    os.mkdir(path)


def _random_bytes(path, rng):
    _write(path, rng.randbytes(rng.choice([1, 12, 16, 1000])))


def _other_encoding(path, rng):
    text = _read(path).decode("utf-8", "replace")
    encoding = rng.choice(["utf-16", "utf-32", "utf-8-sig", "latin-1", "utf-7"])
    _write(path, text.encode(encoding, "replace"))


def _broken_link(path, rng):
    os.remove(path)
    os.symlink("nothing", path)


def _brackets(path, rng):
    _write(path, rng.choice([b"[", b'{"a":', b"(", b"\n", b"\0", b"<"]) * 100_000)


_ANY_FILE = [_remove, _empty, _truncate, _folder_in_its_place, _random_bytes, _other_encoding,
             _broken_link, _brackets]  # fmt: skip


def _change_bytes(path, rng):
    data = bytearray(_read(path))
    for _ in range(rng.choice([1, 3, 20])):
        data[_position(data, rng)] = rng.randrange(256)
    _write(path, bytes(data))


# Text.


def _changed_items(items, junk, rng):
    """Return a list with an item removed, repeated, replaced by junk, or with junk before it."""
    i = _position(items, rng)
    items[i : i + 1] = rng.choice([[], [items[i]] * 2, [rng.choice(junk)],
                                   [rng.choice(junk) + items[i]]])  # fmt: skip
    return items


def _change_line(path, rng):
    junk = [b"", b"\0", b"\xff\xfe", b'"', b"\t" * 9, b"," * 9, b"x" * 100_000, b"\r", b"{}", b" "]
    _write(path, b"\n".join(_changed_items(_read(path).split(b"\n"), junk, rng)))


def _change_cell(path, rng):
    lines = _read(path).split(b"\n")
    i = rng.choice([0, _position(lines, rng)])
    separator = next((x for x in (b"\t", b",", b" ") if x in lines[i]), None)
    if separator is None:
        raise _CannotApply
    junk = [str(x).encode("utf-8", "surrogatepass") for x in (*TEXTS, *NUMBERS)]
    lines[i] = separator.join(_changed_items(lines[i].split(separator), junk, rng))
    _write(path, b"\n".join(lines))


def _change_vocabulary(path, rng):
    words = _read(path).decode("utf-8", "surrogateescape").split("\n")
    special = [x for x in words if x.startswith("[")]
    change = rng.randrange(3)
    if change == 0 and special:
        words.remove(rng.choice(special))
    elif change == 1:
        words += [f"new{i}" for i in range(rng.choice([1, 100]))]
    else:
        words = _changed_items(words, ["", " ", "a b", "\0", "x" * 1000, "[PAD]"], rng)
    _write(path, "\n".join(words).encode("utf-8", "surrogateescape"))


# JSON.


def changed_json(value, rng):
    """Return a JSON value with a random change in a random place."""
    children = list(value) if isinstance(value, dict) else range(len(value))
    if not children:
        return rng.choice(VALUES)
    key = rng.choice(list(children))
    change = rng.randrange(5)
    value = value.copy()
    if change == 0:
        value.pop(key)
    elif change == 1 and isinstance(value, dict):
        value[rng.choice(["", "other", *value])] = value.pop(key)
    elif change < 4 and isinstance(value[key], (list, dict)):
        value[key] = changed_json(value[key], rng)
    else:
        value[key] = rng.choice(VALUES)
    return value


def _changed_text(text, rng):
    try:
        value = json.loads(text)
    except ValueError:
        raise _CannotApply from None
    if not isinstance(value, (dict, list)):
        raise _CannotApply
    # Mostly the outermost values, which are the settings.
    return json.dumps(changed_json(value, rng)).encode()


def _change_json(path, rng):
    _write(path, _changed_text(_read(path), rng))


def _change_json_line(path, rng):
    lines = _read(path).split(b"\n")
    i = _position(lines, rng)
    lines[i] = _changed_text(lines[i], rng)
    _write(path, b"\n".join(lines))


def _change_json_text(path, rng):
    text = _read(path)
    i = _position(text, rng)
    junk = [b"{", b"}", b"[", b'"', b",", b"\0", b"\xff", b"9" * 5000, b"[" * 5000, b"\\u12", b""]
    _write(path, text[:i] + rng.choice(junk) + text[i + rng.randrange(2) :])


# Weights and records.


def _change_header(path, rng):
    """Change the JSON header of a safetensors file."""
    data = _read(path)
    if len(data) < 8:
        raise _CannotApply
    (size,) = struct.unpack("<Q", data[:8])
    header = _changed_text(data[8 : 8 + size], rng)
    size = rng.choice([len(header)] * 4 + [0, 2**40, 2**64 - 1])
    _write(path, struct.pack("<Q", size) + header + data[8 + len(header) :])


def _change_tensor(path, rng):
    """Rewrite a checkpoint with one tensor changed."""
    prefix = path.removesuffix(".index")
    try:
        tensors = read_tensors(prefix)
    except UserError:  # it is damaged already
        raise _CannotApply from None
    name = rng.choice(list(tensors))
    value = tensors.pop(name)
    change = rng.randrange(6)
    if change == 1:
        tensors["other/" + name] = value
    elif change == 2:
        tensors[name] = np.zeros((*value.shape, 2), value.dtype)
    elif change == 3:
        tensors[name] = np.asarray(value).astype(rng.choice(["int64", "float64", "bool", "uint8"]))
    elif change == 4:
        tensors[name] = np.full_like(value, rng.choice([-1, 10**9]))
    elif change == 5:
        tensors[name] = np.asarray([b"text", b""])
    checkpoints.write(prefix, tensors)


def _change_record(path, rng):
    """Rewrite a file of records with one feature of one record changed."""
    try:
        rows = [x.numpy() for x in tf.data.TFRecordDataset(path)]
    except tf.errors.OpError:
        raise _CannotApply from None
    i = _position(rows, rng)
    example = tf.train.Example.FromString(rows[i])
    features = example.features.feature
    name = rng.choice(sorted(features))
    change = rng.randrange(6)
    values = features[name].int64_list.value
    if change == 0:
        del features[name]
    elif change == 1:
        features[name].bytes_list.value[:] = [b"\xff\0"]
    elif change == 2:
        features[name].float_list.value[:] = [float("nan")] * rng.choice([1, 8])
    elif change == 3 and values:
        values[rng.randrange(len(values))] = rng.choice([-1, 10**6, 2**40, -(2**63)])
    elif change == 4:
        values.extend([1] * rng.choice([1, 100]))
    rows[i] = rng.randbytes(20) if change == 5 else example.SerializeToString()
    with tf.io.TFRecordWriter(path) as writer:
        for row in rows:
            writer.write(row)
