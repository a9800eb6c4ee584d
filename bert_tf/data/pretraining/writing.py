"""Writing of instances to TFRecords without TensorFlow, their statistics, and the work folder.

The work folder has the tokens of shards and the counts of finished shards. `made_of.json` has the
fingerprint of the text and configuration. `tokens.json` has the sizes of the files of tokens, once
they are complete.
"""

import contextlib
import json
import os
import re
from typing import NamedTuple

import numpy as np

from bert_tf import console
from bert_tf.data import tfrecord
from bert_tf.data.pretraining.corpus import Block, read_corpus
from bert_tf.data.pretraining.instances import KEEP, create_instances, find_compiled, unpack_masks
from bert_tf.errors import DamagedFile, UserError
from bert_tf.io import files, json_files, processes
from bert_tf.tokenization.packing import pack_segments
from bert_tf.tokenization.settings import UNK

_PROGRAM = "create_pretraining_data.py"

# Number of instances to serialize at a time.
_BATCH_SIZE = 250

# Bytes of tokens of all shards to buffer before writing.
_BUFFER_SIZE = 16_000_000

# The other files, and partial ones; the user's files stay.
_FILES = re.compile(r"(tokens|(tokens|\d+)\.json)(\.tmp-\d+)?|made_of\.json\.tmp-\d+")

# Files of a run that was killed before writing the fingerprint.
_INCOMPLETE = re.compile(r"\.lock|made_of\.json\.tmp-\d+")


def columns(instances, first, last, corpus, vocab, config):
    """Return the features of instances `first` to `last` - 1, arrays (I, S), (I, P) or (I, 1)."""
    chosen = instances.order[first:last]
    segments = instances.segments[chosen]
    features = pack_segments(corpus.ids, segments[:, :4], vocab, config.max_seq_length)
    ids = features["input_ids"]
    if config.objective == "none":
        features["segment_ids"] = np.zeros_like(ids)
    else:
        features["next_sentence_labels"] = segments[:, 4:]
    if not config.dynamic_masking:
        rows = np.arange(len(chosen))[:, None]
        slots = instances.starts[chosen, None] + np.arange(config.max_predictions_per_seq)
        is_used = slots < instances.starts[chosen + 1, None]
        # 0 keeps the token at position 0.
        masks = np.where(is_used, instances.masks.take(slots, mode="clip"), 0)
        positions, replacements = unpack_masks(masks)
        labels = ids[rows, positions]
        ids[rows, positions] = np.where(replacements == KEEP, labels, replacements)
        features["masked_lm_positions"] = positions
        features["masked_lm_ids"] = np.where(is_used, labels, 0)
        features["masked_lm_weights"] = is_used.astype(np.float32)
    return features


def write(paths, instances, corpus, vocab, config, on_progress=lambda count: None):
    """Write instances to TFRecord files in turn, and return a dict from path to their number."""
    total = len(instances)
    with tfrecord.writing(paths) as write_records:
        for first in range(0, total, _BATCH_SIZE):
            last = min(first + _BATCH_SIZE, total)
            write_records(tfrecord.examples(columns(instances, first, last, corpus, vocab, config)))
            on_progress(last - first)
    return {path: len(range(i, total, len(paths))) for i, path in enumerate(paths)}


