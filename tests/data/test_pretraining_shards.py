"""Shards and create_pretraining_data.py: contents, resuming, processes, the work folder, errors."""

import dataclasses
import gzip
import json
import pathlib
import random
import re
import threading
import time

import absl.flags
import numpy as np
import pytest

from bert_tf import tokenization
from bert_tf.data import pretraining, tfrecord
from bert_tf.data.pretraining import compiled
from bert_tf.data.pretraining.writing import WorkDir
from bert_tf.errors import DamagedFile, UserError
from bert_tf.io import files, processes
from tests.data.pretraining_helpers import CONFIG, TOKENS, interrupt, make_shards, shard_contents

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
    if "tokens.json" not in left:  # without complete tokens nothing can be resumed
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


# The work folder: other files in it, reused tokens, and locks.


def test_other_files_in_the_work_dir_are_kept():
    mine, thesis = pathlib.Path("mine/notes"), pathlib.Path("mine/y.work/thesis")
    thesis.parent.mkdir(parents=True)
    for path in (mine, thesis):
        path.write_text("of years")
    make_shards(work_dir="mine").create()
    assert set(mine.parent.iterdir()) == {mine, thesis.parent}
    with pytest.raises(UserError, match=r"^`work_dir`: .*made_of.json in mine/y.work"):
        make_shards("made/y", work_dir="mine").create()
    assert thesis.exists()


@pytest.mark.parametrize("num_shards", [2, 5])
def test_tokens_of_another_configuration_are_not_used(num_shards):
    """The user removes the metadata and the shards, as the error advises, not the work folder."""
    interrupt("00000-of-00003")
    assert pathlib.Path("made/x.work/tokens.json").exists()
    pathlib.Path("made/x.json").unlink()
    assert make_shards(num_shards=num_shards).create().documents == 22
    make_shards("again/x", num_shards).create()
    assert shard_contents() == shard_contents("again/x")


@pytest.mark.parametrize("keep", [None, 0, 20, -4])
def test_damaged_tokens(keep):
    """`keep` is the number of bytes that remain; None for a missing file."""
    interrupt("00000-of-00003")
    path = pathlib.Path("made/x.work/tokens/00001")
    data = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(data[:keep])
    with pytest.raises(DamagedFile, match=r"^made/x\.work/tokens/00001: .*remove made/x\.work$"):
        make_shards().create()
    files.Local.rmtree("made/x.work")
    assert make_shards().create().documents == 22


def test_text_changes_while_it_is_read(tmp_path):
    class Changing(pretraining.TextFileSource):
        def documents(self):
            yield from super().documents()
            (tmp_path / "a.txt").write_text("The cat.\n")

    with pytest.raises(UserError, match=r"^a\.txt, b\.txt: .*remove made/x\.json"):
        make_shards(source=Changing(["a.txt", "b.txt"])).create()
    assert not pathlib.Path("made/x.work/tokens.json").exists()


def test_waiting_for_a_lock(monkeypatch):
    """Children of a killed process hold it briefly and may remove the folder."""
    works = [WorkDir("w", 1, {}) for _ in range(2)]
    is_locked = threading.Event()

    def hold():
        with works[0].locked():
            is_locked.set()
            time.sleep(0.3)
            works[0].remove()

    monkeypatch.setattr(processes, "_LOCK_SECONDS", 20.0)
    thread = threading.Thread(target=hold)
    thread.start()
    assert is_locked.wait(20)
    start = time.monotonic()
    with works[1].locked():
        assert time.monotonic() - start >= 0.2
        assert pathlib.Path("w/.lock").exists()
    thread.join()


# create_pretraining_data.py: output, resuming after a kill, and errors.


FLAGS = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2",
         "--input_file=a.txt,b.txt", "--vocab_file=vocab.txt"]  # fmt: skip
SHARDS = ["--num_shards=3", "--output_file=made/x"]


@pytest.fixture
def create(run_script):
    """A function that runs the script with `FLAGS` and more flags and returns its log."""
    return lambda *flags: run_script("create_pretraining_data", *FLAGS, *flags)


