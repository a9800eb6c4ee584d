"""Features that are written once and reused while everything they are made of stays the same."""

import hashlib
import json

import tensorflow as tf

from bert_tf import console, files


class FeatureCache:
    """A file of features, with a note of what it was made of in `PATH.json`.

    >>> cache = FeatureCache(path, {"data": digest(rows), "max_seq_length": 128}, write)
    >>> if cache.stale_reason:
    ...     cache.rebuild()

    Attributes:
      path: the file.
      key: hexadecimal digest of what the features are made of.
      stale_reason: why the file cannot be used as it is, None if it can.
      note: dict of what it was made of and of what `write` returned; None if it cannot be used.
    """

    def __init__(self, path, fingerprint, write):
        """Check whether the file can be reused.

        Args:
          path: the file.
          fingerprint: dict of JSON values that the features depend on.
          write: function that writes the file and returns a dict to note, or None. It may take
            keyword arguments, which `rebuild` passes on.
        """
        self.path, self._fingerprint, self._write = path, fingerprint, write
        self.key = digest([fingerprint])
        self.note, self.stale_reason = self._check()
        if not self.stale_reason:
            console.info("reusing %s: data, vocabulary and options are the same", path)

    def rebuild(self, **arguments):
        """Write the file and its note."""
        console.info("writing %s: %s", self.path, self.stale_reason)
        results = self._write(**arguments) or {}
        # The records first: if the run is killed in between, the note does not match them.
        note = {**self._fingerprint, **results, "records": digest_of_file(self.path)}
        text = json.dumps(note, indent=2, ensure_ascii=False) + "\n"
        files.write_text(f"{self.path}.json", text)
        self.note, self.stale_reason = note, None

    def reload(self):
        """Check the file again, after another process has written it."""
        self.note, self.stale_reason = self._check()

    def _check(self):
        """Return the note, None if the file cannot be used, and why not, None if it can."""
        path, note_path = self.path, f"{self.path}.json"
        if not tf.io.gfile.exists(path):
            return None, "it does not exist yet"
        if not tf.io.gfile.exists(note_path):
            return None, f"{note_path}, which says what it was made of, is missing"
        try:
            note = dict(json.loads(files.read_text(note_path)))
        except (ValueError, TypeError):
            return None, f"{note_path} cannot be read"
        changed = [name for name, value in self._fingerprint.items() if note.get(name) != value]
        if changed:
            return None, f"{', '.join(changed)} changed since it was written"
        if note.get("records") != digest_of_file(path):
            return None, "the file was changed since it was written"
        return note, None


def tokenizer_fingerprint(tokenizer):
    """Return what features depend on in a `FullTokenizer`: a dict of JSON values."""
    return {
        "vocabulary": digest(tokenizer.vocab.items()),
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
    }


def digest(values):
    """Return the SHA-256 of values, each as JSON, in hexadecimal digits."""
    sha = hashlib.sha256()
    for value in values:
        sha.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")
    return sha.hexdigest()


def digest_of_file(path):
    """Return the SHA-256 of a file in hexadecimal digits."""
    sha = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as reader:
        while data := reader.read(1 << 20):
            sha.update(data)
    return sha.hexdigest()
