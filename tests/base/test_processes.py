"""Work shared out to processes: how they start, and that none outlives an error."""

import multiprocessing
import sys
import time

import pytest

from bert_tf import processes


def _name(_):
    return multiprocessing.current_process().name


@pytest.mark.skipif(sys.platform != "linux", reason="only there they fork")
def test_processes_start_anew_where_they_may_not_fork():
    for fork in (True, False):
        names = list(processes.shared_map(_name, range(3), 2, fork))
        assert all(name.startswith("ForkProcess" if fork else "SpawnProcess") for name in names)


def test_an_error_does_not_wait_for_the_work_of_others():
    def work(seconds):
        if not seconds:
            raise ValueError("wrong")
        time.sleep(seconds)

    start = time.monotonic()
    with pytest.raises(ValueError, match="wrong"):
        list(processes.shared_map(work, [0, 60, 60], 2))
    assert time.monotonic() - start < 20
