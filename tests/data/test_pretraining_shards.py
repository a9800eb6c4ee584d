"""Shards: what they hold, that workers and kills do not change them, and who they belong to."""

import glob
import gzip
import json
import random
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from test_pretraining_data import PIECES, _text

from bert_tf import files, processes, tokenization
from bert_tf.data import pretraining
from bert_tf.data.pretraining import corpus as corpora
from bert_tf.errors import UserError

SETTINGS = pretraining.InstanceConfig(max_seq_length=32, max_predictions_per_seq=5, dupe_factor=2)
FLAGS = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2", "--num_shards=3",
         "--input_file=a.txt,b.txt", "--vocab_file=vocab.txt"]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    for seed, name in enumerate(("a.txt", "b.txt")):
        (tmp_path / name).write_text(_text(random.Random(seed), 11))
    monkeypatch.chdir(tmp_path)
    # So that there is more than one chunk for the processes.
    monkeypatch.setattr(corpora, "_CHUNK_SIZE", 500)
    return tmp_path


def shards(output="made/x", num_shards=3, settings=SETTINGS, source=None, work_dir=None):
    tokenizer = tokenization.FullTokenizer("vocab.txt")
    source = source or pretraining.FileSource(["a.txt", "b.txt"])
    return pretraining.Shards(source, output, tokenizer, settings, num_shards, work_dir)


def contents(folder, output="made/x"):
    return {
        path.rsplit("-", 3)[1]: open(path, "rb").read()
        for path in glob.glob(str(folder / f"{output}-*-of-?????"))
    }


def script(root, folder, *flags, code=None):
    """Runs the script, after the Python lines `code`."""
    program = f"""
import runpy, sys
sys.argv = {["create_pretraining_data.py", *FLAGS, *flags]!r}
{code or ""}
runpy.run_path({str(root / "create_pretraining_data.py")!r}, run_name="__main__")
"""
    return subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True
    )


@pytest.mark.parametrize("by_spaces", [False, True])
def test_each_shard_is_a_corpus_of_its_own(folder, by_spaces):
    """Shard i is what the release's algorithm makes of documents (f + d) mod 3 = i."""
    settings = SETTINGS
    if by_spaces:
        settings = settings._replace(do_whole_word_mask=True, word_boundaries="spaces")
    counts = shards(settings=settings).create(num_processes=1 + by_spaces)
    source = pretraining.FileSource(["a.txt", "b.txt"])
    texts = [[], [], []]
    for document in source.documents():
        texts[(document.file + document.number) % 3].append("".join(document.lines))
    tokenizer = tokenization.FullTokenizer("vocab.txt")
    for shard, found in enumerate(texts):
        (folder / "part.txt").write_text("\n".join(found))
        part = pretraining.FileSource(["part.txt"])
        corpus = pretraining.read_corpus(part, tokenizer, by_spaces)
        assert np.any(corpus.is_continuation) == by_spaces
        made = pretraining.create_instances(
            corpus, tokenizer.vocab, settings, random.Random(f"12345/{shard}")
        )
        pretraining.write(["part"], made, corpus, tokenizer.vocab, settings)
        assert (folder / "part").read_bytes() == contents(folder)[f"{shard:05d}"]
    assert counts.documents == 22 and counts.instances > 50
    assert sorted(path.name for path in (folder / "made").iterdir()) == [
        "x-00000-of-00003", "x-00001-of-00003", "x-00002-of-00003", "x.json"
    ]  # fmt: skip


def test_the_number_of_processes_does_not_matter(folder):
    first = shards("one/x").create()
    assert shards("two/x").create(num_processes=2) == first
    assert contents(folder, "one/x") == contents(folder, "two/x")
    assert len(set(contents(folder, "one/x").values())) == 3


@pytest.mark.parametrize("name", ["x-00001-of-00003", "sizes.json", "x.json", "00002.json"])
def test_killed_and_started_again_it_ends_the_same(root, folder, name):
    """Killed before that file or folder has its name, it makes what is missing."""
    kill = f"""
import os, signal
from bert_tf import files
rename = files.Local.rename
def killed(source, target, overwrite=False):
    if os.path.basename(target) == {name!r}:
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target, overwrite)
files.Local.rename = staticmethod(killed)
"""
    done = script(root, folder, "--output_file=made/x", code=kill)
    assert done.returncode == -signal.SIGKILL, done.stderr
    before = contents(folder)
    # Those that are there are whole.
    assert len(before) == {"x-00001-of-00003": 1, "00002.json": 2}.get(name, 0)
    done = script(root, folder, "--output_file=made/x", "--num_processes=2")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is there already") == len(before)
    assert ("the tokens in made/x.work are used again" in done.stderr) == bool(before)
    counts = shards("again/x").create()
    assert contents(folder, "again/x") == contents(folder)
    assert f"\ninstances {counts.instances:26,}\n".replace(" ", "") in done.stderr.replace(" ", "")
    assert not list((folder / "made").glob("*tmp*")) and not (folder / "made/x.work").exists()