class Counts(NamedTuple):
    """Statistics of a corpus and its instances, which can be added."""

    documents: int = 0
    sentences: int = 0
    empty_lines: int = 0  # lines without a token, which were skipped
    tokens: int = 0
    unknown: int = 0  # [UNK] tokens
    instances: int = 0
    labelled: int = 0  # instances with label 1
    masked: int = 0  # masked tokens in the instances
    filled: int = 0  # tokens in the instances, without padding
    places: int = 0  # tokens in the instances, with padding
    capped: int = 0  # instances with fewer masks than `masked_lm_prob` requires
    excess: int = 0  # tokens of sentences beyond the length of a sequence

    @classmethod
    def from_instances(cls, instances, corpus, vocab, config):
        lengths, counts = np.unique(instances.lengths(), return_counts=True)
        excess = np.diff(corpus.sentences) - (config.max_seq_length - 3)
        is_capped = [config.num_to_mask(int(n)) > config.max_predictions_per_seq for n in lengths]
        return cls(
            documents=len(corpus.documents) - 1,
            sentences=len(corpus.sentences) - 1,
            empty_lines=corpus.empty_lines,
            tokens=len(corpus.ids),
            unknown=int(np.sum(corpus.ids == vocab[UNK])),
            instances=len(instances),
            labelled=int(instances.segments[:, 4].sum()),
            masked=int(instances.starts[-1]),
            filled=int(instances.lengths().sum()),
            places=len(instances) * config.max_seq_length,
            capped=int(counts[np.array(is_capped, bool)].sum()),
            excess=int(excess[excess > 0].sum()),
        )

    def __add__(self, other):
        return Counts(*map(sum, zip(self, other, strict=True)))

    def log(self, config):
        rows = [
            ("documents", f"{self.documents:,}"),
            ("sentences", f"{self.sentences:,}"),
            ("skipped lines", f"{self.empty_lines:,}"),
            ("tokens", f"{self.tokens:,}"),
            ("unknown tokens", _percentage(self.unknown, self.tokens)),
            ("instances", f"{self.instances:,}"),
        ]
        label = {"nsp": "random next sentence", "sop": "swapped segments"}.get(config.objective)
        if label:
            rows.append((label, _percentage(self.labelled, self.instances)))
        masked = _percentage(self.masked, self.filled)
        rows.append(("masked tokens", "in training" if config.dynamic_masking else masked))
        rows.append(("padding", _percentage(self.places - self.filled, self.places)))
        for name, value in rows:
            console.info("%-22s%14s", name, value)


def _percentage(part, whole):
    return f"{100 * part / max(whole, 1):.2f} %"


def warn_about_limits(counts, config):
    """Warn about single-document corpora, long lines and instances with too few masks."""
    num_single = sum(part.documents == 1 for part in counts)
    if num_single and config.objective == "nsp":
        what = "the corpus is" if len(counts) == 1 else f"{num_single} of {len(counts)} shards are"
        message = "%s a single document, so random next sentences are from the same document; %s"
        console.warning(message, what, "separate documents by blank lines")
    total = sum(counts, Counts())
    if config.objective != "none" and total.excess > 0.01 * total.tokens:
        message = "%.1f%% of the tokens are cut off, because lines are longer than a sequence; %s"
        advice = "`split_sentences` divides them"
        console.warning(message, 100 * total.excess / total.tokens, advice)
    if total.capped:
        console.warning(
            "`max_predictions_per_seq=%d` masks fewer tokens than `masked_lm_prob=%g` in %.1f%% of "
            "the instances; at full length %d are needed",
            config.max_predictions_per_seq, config.masked_lm_prob,
            100 * total.capped / total.instances, config.num_to_mask(config.max_seq_length),
        )  # fmt: skip


def check_has_instances(source, num_tokens, num_instances):
    """Raise UserError if there are no tokens, or all sentences have a single one."""
    if not num_tokens:
        raise UserError(f"{source.name}: no text found, expected one sentence per line")
    if not num_instances:
        raise UserError(f"{source.name}: no instance can be created from its text")


def create_in_memory(source, paths, tokenizer, config):
    """Create the instances of a source in memory, as in the release, and return their `Counts`."""
    corpus = read_corpus(source, tokenizer, config.word_boundaries == "spaces")
    vocab = tokenizer.vocab
    compiled = find_compiled(len(corpus.ids), config)
    total = config.dupe_factor * (len(corpus.documents) - 1)
    progress = console.ProgressLog("creating", "documents", total)
    instances = create_instances(corpus, vocab, config, on_progress=progress.add, compiled=compiled)
    progress.done()
    check_has_instances(source, len(corpus.ids), len(instances))
    counts = Counts.from_instances(instances, corpus, vocab, config)
    warn_about_limits([counts], config)
    progress = console.ProgressLog("writing", "instances", total=len(instances))
    written = write(paths, instances, corpus, vocab, config, progress.add)
    progress.done()
    tfrecord.write_counts(written)
    counts.log(config)
    return counts


