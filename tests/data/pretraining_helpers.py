"""A small vocabulary, random text and shards of it, for tests of pre-training data."""

import glob
from typing import NamedTuple

import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.data import pretraining, records, tfrecord
from bert_tf.data.pretraining.instances import unpack_masks
from bert_tf.io import files

WORDS = ["the", "cat", "dog", "sat", "ran", "on", "under", "a", "mat", "tree"]
TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, "##s", "##ing", "."]

CONFIG = pretraining.InstanceConfig(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2)


def random_text(rng, num_documents):
    """Return documents of 1 to 12 sentences of 1 to 30 words."""
    documents = []
    endings = ["", "", "s", "sing"]
    for _ in range(num_documents):
        lines = []
        for _ in range(rng.randint(1, 12)):
            count = rng.randint(1, 30)
            words = (rng.choice(WORDS) + rng.choice(endings) for _ in range(count))
            lines.append(" ".join(words) + ".\n")
        documents.append("".join(lines))
    return "\n".join(documents)


def write_records(path, count, length=8, schema=records.PRETRAINING):
    """Write records of random words, with two masks each if the schema has masks."""
    lengths = {"S": length, "P": 2}
    columns = {name: np.ones((count, *x.shape(lengths)), x.dtype) for name, x in schema.items()}
    columns["input_ids"] = np.random.default_rng(0).integers(5, 15, (count, length))
    path.write_bytes(tfrecord.frame_records(tfrecord.examples(columns)))


def read_corpus(paths, tokenizer, by_spaces=False, **options):
    """Return the `Corpus` of files."""
    source = pretraining.TextFileSource(list(map(str, paths)), **options)
    return pretraining.read_corpus(source, tokenizer, by_spaces)


class Instance(NamedTuple):
    """An instance as in the release; the segments are ranges of `Corpus.ids`."""

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    label: bool
    positions: list
    replacements: list


def unpacked(instances):
    """Return a list of `Instance`."""
    unpacked = []
    for row in instances.order:
        masks = unpack_masks(instances.masks[instances.starts[row] : instances.starts[row + 1]])
        *bounds, label = instances.segments[row].tolist()
        unpacked.append(Instance(*bounds, bool(label), *(x.tolist() for x in masks)))
    return unpacked


def feature_rows(instances, corpus, vocab, config):
    """Return the features of each instance, a list of dicts of arrays."""
    columns = pretraining.columns(instances, 0, len(instances), corpus, vocab, config)
    return [{name: rows[i] for name, rows in columns.items()} for i in range(len(instances))]


def make_shards(output="made/x", num_shards=3, config=CONFIG, source=None, work_dir=None):
    """Return `Shards` of a.txt and b.txt in the working directory."""
    tokenizer = tokenization.FullTokenizer("vocab.txt")
    source = source or pretraining.TextFileSource(["a.txt", "b.txt"])
    return pretraining.Shards(source, output, tokenizer, config, num_shards, work_dir)


def interrupt(name):
    """Create shards, but interrupt before the named file is complete."""
    rename = files.Local.rename

    def interrupted(source, target, overwrite=False):
        if target.endswith(name):
            raise KeyboardInterrupt
        rename(source, target, overwrite)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files.Local, "rename", staticmethod(interrupted))
        make_shards().create()


def shard_contents(output="made/x"):
    """Return a dict from the number of a shard, such as "00001", to its bytes."""
    contents = {}
    for path in glob.glob(f"{output}-*-of-?????"):
        with open(path, "rb") as reader:
            contents[path.rsplit("-", 3)[1]] = reader.read()
    return contents
