"""Shards: contents, any number of processes, side files, remote file systems, Beam and Dask."""

import contextlib
import dataclasses
import functools
import gzip
import json
import os
import pathlib
import random
import re
import signal
import threading
import time

import numpy as np
import pytest

from bert_tf import console, tokenization
from bert_tf.data import pretraining, record_files
from bert_tf.data.pretraining import compiled
from bert_tf.data.pretraining.corpus import iter_chunks
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
    source = pretraining.FileSource(["a.txt", "b.txt"])
    texts = [[], [], []]
    for document in source.documents():
        texts[(document.file + document.number) % 3].append("".join(document.lines))
    tokenizer = tokenization.FullTokenizer("vocab.txt")
    for shard, text in enumerate(texts):
        (text_folder / "part.txt").write_text("\n".join(text))
        part = pretraining.FileSource(["part.txt"])
        corpus = pretraining.read_corpus(part, tokenizer, by_spaces)
        assert np.any(corpus.is_continuation) == by_spaces
        rng = random.Random(f"12345/{shard}")
        instances = pretraining.create_instances(corpus, tokenizer.vocab, config, rng)
        pretraining.write(["part"], instances, corpus, tokenizer.vocab, config)
        assert (text_folder / "part").read_bytes() == shard_contents()[f"{shard:05d}"]
    assert counts.documents == 22 and counts.instances > 50
    assert sorted(path.name for path in (text_folder / "made").iterdir()) == [
        "x-00000-of-00003", "x-00001-of-00003", "x-00002-of-00003", "x.counts.json", "x.json"
    ]  # fmt: skip
    paths = [f"made/x-{shard:05d}-of-00003" for shard in range(3)]
    numbers = record_files.read_counts(paths, record_files.sizes(paths))
    assert numbers == record_files.count_records(paths)
    assert sum(numbers) == counts.instances


def test_the_number_of_processes_does_not_matter():
    first = make_shards("one/x").create()
    assert make_shards("two/x").create(num_processes=2) == first
    assert shard_contents("one/x") == shard_contents("two/x")
    assert len(set(shard_contents("one/x").values())) == 3


def test_existing_shards_are_not_created_again(text_folder, caplog):
    first = make_shards().create()
    before = {path: path.stat().st_mtime_ns for path in (text_folder / "made").iterdir()}
    with caplog.at_level("INFO", "bert_tf"):
        assert make_shards().create() == first
    assert "all 3 shards exist" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in (text_folder / "made").iterdir()} == before
    # But a missing side file of counts is written, because earlier versions wrote none.
    side = text_folder / "made/x.counts.json"
    text = side.read_text()
    # A killed process may leave a partial side file.
    partial = side.rename(f"{side}.tmp-{10**30}")
    make_shards().create()
    assert side.read_text() == text
    assert not partial.exists()
    # A removed shard is created again with the same contents.
    path = text_folder / "made/x-00002-of-00003"
    data = path.read_bytes()
    path.unlink()
    assert make_shards().create() == first
    assert path.read_bytes() == data


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
    fails(
        r"dupe_factor=2, expected 3; .*made/x\.json",
        config=dataclasses.replace(CONFIG, dupe_factor=3),
    )
    fails("num_shards=3, expected 4;", num_shards=4)
    source = pretraining.FileSource(["a.txt", "b.txt"], split_sentences=True)
    fails("split_sentences=False, expected True;", source=source)
    with open("b.txt", "a") as writer:
        writer.write("\nThe cat.\n")
    fails(r"input=\['b.txt', .*\], expected \['b.txt', .*\];")
    (text_folder / "made/x.json").unlink()
    fails(r"found made/x-00000-of-00003 without made/x\.json")
    (text_folder / "made/x.json").write_text("{}")
    fails(r"made/x\.json")
    assert shard_contents() == before


def test_memory_limit():
    sizes = [[20_000_000, 100_000, 20_000_000]]
    with pytest.raises(UserError, match=r"^`max_memory_mb=200`: .* document of 20,000,000 tokens"):
        make_shards()._check_memory(sizes, 1, 200)
    sizes[0][2] = 100_000
    with pytest.raises(UserError, match=r"^`max_memory_mb=200`: .* use `num_shards=\d+`"):
        make_shards()._check_memory(sizes, 1, 200)
    with pytest.raises(UserError, match=r"^`max_memory_mb=100`: .* processes alone take 130 MB"):
        make_shards()._check_memory(sizes, 1, 100)


def test_memory_of_compiled_code(caplog):
    """It counts for each process, and code is not compiled if the memory limit is too low."""
    caplog.set_level("INFO", "bert_tf")
    shards, sizes = make_shards(), [[1_000, 100, 100]]

    def check(num_processes, limit, is_compiled):
        caplog.clear()
        return shards._check_memory(sizes, num_processes, limit, is_compiled)

    assert check(2, 0, True)
    assert "all processes together 630 MB" in caplog.text  # 3 x 130 + 2 x 120
    assert check(2, 640, True)
    assert not check(2, 620, True)
    assert "`max_memory_mb=620` leaves no memory for compiled code" in caplog.text
    assert "all processes together 390 MB" in caplog.text
    assert not check(2, 620, False)
    with pytest.raises(UserError, match=r"^`max_memory_mb=380`: .* MB"):
        check(2, 380, True)


