"""Atomic writes, file names, locks and the error messages about files."""

import concurrent.futures
import contextlib
import gzip
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from bert_tf import configs, errors
from bert_tf.checkpoints.metadata import check_preset, replacing_preset
from bert_tf.errors import UserError
from bert_tf.io import files, json_files, processes
from tests.common import write_files


def test_errors_of_the_block_are_not_changed(tmp_path):
    error = tf.errors.ResourceExhaustedError(None, None, "failed to allocate memory")
    with pytest.raises(type(error)), files.replacing(str(tmp_path / "x")):
        raise error
    assert not list(tmp_path.iterdir())


def test_partial_files_of_killed_processes_are_removed(tmp_path):
    """Versions written by running processes stay, and so do other files."""
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    data = "c.tmp-12.data-00000-of-00001"
    for remove, partial, kept in (
        (lambda folder: processes.remove_temporary_files(str(folder)),
         ["x.tmp-1", "c.tmp-12.index", "c.tmp-12.index.tempstate7", data, f"{data}.tempstate108"],
         ["c.index", "c.data-00000-of-00001", "notes.tmp", "a.tempstate1", "x.tmp-1.txt"]),
        (lambda folder: files.remove_partial(str(folder / "x")),
         [f"x.tmp-{dead.pid}", f"x.counts.json.tmp-{dead.pid}", f"x.tmp-{10**30}"],
         [f"x.tmp-{os.getpid()}", f"xx.tmp-{dead.pid}", f"x.json.tmp-{dead.pid}", "x.tmp-", "x"]),
    ):  # fmt: skip
        folder = tmp_path / kept[0]
        folder.mkdir()
        for name in [*partial, *kept]:
            (folder / name).touch()
        (folder / f"x.tmp-0{dead.pid}").mkdir()
        (folder / f"x.tmp-0{dead.pid}" / "weights").touch()
        remove(folder)
        assert sorted(path.name for path in folder.iterdir()) == sorted(kept)


def test_links_and_pipes(tmp_path, monkeypatch):
    """The target of a link is replaced. A pipe is written to, but not read."""
    monkeypatch.chdir(tmp_path)
    write_files(tmp_path, old="old", other="old")
    os.link("other", "hard")
    for link, target in (("link", "old"), ("dangling", "new"), ("same", "other")):
        os.symlink(target, link)
    for path, target in (("link", "old"), ("dangling", "new")):
        files.check_writable(path, "x")
        files.write_text(path, "text")
        assert os.readlink(path) == target and files.read_text(target) == "text"
    for first, second in (("x", "./x"), ("other", "same"), ("hard", f"{tmp_path}/other")):
        with pytest.raises(UserError, match=second):
            files.write_texts({first: "lost", second: "lost"})
        with pytest.raises(UserError, match=f"^`x`: {second}"):
            files.check_writable(second, "x", [first])
    assert files.read_text("other") == "old" and not os.path.exists("x")
    os.mkfifo("pipe")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        files.check_writable("pipe", "x")
        pool.submit(files.write_text, "pipe", "text")
        with open("pipe") as reader:
            assert reader.read() == "text"
    with pytest.raises(UserError, match="pipe"):
        files.read_text("pipe")
    descriptor = os.open("old", os.O_RDONLY)
    with pytest.raises(UserError, match=r"^`x`: /dev/fd"):
        files.check_output(f"/dev/fd/{descriptor}", "x")
    assert {*os.listdir()} == {"dangling", "hard", "link", "new", "old", "other", "pipe", "same"}


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ("", ""),
        ("bert_config.json checkpoint model.ckpt-1.index squad.json 1_Pooling/config.json", ""),
        ("vocab.txt", "no model"),
        ("config.json x/vocab.txt", "x/vocab.txt"),
    ],
)
def test_only_a_preset_is_replaced(tmp_path, names, named):
    paths = [tmp_path / "preset" / name for name in names.split()]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "link").symlink_to("preset")
    folder, check = str(tmp_path / "link"), check_preset
    error = pytest.raises(UserError, match=f"^`folder`: .* {named}") if named else None
    with error or contextlib.nullcontext(), files.replacing(folder, check_folder=check) as (new,):
        files.write_text(os.path.join(new, "new"), "")
    assert all(path.exists() == bool(named) for path in paths)
    assert named or os.listdir(folder) == ["new"]
    assert sorted(os.listdir(tmp_path)) == ["link", "preset"]


