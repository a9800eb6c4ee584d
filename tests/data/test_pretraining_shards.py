"""Shards: contents, any number of processes, side files, remote file systems, Beam and Dask."""

import dataclasses
import gzip
import random

import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.data import pretraining, tfrecord
from bert_tf.data.pretraining import compiled
from bert_tf.errors import UserError
from bert_tf.io import files, processes
from tests.data.pretraining_helpers import CONFIG, make_shards, shard_contents

pytestmark = pytest.mark.usefixtures("text_folder")


@pytest.mark.parametrize("by_spaces", [False, True])
def test_each_shard_is_a_separate_corpus(text_folder, by_spaces):
    """Shard i has the release's instances of document d of file f where (f + d) mod 3 = i."""
    config = CONFIG
    if by_spaces:
        config = dataclasses.replace(config, do_whole_word_mask=True, word_boundaries="spaces")
    counts = make_shards(config=config).create(num_processes=1 + by_spaces)
    source = pretraining.TextFileSource(["a.txt", "b.txt"])
    texts = [[], [], []]
    for document in source.documents():
        texts[(document.file + document.number) % 3].append("".join(document.lines))
    tokenizer = tokenization.FullTokenizer("vocab.txt")
    for shard, text in enumerate(texts):
        (text_folder / "part.txt").write_text("\n".join(text))
        part = pretraining.TextFileSource(["part.txt"])
        corpus = pretraining.read_corpus(part, tokenizer, by_spaces)
        assert np.any(corpus.is_continuation) == by_spaces
        rng = random.Random(f"12345/{shard}")
        instances = pretraining.create_instances(corpus, tokenizer.vocab, config, rng)
        pretraining.write(["part"], instances, corpus, tokenizer.vocab, config)
        assert (text_folder / "part").read_bytes() == shard_contents()[f"{shard:05d}"]
    assert counts.documents == 22 and counts.instances > 50
    paths = [f"made/x-{shard:05d}-of-00003" for shard in range(3)]
    names = {f"made/{path.name}" for path in (text_folder / "made").iterdir()}
    assert names == {*paths, "made/x.counts.json", "made/x.json"}
    numbers = tfrecord.read_counts(paths, tfrecord.sizes(paths))
    assert numbers == tfrecord.count_records(paths)
    assert sum(numbers) == counts.instances


def test_existing_shards_are_not_created_again(text_folder):
    """But a missing side file of counts is written, and a missing shard is created again."""
    first, made = make_shards().create(), text_folder / "made"

    def state():
        return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in made.iterdir()}

    before = state()
    assert make_shards().create() == first
    assert state() == before
    # A killed process may leave a partial side file.
    (made / "x.counts.json").rename(made / f"x.counts.json.tmp-{10**30}")
    (made / "x-00002-of-00003").unlink()
    assert make_shards().create() == first
    assert {x: data for x, (_, data) in state().items()} == {x: y for x, (_, y) in before.items()}


@pytest.mark.parametrize("size", [100, 1000, 2000])
def test_full_disk(text_folder, size):
    """The error is one sentence and no files stay. A limit on the file size simulates it."""
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        with pytest.raises(UserError, match=r"cannot be written \(.*too large"):
            make_shards("full/x").create()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    left = [path.name for path in (text_folder / "full").rglob("*") if path.is_file()]
    assert not [name for name in left if ".tmp-" in name]
    if "sizes.json" not in left:  # without complete tokens nothing can be resumed
        assert not left
    assert make_shards("full/x").create().instances


def test_shards_of_another_configuration_are_not_overwritten(text_folder):
    def fails(message, **options):
        with pytest.raises(UserError, match=rf"^`output_file`: .*{message}"):
            make_shards(**options).create()

    make_shards().create()
    before = shard_contents()
    fails(r"dupe_factor=2, .*3; .*made/x\.json", config=dataclasses.replace(CONFIG, dupe_factor=3))
    fails("num_shards=3, .*4;", num_shards=4)
    source = pretraining.TextFileSource(["a.txt", "b.txt"], split_sentences=True)
    fails("split_sentences=False, .*True;", source=source)
    with open("b.txt", "a") as writer:
        writer.write("\nThe cat.\n")
    fails(r"input=\['b.txt', .*\], .*\['b.txt', .*\];")
    (text_folder / "made/x.json").unlink()
    fails(r"made/x-00000-of-00003 without made/x\.json")
    (text_folder / "made/x.json").write_text("{}")
    fails(r"made/x\.json")
    assert shard_contents() == before


@pytest.mark.parametrize("num_processes", [1, 2])
def test_compiled_shards_are_those_of_python(num_processes, monkeypatch):
    make_shards("made/x").create()
    monkeypatch.setattr(pretraining.instances, "_MIN_TOKENS_TO_COMPILE", 0)
    draw, calls = compiled.draw, []
    monkeypatch.setattr(compiled, "draw", lambda *a: calls.append(1) or draw(*a))
    make_shards("made/y").create(num_processes=num_processes)
    assert shard_contents("made/x") == shard_contents("made/y") != {}
    assert len(calls) == 3 * CONFIG.dupe_factor if num_processes == 1 else not calls


def test_remote_file_systems(text_folder, monkeypatch):
    """Only TensorFlow can read and write these paths; its processes cannot be forked."""
    import tensorflow as tf

    make_shards("local/x").create()
    tf.io.gfile.makedirs("ram://corpus")
    for name in ("a.txt", "b.txt"):
        with tf.io.gfile.GFile(f"ram://corpus/{name}.gz", "wb") as writer:
            writer.write(gzip.compress((text_folder / name).read_bytes()))
    source = pretraining.TextFileSource(files.expand("ram://corpus/*.gz", "input_file"))
    shards = make_shards("ram://made/x", source=source, work_dir="work")
    forks, map_in_processes = [], processes.map_in_processes

    def spy(function, items, num_processes, fork=True):
        forks.append(fork)
        return map_in_processes(function, items, num_processes, fork)

    monkeypatch.setattr(processes, "map_in_processes", spy)
    shards.create()
    assert forks == [True, False]
    for path in shards.paths():
        with tf.io.gfile.GFile(path, "rb") as reader:
            assert reader.read() == (text_folder / "local" / path.rsplit("/", 1)[1]).read_bytes()
    assert shards.create().documents == 22
    with pytest.raises(UserError, match=r"^`work_dir`: .*ram://other/x.work"):
        make_shards("ram://other/x", source=source).create()
