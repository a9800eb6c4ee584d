"""Features: serialized records of examples, in memory or in files that are reused."""

import collections
import dataclasses
import functools
import hashlib
import itertools
import json
import sys
from collections.abc import Callable, Iterable
from typing import Any

import keras

from bert_tf import console
from bert_tf.data import records, tfrecord
from bert_tf.errors import UserError
from bert_tf.io import files, json_files, processes
from bert_tf.io.json_files import Count
from bert_tf.tokenization.packing import LengthCounter, log_truncated
from bert_tf.tokenization.settings import EXTRA_SETTINGS, extra_settings

# Number of examples to convert at a time, and of texts to tokenize at a time.
_CHUNK, _BATCH = 250, 1000

# Minimum number of examples for which starting processes saves time.
_MIN_FOR_PROCESSES = 5_000


def make_records(convert, schema, limit, options, examples):
    """Return the records of a list of examples, and a dict of counts to add up.

    `convert(examples, lengths=LengthCounter(limit), **options)` yields a dict for each record.
    """
    lengths = LengthCounter(limit)
    features = list(convert(examples, lengths=lengths, **options))
    return records.serialize(schema, features), {"examples": len(examples), **lengths.counts}


def _chunks(examples, size=None):
    examples = iter(examples)
    while chunk := list(itertools.islice(examples, size or _CHUNK)):
        yield chunk


@dataclasses.dataclass
class Features:
    """The records of a split: how they are made, and what is in them.

    Attributes:
      schema: the schema of the records, see `data.records`.
      examples: iterable of examples; with `chunks`, anything.
      convert: function from a list of examples to (records, dict of counts), such as a
        `functools.partial` of `make_records`.
      fingerprint: dict of JSON values that the records depend on.
      axes: dict from the letters in the schema to sizes, or a function from `counts` to it.
      num_labels: the exclusive upper bound of label ids.
      num_examples: the number of examples, None if unknown.
      log_truncated: function from (name of the split, `counts`) that logs truncated texts.
      chunks: function that divides `examples` into lists to convert at a time.
      finish: function from (records, number of records before them) to the records to store.
      num_processes: number of processes; 0 for one per core if there are many examples.
      masking: the `DynamicMasking` of batches, or None.
      counts: dict with the number of "records" and the sums of the counts of `convert`.
    """

    schema: dict
    examples: Iterable
    convert: Callable
    fingerprint: dict
    axes: Any
    num_labels: int = 2
    num_examples: int | None = None
    log_truncated: Callable | None = None
    chunks: Callable = _chunks
    finish: Callable | None = None
    num_processes: int = 0
    masking: Any = None
    counts: dict = dataclasses.field(default_factory=dict)

    @classmethod
    def of_examples(
        cls, examples, schema, convert, tokenizer, config, *, data, axes, num_labels=2, options=(),
        fingerprint=(), **limits,
    ):  # fmt: skip
        """Make the features of a list of examples.

        Args:
          examples: the examples.
          schema: see `Features`.
          convert: see `make_records`, which gets the `tokenizer` and `options`.
          tokenizer: the `FullTokenizer`.
          config: the `TaskConfig`.
          data: iterable of JSON values, the content of each example.
          axes: see `Features`.
          num_labels: see `Features`.
          options: dict of further arguments of `convert`.
          fingerprint: dict of further JSON values that the records depend on.
          **limits: arguments of `log_truncated` other than those for `max_seq_length`.
        """
        length = config.max_seq_length
        limits = _limits(config, limits)
        options = {"tokenizer": tokenizer, **dict(options)}
        content = {"data": digest(data), "examples": len(examples), "max_seq_length": length}
        return cls(
            schema,
            examples,
            functools.partial(make_records, convert, schema, limits["limit"], options),
            {**content, **dict(fingerprint), **tokenizer_fingerprint(tokenizer)},
            axes,
            num_labels=num_labels,
            num_examples=len(examples),
            log_truncated=functools.partial(log_truncated, **limits),
        )

    def serialize(self, description):
        """Yield lists of records, and set `counts`."""
        is_large = (self.num_examples or 0) >= _MIN_FOR_PROCESSES
        num_processes = self.num_processes or (processes.cores() if is_large else 1)
        chunks = self.chunks(self.examples)
        totals = collections.Counter()
        progress = console.ProgressLog(description, "examples", self.num_examples, is_brief=True)
        for serialized, counts in processes.map_in_processes(self.convert, chunks, num_processes):
            yield self.finish(serialized, totals["records"]) if self.finish else serialized
            longest = max(totals["longest"], counts.get("longest", 0))
            totals.update(counts, records=len(serialized))
            totals["longest"] = longest
            progress.add(counts["examples"])
        progress.done()
        if not totals["records"]:
            raise UserError(f"{description}: all texts are empty")
        self.counts = dict(totals)

    def in_memory(self, description):
        """Return the list of all records, for `fit` and `evaluate`."""
        # Elsewhere, processes start the user's program again, or JAX's threads forbid a fork.
        is_safe = sys.platform == "linux" and keras.backend.backend() == "tensorflow"
        self.num_processes = self.num_processes or (0 if is_safe else 1)
        return list(itertools.chain.from_iterable(self.serialize(description)))

    def record_format(self, bert_config):
        """Return the schema, the lengths and the limits of the records, as in `data.records`."""
        lengths = self.axes(self.counts) if callable(self.axes) else self.axes
        limits = records.limits(self.schema, bert_config, lengths, self.num_labels)
        return {"schema": self.schema, "lengths": lengths, "limits": limits}