@pytest.mark.parametrize("num_processes", [1, 2])
def test_compiled_shards_are_those_of_python(num_processes, monkeypatch):
    make_shards("made/x").create()
    monkeypatch.setattr(pretraining.instances, "_MIN_TOKENS_TO_COMPILE", 0)
    draw, calls = compiled.draw, []
    monkeypatch.setattr(compiled, "draw", lambda *a: calls.append(1) or draw(*a))
    make_shards("made/y").create(num_processes=num_processes)
    assert shard_contents("made/x") == shard_contents("made/y") != {}
    assert len(calls) == 3 * CONFIG.dupe_factor if num_processes == 1 else not calls


@pytest.mark.parametrize(("num_processes", "num_working"), [(1, 1), (3, 3), (4, 3)])
def test_tokens_of_a_process_decide_about_compiling(num_processes, num_working, monkeypatch):
    """The number of shards limits the number of working processes."""
    asked = []
    monkeypatch.setattr(
        pretraining.shards, "find_compiled", lambda tokens, config: asked.append(tokens)
    )
    make_shards(work_dir="work").create(num_processes=num_processes)
    total = sum(shard["tokens"] for shard in json.loads(files.read_text("made/x.json"))["shards"])
    assert asked[0] == total // num_working


def test_warnings_count_all_shards(caplog):
    make_shards(
        num_shards=14, config=dataclasses.replace(CONFIG, max_predictions_per_seq=1)
    ).create()
    source = pretraining.FileSource(["a.txt", "b.txt"])
    shard_of = [(document.file + document.number) % 14 for document in source.documents()]
    num_single = sum(shard_of.count(shard) == 1 for shard in range(14))
    assert 0 < num_single < 14
    assert f"{num_single} of 14 shards are a single document" in caplog.text
    assert "`max_predictions_per_seq=1` masks fewer" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"), [("\n\n", r"^c.txt: no text"), ("a\n\nthe\n", "^c.txt: no instance")]
)
def test_text_without_instances_leaves_no_files(text_folder, text, message):
    (text_folder / "c.txt").write_text(text)
    config = dataclasses.replace(CONFIG, objective="sop")
    with pytest.raises(UserError, match=message):
        make_shards(config=config, source=pretraining.FileSource(["c.txt"])).create()
    assert not list((text_folder / "made").iterdir())


def test_remote_file_systems(text_folder, monkeypatch):
    """Only TensorFlow can read and write these paths."""
    import tensorflow as tf

    make_shards("local/x").create()
    tf.io.gfile.makedirs("ram://corpus")
    for name in ("a.txt", "b.txt"):
        packed = gzip.compress((text_folder / name).read_bytes())
        with tf.io.gfile.GFile(f"ram://corpus/{name}.gz", "wb") as writer:
            writer.write(packed)
    source = pretraining.FileSource(files.expand("ram://corpus/*.gz", "input_file"))
    shards = make_shards("ram://made/x", source=source, work_dir="work")
    forks, shared_map = [], processes.shared_map

    def spy(function, items, num_processes, fork=True):
        forks.append(fork)
        return shared_map(function, items, num_processes, fork)

    monkeypatch.setattr(processes, "shared_map", spy)
    shards.create()
    # Only remote file systems need TensorFlow.
    assert forks == [True, False]
    for path in shards.paths():
        with tf.io.gfile.GFile(path, "rb") as reader:
            assert reader.read() == (text_folder / "local" / path.rsplit("/", 1)[1]).read_bytes()
    assert shards.create().documents == 22
    with pytest.raises(UserError, match=r"^`work_dir`: .*ram://other/x.work"):
        make_shards("ram://other/x", source=source).create()


def test_metadata():
    counts = make_shards().create()
    with open("made/x.json") as reader:
        metadata = json.load(reader)
    assert metadata["made_of"]["random_seed"] == 12345
    assert sum(shard["instances"] for shard in metadata["shards"]) == counts.instances


def test_errors_of_beam_workers():
    """Beam raises its own error with the worker's traceback, or extends the worker's error."""
    error = RuntimeError(
        "Traceback (most recent call last):\n  File ...\n"
        "bert_tf.errors.UserError: a.jsonl, line 2: not UTF-8 [while running 'tokenize']\n"
    )
    assert pretraining.beam.extract_user_error(error) == "a.jsonl, line 2: not UTF-8"
    error = UserError("a.jsonl, line 2: not UTF-8 [while running 'tokenize']")
    assert pretraining.beam.extract_user_error(error) == "a.jsonl, line 2: not UTF-8"
    assert pretraining.beam.extract_user_error(RuntimeError("no such machine")) is None