def test_vocabulary_and_casing_of_a_model(run_script, create, text_folder):
    assert "has capital letters" in create("--output_file=cased", "--do_lower_case=false")
    model = text_folder / "model"
    model.mkdir()
    (text_folder / "vocab.txt").rename(model / "vocab.txt")
    (model / "bert_config.json").write_text(json.dumps({"vocab_size": len(TOKENS)}))
    (model / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    log = run_script(
        "create_pretraining_data", *FLAGS[:-1], "--model=model", "--output_file=of_model"
    )
    assert "vocab_file (vocab.txt), do_lower_case=False" in log
    assert (text_folder / "cased").read_bytes() == (text_folder / "of_model").read_bytes()


@pytest.mark.parametrize(
    ("name", "num_shards"),
    [("x-00001-of-00003", 1), ("tokens.json", 0), ("x.json", 0), ("00002.json", 2)],
)
def test_an_interrupted_run_resumes_with_the_same_result(create, text_folder, name, num_shards):
    """The run is interrupted before the named file is renamed into place."""
    interrupt(name)
    before = shard_contents()
    assert len(before) == num_shards
    log = create(*SHARDS, "--num_processes=2")
    for number in range(3):
        assert (f"made/x-{number:05d}-of-00003 exists" in log) == (f"{number:05d}" in before)
    assert ("reusing the tokens in made/x.work" in log) == bool(before)
    counts = make_shards("again/x").create()
    assert shard_contents("again/x") == shard_contents()
    assert re.search(rf"instances +{counts.instances:,}\n", log)
    left = {path.name for path in (text_folder / "made").iterdir()}
    assert not [name for name in left if "tmp" in name or name.endswith(".work")]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input_file=empty.txt"], r"^empty\.txt: no text"),
        (["--input_file=short.txt", "--objective=sop"], r"^short\.txt: no instance"),
        (["--vocab_file=unmasked.txt"], r"^--vocab_file: .*\[MASK\] among its 4 pieces"),
        (["--output_file=made/x,made/y"], r"^--output_file: .*--num_shards"),
        (["--vocab_file="], "^--vocab_file or --model"),
        (["--output_file=vocab.txt/x"], r"^--output_file: vocab\.txt/x\.json"),
        (["--output_file=a.txt"], r"^--output_file: a\.txt"),
        (["--num_shards=0", "--output_file=y,y"], "^--output_file: y"),
        (["--output_file=empty"], "^--output_file: empty"),
        (["--tfds_name=glue"], "--input_file and --tfds_name"),
        (["--tfds_name=glue", "--input_file=", "--split_sentences"],
         "^--split_sentences requires --input_file"),
        (["--text_field=body"], "^--text_field: .*--input_format=jsonl"),
        (["--dynamic_masking", "--masked_lm_prob=0.2"], "^--masked_lm_prob .*--dynamic_masking"),
        (["--word_boundaries=spaces"], "^--word_boundaries requires --do_whole_word_mask"),
        (["--runner=DirectRunner", "--num_processes=2"], "^--num_processes .*--runner"),
        *(([f"--{x}"], f"^flag --{x}") for x in (
            "max_seq_length=4", "max_predictions_per_seq=0", "dupe_factor=0", "masked_lm_prob=1.5",
            "short_seq_prob=-0.1", "max_ngram=0")),
    ],
)  # fmt: skip
def test_errors_leave_no_files(create, text_folder, flags, message):
    (text_folder / "empty.txt").write_text("\n\n")
    (text_folder / "short.txt").write_text("a\n\nthe\n")
    (text_folder / "empty").mkdir()
    (text_folder / "unmasked.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    before = {path for path in text_folder.rglob("*") if path.is_file()}
    with pytest.raises((UserError, absl.flags.Error), match=message):
        create(*SHARDS, *flags)
    assert {path for path in text_folder.rglob("*") if path.is_file()} == before


def test_beam_creates_the_same_shards(create, text_folder):
    pytest.importorskip("apache_beam")
    make_shards("local/x").create()
    beam = ["--output_file=beam/x", "--runner=DirectRunner"]
    create(*SHARDS, *beam)
    assert shard_contents("beam/x") == shard_contents("local/x")
    local, remote = ((text_folder / f"{name}/x.json").read_text() for name in ("local", "beam"))
    assert local == remote
    # Only missing shards are created.
    (text_folder / "beam/x-00001-of-00003").unlink()
    log = create(*SHARDS, *beam)
    assert re.findall(r"beam/x-(\d+)-of-00003 exists", log) == ["00000", "00002"]
    assert shard_contents("beam/x") == shard_contents("local/x")
    # A shard without documents is an empty file.
    create(*SHARDS, *beam, "--output_file=many/x", "--num_shards=40")
    make_shards("many_local/x", 40).create()
    assert shard_contents("many/x") == shard_contents("many_local/x")
    assert b"" in shard_contents("many/x").values()