def test_expand_prefers_an_existing_file_to_a_pattern(tmp_path):
    for name in ("g[1]", "g1"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.tfrecord").write_bytes(b"")
    path = f"{tmp_path}/g[1]/data.tfrecord"
    assert files.expand(path, "input_file") == [path]
    assert files.expand(f"{tmp_path}/g[12]/*.tfrecord", "x") == [f"{tmp_path}/g1/data.tfrecord"]


def test_home_folder(run_script, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    files.write_text("~/a", "some words " * 9)
    run_script("bert-tf vocab learn", "--input_file=~/a,~/a", "--vocab_file=~/v", "--num_unused=0")
    with replacing_preset("~/model", overwrite=False) as path:
        os.mkdir(path)
    assert {*os.listdir()} == {"a", "v", "model"}
    assert configs.ExportConfig("~/x").export_dir == str(tmp_path / "x")


def test_remote_paths(monkeypatch, tmp_path):
    exists = tf.io.gfile.exists

    def without_network(path):
        if str(path).startswith("gs://"):
            message = "Error executing an HTTP request: Could not resolve host\n\t when reading"
            raise tf.errors.FailedPreconditionError(None, None, message)
        return exists(path)

    monkeypatch.setattr(tf.io.gfile, "exists", without_network)
    for value in ("gs://b/x", "a.txt, gs://b/x", ("a.txt", "gs://b/x")):
        with pytest.raises(UserError) as error:
            files.check_reachable(value, "input_file")
        error.match(r"^`input_file`: gs://b/x .*\(Error .*: Could not resolve host\);")
    # These are local, or not paths.
    for value in ("grpc://10.0.0.1:8470", str(tmp_path / "nothing"), "a, b", 1, None, ()):
        files.check_reachable(value, "x")
    with pytest.raises(UserError, match=r"^`x`: .*udce9"):  # a byte that is not UTF-8
        files.check_reachable(["a", "caf\udce9"], "x")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\ntwo", "one"),
        ("Graph execution error:\n\nDetected at node A/B defined at (most recent call last):\n"
         '  File "x.py", line 3, in main\nno room [Op:__inference_f_12]', "no room"),
        ("Graph execution error:\n\n2 root error(s) found.\n  (0) DATA_LOSS:  corrupted\n\t [[a]]\n"
         "  (1) DATA_LOSS:  corrupted", "corrupted"),
        ("{{function_node __wrapped__SaveV2_device_/CPU:0}} a.tmp; File too large [Op:SaveV2]",
         "a.tmp; File too large"),
        ("Graph execution error:\n", "Graph execution error:"),
        ("", "ValueError('')"),
    ],
)  # fmt: skip
def test_reason_is_the_informative_line(text, line):
    assert errors.reason(ValueError(text)) == line


def test_lock_names_its_holder_and_ends_with_it(tmp_path, monkeypatch):
    monkeypatch.setattr(processes, "_LOCK_SECONDS", 0.2)
    program = (
        "import time; from bert_tf.io import processes\n"
        f"with processes.locked({str(tmp_path)!r}, 'output_dir', 'trains'):\n"
        "    print('locked', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "locked\n"
        for _ in range(2):  # a failed attempt keeps the process ID
            with (
                pytest.raises(UserError, match=rf"`output_dir`: .*\(PID {holder.pid}\) trains in"),
                processes.locked(str(tmp_path), "output_dir", "trains"),
            ):
                pass
        holder.kill()
        holder.wait()
        with processes.locked(str(tmp_path), "output_dir", "trains"):
            assert (tmp_path / ".lock").read_text() == str(os.getpid())
    finally:
        holder.kill()
        holder.stdout.close()


def test_lines_of_gzip_files_are_found_in_blocks(tmp_path, monkeypatch):
    """Calling `GzipFile.readline` for 50 million lines would take more than a minute."""
    path = tmp_path / "lines.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbfa\n\n" + b"\n" * 10_000 + b"b"))
    monkeypatch.setattr(gzip.GzipFile, "readline", None)
    assert list(files.read_lines(str(path))) == ["a\n", *["\n"] * 10_001, "b"]
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf"))
    assert not list(files.read_lines(str(path)))


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_other_encodings_are_refused(tmp_path, encoding):
    (tmp_path / "a").write_text('{"a": "b"}\n', encoding)
    for read in (files.read_text, json_files.read, lambda path: list(files.read_lines(path))):
        with pytest.raises(UserError, match="a: found UTF-16"):
            read(str(tmp_path / "a"))
