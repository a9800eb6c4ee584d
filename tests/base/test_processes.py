"""Worker processes: how they start, and how an error stops them."""

import multiprocessing
import os
import platform
import subprocess
import sys
import time

import pytest

from bert_tf.io import processes


def _name(_):
    return multiprocessing.current_process().name


@pytest.mark.skipif(sys.platform != "linux", reason="workers are forked on Linux only")
def test_workers_are_spawned_where_they_may_not_be_forked():
    for fork in (True, False):
        names = list(processes.map_in_processes(_name, range(3), 2, fork))
        assert all(name.startswith("ForkProcess" if fork else "SpawnProcess") for name in names)


def test_error_does_not_wait_for_other_workers():
    def work(seconds):
        if not seconds:
            raise ValueError("wrong")
        time.sleep(seconds)

    start = time.monotonic()
    with pytest.raises(ValueError, match="wrong"):
        list(processes.map_in_processes(work, [0, 60, 60], 2))
    assert time.monotonic() - start < 20


_WORKERS = """
import os, time
from bert_tf.io import processes

def work(number):
    time.sleep(0.05)
    return os.getpid()

for worker in processes.map_in_processes(work, iter(int, 1), 2):
    print(worker, flush=True)
"""


def test_workers_end_after_their_process_is_killed():
    process = subprocess.Popen([sys.executable, "-c", _WORKERS], stdout=subprocess.PIPE)
    assert len({process.stdout.readline() for _ in range(20)}) == 2
    process.kill()
    process.communicate(timeout=20)  # until the workers have closed their output, too


# Counts the page faults while ten buffers of 64 MB are filled one after another.
_COUNT_FAULTS = """
import resource
from bert_tf.cli import tensorflow_start
{}
size = 2**26
b"x" * size
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    b"x" * size
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_reused():
    """Otherwise the kernel would provide 160,000 pages of 4 KB."""

    def count_faults(setup):
        command = [sys.executable, "-c", _COUNT_FAULTS.format(setup)]
        return int(subprocess.check_output(command))

    assert count_faults("") > 10_000
    assert count_faults("tensorflow_start.keep_freed_memory()") < 1_000


def test_streams_closed_by_the_shell_keep_their_numbers(tmp_path):
    code = (
        "import os; from bert_tf.cli import flags\n"
        "flags.run(lambda: os._exit(os.open('x', os.O_CREAT)), needs_tensorflow=lambda: False)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], preexec_fn=lambda: os.closerange(0, 3), cwd=tmp_path
    )
    assert done.returncode > 2
