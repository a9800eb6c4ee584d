"""The work folder: other files in it, reused tokens, and locks."""

import pathlib
import threading
import time

import pytest

from bert_tf.data import pretraining
from bert_tf.data.pretraining.writing import WorkDir
from bert_tf.errors import DamagedFile, UserError
from bert_tf.io import files, processes
from tests.data.pretraining_helpers import interrupt, make_shards, shard_contents

pytestmark = pytest.mark.usefixtures("text_folder")


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
    assert pathlib.Path("made/x.work/sizes.json").exists()
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
    assert not pathlib.Path("made/x.work/sizes.json").exists()


def test_waiting_for_a_lock(monkeypatch):
    """Children of a killed process hold it briefly and may remove the folder."""
    works = [WorkDir("w", 1, {}) for _ in range(2)]
    is_locked, may_end = threading.Event(), threading.Event()

    def hold():
        with works[0].locked():
            is_locked.set()
            may_end.wait(20)
            works[0].remove()

    thread = threading.Thread(target=hold)
    thread.start()
    assert is_locked.wait(20)
    monkeypatch.setattr(processes, "_LOCK_SECONDS", 0.0)
    with pytest.raises(UserError, match=r"^`output_file`: another process"):
        works[1].locked().__enter__()
    monkeypatch.setattr(processes, "_LOCK_SECONDS", 20.0)
    threading.Timer(0.3, may_end.set).start()
    start = time.monotonic()
    with works[1].locked():
        assert time.monotonic() - start >= 0.2
        assert pathlib.Path("w/.lock").exists()
    thread.join()