class WorkDir:
    """The work folder `path`, created by `locked`; tokens require a local folder."""

    def __init__(self, path, num_shards, fingerprint):
        self.path, self._num_shards, self._fingerprint = path, num_shards, fingerprint

    @contextlib.contextmanager
    def locked(self):
        """Create and lock the folder; delete its contents if they belong to different shards."""
        with processes.locked(self.path, "output_file", "makes shards"):
            path = self._join("made_of.json")
            if files.exists(path):
                is_same = files.read_text(path) == to_json(self._fingerprint)
            elif all(map(_INCOMPLETE.fullmatch, files.list_folder(self.path))):
                is_same = False
            else:
                expected = "expected a folder created by this program"
                found = f"found no made_of.json in {self.path}, {expected}"
                raise UserError(f"`work_dir`: {found}; remove it or choose another folder")
            if not is_same:
                self._clear()
                try:
                    files.write_text(path, to_json(self._fingerprint))
                except UserError:
                    self.remove()
                    raise
            yield

    def remove(self):
        self._clear()
        if files.exists(path := self._join("made_of.json")):
            files.remove(path)
        processes.remove_unused(self.path)
        if "://" in self.path and not files.list_folder(self.path):
            files.remove(self.path)

    def _clear(self):
        """Remove tokens and counts; the sizes first, so that no run uses partial tokens."""
        names = set(filter(_FILES.fullmatch, files.list_folder(self.path)))
        if "tokens.json" in names:
            files.remove(self._join("tokens.json"))
        paths = map(self._join, sorted(names - {"tokens.json"}))
        tfrecord.map_files(files.remove, list(paths), "removing")

    def _join(self, *names):
        return os.path.join(self.path, *names)

    def write_counts(self, shard, counts):
        files.write_text(self._counts_path(shard), to_json(counts._asdict()))

    def shards_with_counts(self):
        names = set(files.list_folder(self.path))
        return {shard for shard in range(self._num_shards) if f"{shard:05d}.json" in names}

    def read_counts(self):
        fields = dict.fromkeys(Counts._fields, json_files.Count)

        def read_shard(shard):
            values = json_files.read(self._counts_path(shard), fields, _PROGRAM)
            return Counts(**{name: values[name] for name in fields})

        return tfrecord.map_files(read_shard, range(self._num_shards), "reading the counts")

    def _counts_path(self, shard):
        return self._join(f"{shard:05d}.json")

    def read_sizes(self):
        """Return the numbers of tokens and of integers in the file of each shard, or None."""
        path = self._join("tokens.json")
        sizes = list[list[json_files.Count]]
        return json_files.read(path, sizes, _PROGRAM) if files.exists(path) else None

    @contextlib.contextmanager
    def writing_tokens(self):
        """Yield a function that appends a `Block` to a shard; complete if the context succeeds."""
        folder, num_shards = self._join("tokens"), self._num_shards
        if os.path.exists(folder):
            files.remove(folder)
        files.make_folder(folder)
        sizes, buffers = np.zeros((num_shards, 2), int), [bytearray() for _ in range(num_shards)]

        def add(shard, block):
            # The lengths of the parts, then the parts.
            values = np.concatenate([list(map(len, block)), *block])
            sizes[shard] += len(block.ids), len(values)
            buffers[shard] += values.astype("<i4").tobytes()
            if len(buffers[shard]) >= _BUFFER_SIZE // num_shards:
                flush(shard)

        def flush(shard):
            path = os.path.join(folder, f"{shard:05d}")
            with files.naming_errors(f"{path}: cannot be written"), open(path, "ab") as writer:
                writer.write(buffers[shard])
            buffers[shard].clear()

        try:
            yield add
            for shard in range(num_shards):
                flush(shard)
            files.write_text(self._join("tokens.json"), to_json(sizes.tolist()))
        except BaseException:
            files.Local.rmtree(folder, ignore_errors=True)
            raise

    def read_blocks(self, shard, size):
        """Return the `Block`s of a shard; raise DamagedFile if its file has not `size` integers."""
        path = self._join("tokens", f"{shard:05d}")
        rest = np.fromfile(path, "<i4") if os.path.exists(path) else ()
        if len(rest) != size:
            raise DamagedFile(f"{path}: the tokens are damaged; remove {self.path}")
        blocks = []
        while len(rest):
            *parts, rest = np.split(rest[5:], np.cumsum(rest[:5]))
            blocks.append(Block(*parts))
        return blocks


def to_json(value):
    return json.dumps(value, indent=1, ensure_ascii=False) + "\n"
