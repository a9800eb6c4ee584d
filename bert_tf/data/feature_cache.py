"""Feature files that are reused if their data, vocabulary and options did not change."""

import hashlib
import itertools
import json

import tensorflow as tf

from bert_tf import console
from bert_tf.data import records
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.tokenization.settings import EXTRA_SETTINGS, extra_settings

# Texts to tokenize at a time.
_BATCH = 1000


class FeatureCache:
    """A file of features whose inputs are recorded in `PATH.json`.

    `key` is a digest of the fingerprint, `stale_reason` why the file must be rebuilt or None, and
    `metadata` the fingerprint and the result of `write`, None if the file is stale.
    """

    def __init__(self, path, fingerprint, write):
        """Check whether the file can be reused; `write` returns a dict of metadata."""
        self.path, self._write = path, write
        # JSON turns tuples into lists.
        self._fingerprint = json.loads(json.dumps(fingerprint))
        self.key = digest([fingerprint])
        self.metadata, self.stale_reason = self._check()
        if not self.stale_reason:
            console.info("reusing %s: data, vocabulary and options are the same", path)

    def rebuild(self):
        console.info("writing %s: %s", self.path, self.stale_reason)
        results = self._write() or {}
        # Written after the records, so that the digests differ if the run is killed in between.
        metadata = {**self._fingerprint, **results, "records": file_digest(self.path)}
        metadata["metadata"] = digest([metadata])
        text = json.dumps(metadata, indent=2, ensure_ascii=False) + "\n"
        files.write_text(f"{self.path}.json", text)
        self.metadata, self.stale_reason = metadata, None

    def reload(self):
        """Check the file again, after another process has written it."""
        self.metadata, self.stale_reason = self._check()

    def _check(self):
        path, metadata_path = self.path, f"{self.path}.json"
        if tf.io.gfile.isdir(path):
            raise UserError(f"{path} is a folder, expected a file of features; remove or rename it")
        if not tf.io.gfile.exists(path):
            return None, "this file does not exist yet"
        if not tf.io.gfile.exists(metadata_path):
            return None, f"its metadata file, {metadata_path}, is missing"
        try:
            metadata = json_files.read(metadata_path, dict)
        except UserError:
            return None, f"{metadata_path} cannot be read"
        changed = [name for name, value in self._fingerprint.items() if metadata.get(name) != value]
        if changed:
            return None, f"{', '.join(changed)} changed since it was written"
        if metadata.get("records") != file_digest(path):
            return None, "the file was changed since it was written"
        if metadata.pop("metadata", None) != digest([metadata]):
            return None, f"{metadata_path} was changed since it was written"
        return metadata, None


def encode_batches(tokenizer, texts):
    """Yield each text's list of token ids, with few texts in memory at a time."""
    texts = iter(texts)
    while batch := list(itertools.islice(texts, _BATCH)):
        yield from tokenizer.encode_batch(batch)


def write_records(path, schema, examples, unit="examples", total=None):
    """Write examples to a TFRecord file atomically; return their number."""
    progress, count = console.ProgressLog(f"writing {path}", unit, total=total), 0
    with records.writing([path], schema) as write:
        for values in examples:
            write(values)
            progress.add()
            count += 1
    progress.done()
    return count


def tokenizer_fingerprint(tokenizer):
    settings = extra_settings(tokenizer.settings)
    return {
        "vocabulary": digest(tokenizer.vocab.items()),
        "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
        **{name: settings.get(name) for name in EXTRA_SETTINGS},
    }


def digest(values):
    """Return the hexadecimal SHA-256 of values, each as JSON."""
    sha = hashlib.sha256()
    for value in values:
        sha.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")
    return sha.hexdigest()


def file_digest(path):
    sha = hashlib.sha256()
    with tf.io.gfile.GFile(path, "rb") as reader:
        while data := reader.read(1 << 20):
            sha.update(data)
    return sha.hexdigest()