def test_shards_that_are_there_are_not_made_again(folder, caplog):
    first = shards().create()
    before = {path: path.stat().st_mtime_ns for path in (folder / "made").iterdir()}
    with caplog.at_level("INFO", "bert_tf"):
        assert shards().create() == first
    assert "all 3 shards are there already" in caplog.text
    assert {path: path.stat().st_mtime_ns for path in (folder / "made").iterdir()} == before
    # One that was removed is made again, and is the same.
    path = folder / "made/x-00002-of-00003"
    data = path.read_bytes()
    path.unlink()
    assert shards().create() == first
    assert path.read_bytes() == data


def test_shards_of_others_are_not_touched(folder):
    shards().create()
    with pytest.raises(UserError, match=r"the shards there are of dupe_factor 2, not 3; remove it"):
        shards(settings=SETTINGS._replace(dupe_factor=3)).create()
    with pytest.raises(UserError, match=r"the shards there are of num_shards 3, not 4"):
        shards(num_shards=4).create()
    source = pretraining.FileSource(["a.txt", "b.txt"], split_sentences=True)
    with pytest.raises(UserError, match=r"are of split_sentences false, not true; remove it"):
        shards(source=source).create()
    with open("b.txt", "a") as writer:
        writer.write("\nThe cat.\n")
    with pytest.raises(UserError, match=r'of input \["b.txt", .*\], not \["b.txt", .*\]; '):
        shards().create()
    (folder / "made/x.json").unlink()
    with pytest.raises(UserError, match=r"x-00000-of-00003 is there, and no made/x.json says"):
        shards().create()
    (folder / "made/x.json").write_text("{}")
    with pytest.raises(UserError, match="is not a note of this program"):
        shards().create()


def test_too_little_memory_is_told_and_the_advice_is_right(root, folder):
    """As if a process took nothing and a token 1 kB, so that small text needs megabytes."""
    code = """
from bert_tf.data.pretraining import shards
shards._PROCESS_MB, shards._TOKEN = 0, 1000
"""
    flags = ["--output_file=made/x", "--max_memory_mb=1"]
    done = script(root, folder, *flags, code=code)
    assert done.returncode == 1
    assert "error: --max_memory_mb=1 is not enough for 3 shards in 1 processes" in done.stderr
    assert not contents(folder)
    advice = re.search(r"(--num_shards=(\d+)) is about enough .with (.*) removed.", done.stderr)
    (folder / advice[3]).unlink()
    done = script(root, folder, *flags, advice[1], code=code)
    assert done.returncode == 0, done.stderr
    again = shards("again/x", int(advice[2]))
    assert again.create().documents == 22
    assert contents(folder) == contents(folder, "again/x")


def test_a_document_that_is_too_large_is_told_of(folder):
    with pytest.raises(UserError, match=r"; one document of 20,000,000 tokens is too large for it"):
        shards()._check_memory([[20_000_000, 100_000, 20_000_000]], 1, 200)
    with pytest.raises(UserError, match=r"; --num_shards=\d+ is about enough"):
        shards()._check_memory([[20_000_000, 100_000, 100_000]], 1, 200)


def test_errors_leave_nothing(root, folder):
    (folder / "empty.txt").write_text("\n\n")
    flags = [["--input_file=empty.txt"], ["--output_file=made/x,made/y"], ["--num_processes=0"],
             ["--num_shards=0", "--num_processes=2"], ["--tfds_name=glue"],
             ["--tfds_name=glue", "--input_file=", "--split_sentences"], ["--tfds_split=test"],
             ["--dynamic_masking", "--masked_lm_prob=0.2"]]  # fmt: skip
    said = ["empty.txt: no text in it", "--output_file: one name was expected", "num_processes",
            "--num_processes wants --num_shards", "and not both",
            "--split_sentences wants --input_file", "--tfds_split wants --tfds_name",
            "--masked_lm_prob goes to run_pretraining.py"]  # fmt: skip
    for more, sentence in zip(flags, said, strict=True):
        done = script(root, folder, "--output_file=made/x", *more)
        assert done.returncode == 1
        assert sentence in done.stderr and "Traceback" not in done.stderr
        assert not contents(folder)


def test_what_is_not_as_one_may_think_is_told_of_all_shards(folder, caplog):
    settings = SETTINGS._replace(max_predictions_per_seq=1)
    shards(num_shards=14, settings=settings).create()
    source = pretraining.FileSource(["a.txt", "b.txt"])
    dealt = [(document.file + document.number) % 14 for document in source.documents()]
    lonely = sum(dealt.count(shard) == 1 for shard in range(14))
    assert 0 < lonely < 14
    assert f"{lonely} of 14 shards are one document, so a random next sentence" in caplog.text
    assert "--max_predictions_per_seq=1 masks less than --masked_lm_prob=0.15 in" in caplog.text


