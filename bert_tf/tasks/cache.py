"""Features that are written once and used again while everything they are made of is the same."""

import hashlib
import json

import tensorflow as tf

from bert_tf import console, files
from bert_tf.tasks import classification

# To be raised when the same data make other features.
_VERSION = 2


class FeatureCache:
    """A file that is used again while what it is made of is the same; that lies beside it.

    Attributes:
      path: the file.
      key: what it is made of, in hexadecimal digits.
      stale_reason: why it cannot be used, None if it can.
      note: what it was made of, and what was noted beside that; None if it cannot be used.
    """

    def __init__(self, path, made_of):
        """Looks whether it can be used; a line says so if it can. `made_of` is as JSON has it."""
        self.path, self._made_of, self.key = path, made_of, digest([made_of])
        self.note, self.stale_reason = _find(path, made_of)
        if not self.stale_reason:
            console.info("%s is used again: data, vocabulary and settings are the same", path)

    def rebuild(self, make):
        """Has `make` write the file; what it returns, a dict or None, is noted too."""
        console.info("%s is made: %s", self.path, self.stale_reason)
        found = make() or {}
        # The records first: killed in between, a run finds that they are not those of the note.
        self.note = {**self._made_of, **found, "records": digest_of_file(self.path)}
        text = json.dumps(self.note, indent=2, ensure_ascii=False) + "\n"
        files.write_text(f"{self.path}.json", text)
        self.stale_reason = None


class Features(FeatureCache):
    """The features of a set of examples in a file, beside it what they were made of.

    >>> features = Features("out/train.tf_record", examples, labels, tokenizer, 128, task)
    >>> if features.stale_reason:
    ...     features.write()
    """

    def __init__(
        self, path, examples, labels, tokenizer, max_seq_length, task, numbers=(), teacher=None
    ):
        """Looks whether the file can be used as it is; a line says so if it can.

        Args: those of `classification.write_features`, and
          teacher: what the teacher is known by, as text; None without one. Its logits are passed
            to `write`.
        """
        self._arguments = (path, examples, labels, tokenizer, max_seq_length, task, numbers)
        made_of = {
            "data": digest([e.text_a, e.text_b, e.label, e.numbers] for e in examples),
            "examples": len(examples),
            "vocabulary": digest(tokenizer.vocab.items()),
            "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
            "max_seq_length": max_seq_length,
            "labels": list(labels),
            "task_type": task.task_type,
            "numbers": [list(number) for number in numbers],
            "teacher": teacher,
            "schema": digest(classification.schema_of(task, numbers, bool(teacher)).items()),
            "version": _VERSION,
        }
        super().__init__(path, made_of)

    def write(self, teacher_logits=None):
        """Writes file and note; `teacher_logits` (N, L), if there is a teacher."""
        self.rebuild(lambda: classification.write_features(*self._arguments, teacher_logits))


def _find(path, made_of):
    """The note of the file at `path`, None if there is none, and why it cannot be used, if so."""
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
        return None, f"{', '.join(changed)} changed since the one there was made"
    if note.get("records") != digest_of_file(path):
        return None, "the one there was changed since"
    return note, None


def digest(values):
    """SHA-256 of values, each as JSON has it, in hexadecimal digits."""
    sha = hashlib.sha256()
    for value in values:
        sha.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")
    return sha.hexdigest()


def digest_of_file(path):
    """SHA-256 of a file, in hexadecimal digits."""
    sha = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as reader:
        while data := reader.read(1 << 20):
            sha.update(data)
    return sha.hexdigest()
