"""The folder that shards are made in: whose it is, what is used again, and who may be in it."""

import pathlib
import threading
import time

import pytest
from test_pretraining_shards import contents, folder, shards  # noqa: F401

from bert_tf import files
from bert_tf.data import pretraining
from bert_tf.data.pretraining.workdir import WorkDir
from bert_tf.errors import DamagedFile, UserError

pytestmark = pytest.mark.usefixtures("folder")


def interrupted(monkeypatch, name, **options):
    """Shards whose making ends before the file of that name is there."""
    rename = files.Local.rename

    def never(source, target, overwrite=False):
        if target.endswith(name):
            raise KeyboardInterrupt
        rename(source, target, overwrite)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(files.Local, "rename", staticmethod(never))
        shards(**options).create()


def test_what_else_is_in_the_folder_that_the_user_names_stays():
    mine = pathlib.Path("mine/notes")
    mine.parent.mkdir()
    mine.write_text("of years")
    shards(work_dir="mine").create()
    assert list(mine.parent.iterdir()) == [mine]
    (mine.parent / "y.work").mkdir()
    (mine.parent / "y.work/thesis").write_text("of years")
    with pytest.raises(UserError, match=r"^--work_dir: mine/y.work is there and was not made by"):
        shards("made/y", work_dir="mine").create()
    assert (mine.parent / "y.work/thesis").exists()


@pytest.mark.parametrize("num_shards", [2, 5])
def test_tokens_of_other_settings_are_not_used(tmp_path, monkeypatch, num_shards):
    """As one does it whom the errors tell to remove note and shards."""
    interrupted(monkeypatch, "00000-of-00003")
    assert pathlib.Path("made/x.work/sizes.json").exists()
    pathlib.Path("made/x.json").unlink()
    assert shards(num_shards=num_shards).create().documents == 22
    shards("again/x", num_shards).create()
    assert contents(tmp_path) == contents(tmp_path, "again/x")


@pytest.mark.parametrize("keep", [None, 0, 20, -4])
def test_tokens_that_are_damaged_are_told_of(monkeypatch, keep):
    """Of a file that is gone, or of which so many bytes are there."""
    interrupted(monkeypatch, "00000-of-00003")
    path = pathlib.Path("made/x.work/tokens/00001")
    data = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(data[:keep])
    expected = r"tokens/00001: not the tokens that were written; remove made/x.work$"
    with pytest.raises(DamagedFile, match=expected):
        shards().create()
    files.Local.rmtree("made/x.work")
    assert shards().create().documents == 22


def test_killed_while_it_removes_the_folder(monkeypatch):
    first = shards().create()
    with shards()._work_dir.locked():
        pass
    assert shards().create() == first
    assert not pathlib.Path("made/x.work").exists()


def test_shards_that_were_counted_in_another_folder_are_made_again(tmp_path, monkeypatch, caplog):
    interrupted(monkeypatch, "00001-of-00003", work_dir="one")
    with caplog.at_level("INFO", "bert_tf"):
        counts = shards(work_dir="two").create()
    assert "x-00000-of-00003 is there, but not what was counted of it" in caplog.text
    assert shards("again/x").create() == counts
    assert contents(tmp_path) == contents(tmp_path, "again/x")


def test_text_that_changes_while_it_is_read(tmp_path):
    class Changing(pretraining.FileSource):
        def documents(self):
            yield from super().documents()
            (tmp_path / "a.txt").write_text("The cat.\n")

    with pytest.raises(UserError, match=r"^a.txt, b.txt: changed while it was read; remove made/x"):
        shards(source=Changing(["a.txt", "b.txt"])).create()
    assert not pathlib.Path("made/x.work/sizes.json").exists()


def test_another_process_was_quicker(tmp_path, monkeypatch):
    """It makes the shards after this one has looked for them and before it has the lock."""
    held, times = WorkDir.locked, {}

    def late(work):
        monkeypatch.setattr(WorkDir, "locked", held)
        shards().create()
        times.update((path, path.stat().st_mtime_ns) for path in (tmp_path / "made").iterdir())
        return held(work)

    monkeypatch.setattr(WorkDir, "locked", late)
    assert shards().create().documents == 22
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "made").iterdir()} == times


def test_a_lock_that_was_removed_is_none(monkeypatch):
    """Who held it removed it after this process had opened it."""
    fcntl = pytest.importorskip("fcntl")
    flock, times = fcntl.flock, []

    def late(lock, how):
        flock(lock, how)
        if not times:
            pathlib.Path("w/.lock").unlink()
        times.append(how)

    monkeypatch.setattr(fcntl, "flock", late)
    with files.locked("w", "output_file", "makes shards"):
        assert pathlib.Path("w/.lock").exists()
    assert times.count(fcntl.LOCK_EX | fcntl.LOCK_NB) == 2


def test_a_folder_in_which_another_process_is_by_now_stays(monkeypatch):
    work, remove = WorkDir("w", 1, {}), files.Local.remove

    def followed(path):
        remove(path)
        if path.endswith(".lock"):
            pathlib.Path(path).write_text("1")

    monkeypatch.setattr(files.Local, "remove", staticmethod(followed))
    with work.locked():
        work.remove()
    assert [path.name for path in pathlib.Path("w").iterdir()] == [".lock"]


def test_a_lock_is_waited_for_a_little(monkeypatch):
    """The helpers of a process that was killed have it for a moment; the folder may go with it."""
    works = [WorkDir("w", 1, {}) for _ in range(2)]
    has_it, may_end = threading.Event(), threading.Event()

    def hold():
        with works[0].locked():
            has_it.set()
            may_end.wait(20)
            works[0].remove()

    thread = threading.Thread(target=hold)
    thread.start()
    assert has_it.wait(20)
    monkeypatch.setattr(files, "_LOCK_SECONDS", 0.0)
    with pytest.raises(UserError, match=r"^--output_file: another process \(PID \d+\) makes"):
        works[1].locked().__enter__()
    monkeypatch.setattr(files, "_LOCK_SECONDS", 20.0)
    threading.Timer(0.3, may_end.set).start()
    start = time.monotonic()
    with works[1].locked():
        assert time.monotonic() - start >= 0.2
        assert pathlib.Path("w/.lock").exists()
    thread.join()