@pytest.mark.parametrize(
    ("text", "message"),
    [("\n\n", "no text in it"), ("a\n\nthe\n", "not one instance can be made of its text")],
)
def test_text_that_gives_nothing_leaves_nothing(folder, text, message):
    (folder / "c.txt").write_text(text)
    settings = SETTINGS._replace(objective="sop")
    with pytest.raises(UserError, match=message):
        shards(settings=settings, source=pretraining.FileSource(["c.txt"])).create()
    assert not list((folder / "made").iterdir())


def test_beam_makes_the_same_shards(root, folder):
    pytest.importorskip("apache_beam")
    shards("local/x").create()
    flags = ["--output_file=beam/x", "--runner=DirectRunner"]
    done = script(root, folder, *flags)
    assert done.returncode == 0, done.stderr
    assert contents(folder, "beam/x") == contents(folder, "local/x")
    notes = [json.loads((folder / f"{name}/x.json").read_text()) for name in ("local", "beam")]
    assert notes[0] == notes[1]
    # Only what is missing is made, and a shard without documents is a file without records.
    (folder / "beam/x-00001-of-00003").unlink()
    done = script(root, folder, *flags)
    assert done.stderr.count("is there already") == 2
    assert contents(folder, "beam/x") == contents(folder, "local/x")
    done = script(root, folder, "--output_file=many/x", "--runner=DirectRunner", "--num_shards=40")
    shards("many_local/x", 40).create()
    assert contents(folder, "many/x") == contents(folder, "many_local/x")
    assert b"" in contents(folder, "many/x").values()
    (folder / "wrong.jsonl").write_text("[]\n")
    flags = ["--output_file=wrong/x", "--runner=DirectRunner", "--input_file=wrong.jsonl"]
    done = script(root, folder, *flags)
    assert done.stderr.endswith("wrong.jsonl, line 1: one JSON object was expected, not []\n")


def test_what_a_worker_of_beam_says_comes_back():
    """Beam quotes a worker's whole traceback in an error of its own, or adds to the error."""
    said = RuntimeError(
        "Traceback (most recent call last):\n  File ...\n"
        "bert_tf.errors.UserError: a.jsonl, line 2: not UTF-8 [while running 'tokenize']\n"
    )
    assert pretraining.beam.extract_user_error(said) == "a.jsonl, line 2: not UTF-8"
    said = UserError("a.jsonl, line 2: not UTF-8 [while running 'tokenize']")
    assert pretraining.beam.extract_user_error(said) == "a.jsonl, line 2: not UTF-8"
    assert pretraining.beam.extract_user_error(RuntimeError("no such machine")) is None


def test_beam_that_is_not_there_is_asked_for(root, folder):
    hide = "import sys; sys.modules['apache_beam'] = None"
    done = script(root, folder, "--output_file=made/x", "--runner=DirectRunner", code=hide)
    assert done.returncode == 1
    assert "error: --runner wants Apache Beam" in done.stderr
    done = script(root, folder, "--output_file=made/x", "--beam_option=--project=x")
    assert "--beam_option wants --runner" in done.stderr


def test_other_file_systems(folder, monkeypatch):
    """Input, vocabulary and shards where TensorFlow alone can read and write."""
    import tensorflow as tf

    shards("local/x").create()
    tf.io.gfile.makedirs("ram://corpus")
    for name in ("a.txt", "b.txt"):
        packed = gzip.compress((folder / name).read_bytes())
        with tf.io.gfile.GFile(f"ram://corpus/{name}.gz", "wb") as writer:
            writer.write(packed)
    tokenizer = tokenization.FullTokenizer("vocab.txt")
    source = pretraining.FileSource(files.expand("ram://corpus/*.gz", "input_file"))
    remote = pretraining.Shards(source, "ram://made/x", tokenizer, SETTINGS, 3, "work")
    forks, shared_map = [], processes.shared_map

    def told(function, items, num_processes, fork=True):
        forks.append(fork)
        return shared_map(function, items, num_processes, fork)

    monkeypatch.setattr(processes, "shared_map", told)
    remote.create()
    # What makes shards writes them by TensorFlow, and what tokenizes does not need it.
    assert forks == [True, False]
    for path in remote.paths():
        with tf.io.gfile.GFile(path, "rb") as reader:
            assert reader.read() == (folder / "local" / path.rsplit("/", 1)[1]).read_bytes()
    assert remote.create().documents == 22
    other = pretraining.Shards(source, "ram://other/x", tokenizer, SETTINGS, 3)
    with pytest.raises(UserError, match="--work_dir must be a local folder"):
        other.create()


def test_a_note_is_json_that_people_can_read(folder):
    counts = shards().create()
    note = json.loads((folder / "made/x.json").read_text())
    assert note["made_of"]["random_seed"] == 12345
    assert sum(shard["instances"] for shard in note["shards"]) == counts.instances
