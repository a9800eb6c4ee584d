"""Random damage to files, for `test_bad_inputs`.

`damage(path, rng)` picks a kind of damage that applies to the file and returns a description.
"""

import json
import os
import struct

import numpy as np

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
    if name.endswith((".json", ".jsonl")):
        return [_change_json, _change_line]
    if name.endswith(".safetensors"):
        return [_change_header, _change_bytes]
    if name.endswith(".index") and "variables" not in name:
        return [_change_tensor, _change_bytes]
    if ".data-" in name or "tf_record" in name or name.endswith(".tfrecord"):
        return [_change_bytes]
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


def _broken_link(path, rng):
    os.remove(path)
    os.symlink("nothing", path)


_ANY_FILE = [_remove, _empty, _truncate, _folder_in_its_place, _random_bytes, _broken_link]


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


# JSON.


def _changed_json(value, rng):
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
        value[key] = _changed_json(value[key], rng)
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
    return json.dumps(_changed_json(value, rng)).encode()


def _change_json(path, rng):
    """Change a value of a file or of one of its lines."""
    data = _read(path)
    parts = data.split(b"\n") if path.endswith(".jsonl") else [data]
    i = _position(parts, rng)
    parts[i] = _changed_text(parts[i], rng)
    _write(path, b"\n".join(parts))


# Weights.


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
    """Rewrite a checkpoint with one tensor changed or removed."""
    prefix = path.removesuffix(".index")
    try:
        tensors = read_tensors(prefix)
    except UserError:  # it is damaged already
        raise _CannotApply from None
    name = rng.choice(list(tensors))
    change = rng.choice([
        lambda x: x[..., None], lambda x: x.astype("int64"), lambda x: x.astype("bool"),
        lambda x: np.full_like(x, 10**9), lambda x: np.asarray([b"text", b""]), None,
    ])  # fmt: skip
    value = tensors.pop(name)
    if change:
        tensors[name] = change(np.asarray(value))
    checkpoints.write(prefix, tensors)
