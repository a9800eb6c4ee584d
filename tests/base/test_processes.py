"""Worker processes: how they start, and that none outlives an error."""

import multiprocessing
import sys
import time

import pytest

from bert_tf.io import processes


def _name(_):
    return multiprocessing.current_process().name


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_are_spawned_where_they_may_not_be_forked():
    for fork in (True, False):
        names = list(processes.shared_map(_name, range(3), 2, fork))
        assert all(name.startswith("ForkProcess" if fork else "SpawnProcess") for name in names)


def test_error_does_not_wait_for_other_workers():
    def work(seconds):
        if not seconds:
            raise ValueError("wrong")
        time.sleep(seconds)

    start = time.monotonic()
    with pytest.raises(ValueError, match="wrong"):
        list(processes.shared_map(work, [0, 60, 60], 2))
    assert time.monotonic() - start < 20
