"""Features that are written once and used again while everything they are made of is the same."""

import hashlib
import json

import tensorflow as tf

from bert_tf import console, files
from bert_tf.tasks import classification

# To be raised when the same data make other features.
_VERSION = 1


def fresh_features(path, examples, labels, tokenizer, max_seq_length, task):
    """Writes the features of `examples` to `path`, unless it has them.

    Args: those of `classification.write_features`.
    """
    made_of = {
        "data": digest([e.text_a, e.text_b, e.label] for e in examples),
        "examples": len(examples),
        **made_by(tokenizer),
        "max_seq_length": max_seq_length,
        "labels": list(labels),
        "task_type": task.task_type,
        "schema": digest(task.schema.items()),
        "version": _VERSION,
    }
    fresh(
        path,
        made_of,
        lambda: classification.write_features(
            path, examples, labels, tokenizer, max_seq_length, task
        ),
    )


def made_by(tokenizer):
    """What a tokenizer has to do with features, for `fresh`."""
    return {
        "vocabulary": digest(tokenizer.vocab.items()),
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
    }


def fresh(path, made_of, write):
    """Has `write` make the file at `path`, unless that was done; a line says which and why.

    Beside the file, in `path` + ".json", lies what it was made of.

    Args:
      path: the file.
      made_of: dict of all that it depends on, as JSON has it.
      write: function that makes it; what it returns, a dict or None, is noted too.

    Returns:
      The note: `made_of` and what was noted beside it.
    """
    note, why = _find(path, made_of)
    if not why:
        console.info("%s is used again: data, vocabulary and settings are the same", path)
        return note
    console.info("%s is made: %s", path, why)
    found = write() or {}
    # The records first: killed in between, a run finds that they are not those of the note.
    note = {**made_of, **found, "records": _digest_of_file(path)}
    files.write_text(f"{path}.json", json.dumps(note, indent=2, ensure_ascii=False) + "\n")
    return note


def _find(path, made_of):
    """The note of the file at `path`, and why it cannot be used, None if it can."""
    if not tf.io.gfile.exists(path):
        return None, "there is none yet"
    if not tf.io.gfile.exists(f"{path}.json"):
        return None, "nothing says what the one there was made of"
    try:
        note = dict(json.loads(files.read_text(f"{path}.json")))
    except (ValueError, TypeError):
        return None, f"{path}.json cannot be read"
    changed = [name for name, value in made_of.items() if note.get(name) != value]
    if changed:
        return None, f"other {', '.join(changed)} than those that the one there was made of"
    if note.get("records") != _digest_of_file(path):
        return None, "the one there was changed since"
    return note, None


def digest(values):
    """A digest of values, each as JSON has it."""
    sha = hashlib.sha256()
    for value in values:
        sha.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")
    return sha.hexdigest()


def _digest_of_file(path):
    sha = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as reader:
        while data := reader.read(1 << 20):
            sha.update(data)
    return sha.hexdigest()