class FeatureCache:
    """A file of features, which is reused if the fingerprint in `PATH.json` has not changed.

    `key` is a digest of the fingerprint. `stale_reason` is why the file must be rebuilt, or None.
    `metadata` has the fingerprint and the counts of `Features.serialize`; None if it is stale.
    """

    def __init__(self, path, features):
        """Check whether the file at a path can be reused for `Features`."""
        self.path, self.features = path, features
        fingerprint = {**features.fingerprint, "schema": digest(features.schema.items())}
        # JSON turns tuples into lists.
        self._fingerprint = json.loads(json.dumps(fingerprint))
        self.key = digest([fingerprint])
        self.check()
        if not self.stale_reason:
            console.info("reusing %s: data, vocabulary and options are the same", path)

    def rebuild(self):
        console.info("writing %s: %s", self.path, self.stale_reason)
        with tfrecord.writing([self.path]) as write:
            for serialized in self.features.serialize(f"writing {self.path}"):
                write(serialized)
        metadata = {"counts": self.features.counts, "records": files.digest(self.path)}
        # Written after the records, so that the digests differ if the run is killed in between.
        json_files.write(f"{self.path}.json", {**self._fingerprint, **metadata})
        self.stale_reason = None

    def check(self):
        """Set `stale_reason`."""
        self.stale_reason = self._find_reason()

    def _find_reason(self):
        """Return why the file must be rebuilt, or None after reading the counts of its records."""
        path, metadata_path = self.path, f"{self.path}.json"
        if files.is_folder(path):
            raise UserError(f"{path} is a folder, expected a file of features; remove or rename it")
        if not files.exists(path):
            return "this file does not exist yet"
        if not files.exists(metadata_path):
            return f"its metadata file, {metadata_path}, is missing"
        try:
            metadata = json_files.read(metadata_path, {"counts": dict[str, Count]})
        except UserError:
            return f"{metadata_path} cannot be read"
        if changed := [x for x, y in self._fingerprint.items() if metadata.get(x) != y]:
            return f"{', '.join(changed)} changed since it was written"
        if metadata.get("records") != files.digest(path):
            return "the file was changed since it was written"
        self.features.counts = metadata["counts"]
        return None


def encode_batches(tokenizer, texts):
    """Yield each text's list of token ids, with few texts in memory at a time."""
    for batch in _chunks(texts, _BATCH):
        yield from tokenizer.encode_batch(batch)


def tokenizer_fingerprint(tokenizer):
    extra = extra_settings(tokenizer.settings)
    casing = tokenizer.basic_tokenizer.do_lower_case
    values = {"vocabulary": digest(tokenizer.vocab.items()), "do_lower_case": casing}
    return {**values, **{name: extra.get(name) for name in EXTRA_SETTINGS}}


def digest(values):
    """Return the hexadecimal SHA-256 of values, each as JSON."""
    sha = hashlib.sha256()
    for value in values:
        sha.update(json.dumps(value, ensure_ascii=True).encode() + b"\n")
    return sha.hexdigest()


def _limits(config, limits):
    """Return arguments of `log_truncated`: `limits`, or those for `max_seq_length`."""
    max_limit = config.bert_config.max_position_embeddings
    return {"limit": config.max_seq_length, "max_limit": max_limit, **limits}


def log_long_texts(argument, rows, tokenizer, config, with_special_tokens=True, **limits):
    """Warn if the texts of rows, lists of one or two texts, are truncated; see `Features`."""
    limits = _limits(config, limits)
    lengths = LengthCounter(limits["limit"])
    for texts in rows:
        size = (1 + len(texts)) * with_special_tokens
        # A token has at least one byte, so most texts need not be tokenized.
        if sum(len(x.encode()) for x in texts) > lengths.limit - size:
            size += sum(map(len, tokenizer.encode_batch(texts)))
        lengths.add(size)
    log_truncated(f"`{argument}`", lengths.counts, **limits)