def test_empty_shards_and_the_names_of_all_are_logged(text_folder, caplog):
    caplog.set_level("INFO", "bert_tf")
    make_shards(num_shards=50).create()
    assert "shards: " in caplog.text and "-00049-of-00050" in caplog.text
    assert " of 50 shards are empty: there are " in caplog.text
    assert "use a smaller `num_shards`" in caplog.text


def test_few_questions_are_asked_about_many_shards(monkeypatch):
    """A request to an object store takes tens of milliseconds, so the folder is listed once."""
    calls, count = [], 60
    make_shards(num_shards=count).create()
    expected = shard_contents()

    def counted(name, function):
        def call(path):
            if ".work" not in str(path):  # a local path
                calls.append(name)
            return function(path)

        return staticmethod(call)

    for name in ("exists", "listdir"):
        monkeypatch.setattr(files.Local, name, counted(name, getattr(files.Local, name)))
    make_shards(num_shards=count).create()
    assert 0 < len(calls) < count / 2
    files.Local.remove("made/x-00007-of-00060")
    calls.clear()
    make_shards(num_shards=count).create()
    assert 0 < len(calls) < count / 2
    assert shard_contents() == expected


@pytest.mark.parametrize("is_finished", [False, True])
def test_few_questions_are_asked_of_a_remote_work_folder(is_finished, text_folder, monkeypatch):
    """Beam's work folder has a file for each shard; it is listed before the work begins."""
    import tensorflow as tf

    folder, count = f"file://{text_folder}/few", 60

    def interrupt():
        made = shards.missing()
        for shard in made if is_finished else made[:30]:
            shards.create_shard(shard, blocks[shard])
        if not is_finished:
            raise KeyboardInterrupt

    chunks = iter_chunks(pretraining.FileSource(["a.txt", "b.txt"]).documents(), count)
    shards = make_shards(f"{folder}/x", count)
    blocks = [[] for _ in range(count)]
    for chunk in chunks:
        for shard, block in shards.tokenize(chunk):
            blocks[shard].append(block)
    with contextlib.nullcontext() if is_finished else pytest.raises(KeyboardInterrupt):
        shards.create_with(interrupt)
    if is_finished:
        tf.io.gfile.remove(shards.paths()[7])
    calls, missing = [], []

    def count_call(function, *args, **options):
        calls.append(function)
        return function(*args, **options)

    for name in ("exists", "isdir", "stat", "remove", "makedirs", "rename", "listdir", "GFile"):
        function = functools.partial(count_call, getattr(tf.io.gfile, name))
        monkeypatch.setattr(tf.io.gfile, name, function)

    def complete():
        missing.extend(shards.missing())
        assert 0 < len(calls) < count  # far fewer than one per shard
        for shard in missing:
            shards.create_shard(shard, blocks[shard])

    shards = make_shards(f"{folder}/x", count)
    counts = shards.create_with(complete)
    assert missing == [7] if is_finished else len(missing) == 30
    assert counts == make_shards("local/x", count).create()
    contents = shard_contents("local/x")
    for path in shards.paths():
        with tf.io.gfile.GFile(path, "rb") as reader:
            assert reader.read() == contents[path.rsplit("-", 3)[1]]
    assert not tf.io.gfile.exists(f"{folder}/x.work")


@pytest.mark.slow
@pytest.mark.parametrize("is_killed", [False, True])
def test_dask_creates_the_same_shards(text_folder, is_killed, monkeypatch, caplog):
    """Several workers create the same shards, even if one is killed while working."""
    pytest.importorskip("apache_beam")
    distributed = pytest.importorskip("distributed")
    config = dataclasses.replace(CONFIG, dupe_factor=200)
    make_shards("alone/x", config=config).create()
    monkeypatch.setattr(console, "SECONDS_PER_LINE", 0.05)
    caplog.set_level("INFO", logger="bert_tf")
    with distributed.LocalCluster(
        n_workers=3, threads_per_worker=1, dashboard_address=None
    ) as cluster:
        option = f"--dask_client_address={cluster.scheduler_address}"

        def kill():
            while not list(pathlib.Path("made").glob("x-*.tmp-*")):
                time.sleep(0.005)
            (path, *_) = pathlib.Path("made").glob("x-*.tmp-*")
            os.kill(int(path.name.rpartition("-")[2]), signal.SIGKILL)

        killer = threading.Thread(target=kill, daemon=True)
        if is_killed:
            killer.start()
        shards = make_shards(config=config)
        pretraining.beam.create_shards(shards, "DaskRunner", [option])
        assert not killer.is_alive()
    assert re.search(r"creating: \d+ of 3 shards", caplog.text)
    assert shard_contents() == shard_contents("alone/x")
    assert not list(pathlib.Path("made").glob("*.tmp-*"))
