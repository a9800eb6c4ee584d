"""Locks of folders, and worker processes."""

import collections
import contextlib
import errno
import gc
import os
import signal
import sys
import threading
import time

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files

# How long to wait for a lock. The workers of a killed process keep its lock until they notice.
_LOCK_SECONDS = 1.0

_LOCK_FILE = ".lock"

# Errors on file systems without locks.
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


@contextlib.contextmanager
def locked(folder, argument, activity, waits=False):
    """Create a folder and lock it against other processes within the context.

    Yields whether the folder is locked: without locks, as on object stores, a message is
    logged instead. With `waits`, wait for a lock that another process holds. Messages name
    `argument` and the `activity`, such as "trains".

    Raises:
      UserError: if another process holds the lock, unless `waits`, or the folder cannot be written.
    """
    import filelock

    if "://" in folder:
        files.make_folder(folder)
        console.info(f"{folder} cannot be locked: make sure that only one process {activity} there")
        yield False
        return
    path = os.path.join(folder, _LOCK_FILE)
    options = {"preserve_lock_file": True, "on_acquired": _write_process_id}
    lock = filelock.FileLock(path, timeout=_LOCK_SECONDS, poll_interval=0.1, **options)
    deadline = time.monotonic() + _LOCK_SECONDS
    while not lock.is_locked:
        try:
            os.makedirs(folder, exist_ok=True)
            lock.acquire()
        except filelock.Timeout:
            if waits:
                console.info("waiting for another process that %s in %s", activity, folder)
                lock.timeout = -1
                continue
            pid = "unknown"
            with contextlib.suppress(OSError), open(path, encoding="utf-8") as reader:
                pid = reader.read().strip() or pid
            raise UserError(
                f"`{argument}`: another process (PID {pid}) {activity} in {folder}"
            ) from None
        except OSError as error:
            if error.errno in NO_LOCKS:
                console.info("%s cannot be locked (%s)", folder, error.strerror)
                break
            # The previous holder of the lock may have just removed the folder.
            is_removed = isinstance(error, (FileNotFoundError, FileExistsError))
            if not is_removed or time.monotonic() > deadline:
                raise UserError(
                    f"`{argument}`: {folder} cannot be written ({error.strerror})"
                ) from None
            time.sleep(0.1)
    try:
        yield lock.is_locked
    finally:
        lock.release()


def remove_unused(folder):
    """Remove a local folder that this process has locked if it contains only the lock file."""
    with contextlib.suppress(OSError):
        if os.listdir(folder) == [_LOCK_FILE]:
            os.remove(os.path.join(folder, _LOCK_FILE))
            os.rmdir(folder)


def _write_process_id(descriptor):
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


# Without a lock, another process may still be writing files that are newer.
_OLD_SECONDS = 24 * 3600


def is_abandoned(path, is_locked):
    """Return whether a file's writer was killed; without a lock, this is assumed for old files."""
    if is_locked:
        return True
    try:
        modified = files.size_and_time(path)[1]
    except UserError:  # another process just removed or renamed it
        return False
    return 0 < modified < (time.time() - _OLD_SECONDS) * 1e9


def remove_temporary_files(folder, is_locked=True):
    """Remove partial files of killed processes from a folder; see `is_abandoned`."""
    files.remove_temporary(folder, is_abandoned=lambda path, _: is_abandoned(path, is_locked))


def cores():
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()


def map_in_processes(function, items, num_processes, fork=True):
    """Yield `function(item)` for each item, in order, computed in worker processes.

    One process computes in this process. `fork` must be False if `function` uses TensorFlow, whose
    threads do not survive a fork. Exceptions of the workers are raised here; a killed worker
    raises UserError.
    """
    if num_processes == 1:
        yield from map(function, items)
        return
    import concurrent.futures
    import multiprocessing

    # Forked workers need no imports, which take seconds. Where forks are not safe, workers start a
    # new interpreter.
    context = multiprocessing.get_context("fork" if fork and sys.platform == "linux" else "spawn")
    # Shared memory instead of an event, whose locks a killed worker might hold.
    stop = context.RawValue("b", False)
    arguments = (function, os.getpid(), stop)
    pool = concurrent.futures.ProcessPoolExecutor(num_processes, context, _start, arguments)
    try:
        pending = collections.deque()
        for item in items:
            pending.append(pool.submit(_call, item))
            if len(pending) > 3 * num_processes:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    except concurrent.futures.process.BrokenProcessPool:
        raise UserError(
            f"`num_processes={num_processes}`: a worker was killed, perhaps for lack of memory"
        ) from None
    except BaseException:
        # Do not wait minutes for results that nobody will use.
        stop.value = True
        raise
    finally:
        pool.shutdown(cancel_futures=True)


_function = None


def _start(function, parent, stop):
    global _function
    _function = function
    # A fork must not garbage-collect TensorFlow's objects, because it does not have their threads.
    gc.freeze()

    def watch_parent():
        # A killed parent cannot stop its workers, which would keep its locks.
        while os.getppid() == parent and not stop.value:
            time.sleep(0.2)
        os._exit(1)

    threading.Thread(target=watch_parent, daemon=True).start()
    # Ctrl-C reaches every process; the parent handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _call(item):
    return _function(item)
