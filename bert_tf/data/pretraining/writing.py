"""Instances to records, many at a time and without TensorFlow, and what is told of them."""

import contextlib
import itertools
from typing import NamedTuple

import numpy as np

from bert_tf import console, files
from bert_tf.data import tfrecord
from bert_tf.data.pretraining.masking import KEEP, unpacked

# Instances to make records of at a time.
_BATCH = 250


def columns(made, first, last, corpus, vocab, settings):
    """The features of the instances from `first` up to `last`.

    Args:
      made: `Instances`.
      first: number of an instance.
      last: that of the one behind the last.
      corpus: the `Corpus` that they are of.
      vocab: dict from piece to id.
      settings: `Settings`.

    Returns:
      Dict of arrays (I, S), (I, P) or (I, 1), named as in `records.pretraining`.
    """
    chosen = made.order[first:last]
    a_start, a_end, b_start, b_end, label = (made.segments[chosen].T)[..., None]
    a_length, b_length = a_end - a_start, b_end - b_start
    b_first = a_length + 2
    length = b_first + b_length + (b_length > 0)
    rows = np.arange(len(chosen))[:, None]
    place = np.arange(settings.max_seq_length)[None]
    is_filled = place < length
    source = place + np.where(place < b_first, a_start - 1, b_start - b_first)
    # What is looked up beyond the segments is put right below.
    ids = corpus.ids.take(source, mode="clip") * is_filled
    ids[:, 0] = vocab["[CLS]"]
    ids[rows, b_first - 1] = ids[rows, length - 1] = vocab["[SEP]"]
    is_second = is_filled & (place >= b_first)
    features = {
        "input_ids": ids,
        "input_mask": is_filled,
        "segment_ids": is_second & (settings.objective != "none"),
    }
    if settings.objective != "none":
        features["next_sentence_labels"] = label
    if not settings.dynamic_masking:
        starts, ends = made.starts[chosen, None], made.starts[chosen + 1, None]
        slots = starts + np.arange(settings.max_predictions_per_seq)[None]
        is_used = slots < ends
        slots = np.where(is_used, slots, 0)
        positions, shown = unpacked(made.masks[slots])
        positions = np.where(is_used, positions, 0)
        labels = np.where(is_used, ids[rows, positions], 0)
        shown = np.where(shown == KEEP, labels, shown)
        ids[np.broadcast_to(rows, shown.shape)[is_used], positions[is_used]] = shown[is_used]
        features["masked_lm_positions"] = positions
        features["masked_lm_ids"] = labels
        features["masked_lm_weights"] = is_used.astype(np.float32)
    return features


def write(paths, made, corpus, vocab, settings, told=lambda count: None):
    """Writes instances to TFRecord files in turn; all files appear at the end, or none does.

    Args: those of `columns`, and
      paths: the files.
      told: called with the number of instances that are done.
    """
    with files.replacing(*paths) as temporary, contextlib.ExitStack() as stack:
        writers = [stack.enter_context(files.system(path).GFile(path, "wb")) for path in temporary]
        turns = itertools.cycle(range(len(writers)))
        for first in range(0, len(made), _BATCH):
            last = min(first + _BATCH, len(made))
            parts = tfrecord.examples(columns(made, first, last, corpus, vocab, settings))
            shares = [[] for _ in writers]
            for record, turn in zip(parts, turns, strict=False):
                shares[turn].append(record)
            for writer, share in zip(writers, shares, strict=True):
                writer.write(tfrecord.framed(share))
            told(last - first)


class Counts(NamedTuple):
    """What became of a text; counts of parts add up to that of the whole."""

    documents: int = 0
    sentences: int = 0
    empty_lines: int = 0
    tokens: int = 0
    unknown: int = 0
    instances: int = 0
    labelled: int = 0
    masked: int = 0
    filled: int = 0
    places: int = 0
    capped: int = 0

    @classmethod
    def of(cls, made, corpus, vocab, settings):
        """Counts one corpus and its `Instances`."""
        lengths, counts = np.unique(made.lengths(), return_counts=True)
        is_capped = [settings.wanted(int(n)) > settings.max_predictions_per_seq for n in lengths]
        return cls(
            documents=len(corpus.documents) - 1,
            sentences=len(corpus.sentences) - 1,
            empty_lines=corpus.empty_lines,
            tokens=len(corpus.ids),
            unknown=int(np.sum(corpus.ids == vocab["[UNK]"])),
            instances=len(made),
            labelled=int(made.segments[:, 4].sum()),
            masked=int(made.starts[-1]),
            filled=int(made.lengths().sum()),
            places=len(made) * settings.max_seq_length,
            capped=int(counts[np.array(is_capped, bool)].sum()),
        )

    def __add__(self, other):
        return Counts(*map(sum, zip(self, other, strict=True)))

    def tell(self, settings):
        """Prints them as a table."""
        rows = [
            ("documents", f"{self.documents:,}"),
            ("sentences", f"{self.sentences:,}"),
            ("lines left out", f"{self.empty_lines:,}"),
            ("tokens", f"{self.tokens:,}"),
            ("unknown tokens", _share(self.unknown, self.tokens)),
            ("instances", f"{self.instances:,}"),
        ]
        name = {"nsp": "random next sentence", "sop": "changed over"}.get(settings.objective)
        if name:
            rows.append((name, _share(self.labelled, self.instances)))
        masked = _share(self.masked, self.filled)
        rows.append(("masked tokens", "in training" if settings.dynamic_masking else masked))
        rows.append(("padding", _share(self.places - self.filled, self.places)))
        for name, value in rows:
            console.info("%-22s%14s", name, value)


def _share(part, whole):
    return f"{100 * part / max(whole, 1):.2f} %"


def warn_of_limits(parts, settings):
    """Says what about corpora and their instances is not as the user may think it is.

    Args:
      parts: list of the `Counts` of each corpus that stands for itself, such as a shard.
      settings: `Settings`.
    """
    lonely = sum(counts.documents == 1 for counts in parts)
    if lonely and settings.objective == "nsp":
        what = "the corpus is" if len(parts) == 1 else f"{lonely} of {len(parts)} shards are"
        console.warning(
            "%s one document, so a random next sentence comes from that same document; blank lines "
            "separate documents",
            what,
        )
    total = sum(parts, Counts())
    if total.capped:
        console.warning(
            "`max_predictions_per_seq=%d` masks less than `masked_lm_prob`=%g in %.1f%% of the "
            "instances; at full length %d would be needed",
            settings.max_predictions_per_seq, settings.masked_lm_prob,
            100 * total.capped / total.instances, settings.wanted(settings.max_seq_length),
        )  # fmt: skip
