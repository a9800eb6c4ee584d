"""Locks of folders, and removal of the partial files of killed processes."""

import contextlib
import errno
import os
import re
import time

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files

# How long to wait for a lock: worker processes of a process that was killed keep its lock until
# they notice.
_LOCK_SECONDS = 1.0

# Errors of file systems that have no locks.
NO_LOCKS = {errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP, errno.EINVAL}


@contextlib.contextmanager
def locked(folder, argument, activity):
    """Create a folder and lock it against other processes within the context.

    The operating system releases the lock when the process ends, in whatever way. Object stores
    such as `gs://` have no locks; a log line reports that. If another process holds the lock, or
    the folder cannot be written, a UserError names `argument`, which gave the folder, and the
    `activity` of this process there, such as "trains". Yields whether the folder is locked.
    """
    import filelock

    if "://" in folder:
        files.make_folder(folder)
        console.info(
            "%s cannot be locked: make sure that only one process %s there", folder, activity
        )
        yield False
        return
    path = os.path.join(folder, ".lock")
    lock = filelock.FileLock(
        path, timeout=_LOCK_SECONDS, poll_interval=0.1, preserve_lock_file=True,
        on_acquired=_write_process_id,
    )  # fmt: skip
    deadline = time.monotonic() + _LOCK_SECONDS
    while not lock.is_locked:
        try:
            os.makedirs(folder, exist_ok=True)
            lock.acquire()
        except filelock.Timeout:
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
            # The previous holder may have removed the folder in between.
            is_removed = isinstance(error, (FileNotFoundError, FileExistsError))
            if not is_removed or time.monotonic() > deadline:
                raise UserError(
                    f"`{argument}`: cannot write into {folder} ({error.strerror})"
                ) from None
            time.sleep(0.1)
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _write_process_id(descriptor):
    os.ftruncate(descriptor, 0)
    os.write(descriptor, str(os.getpid()).encode())


# Without a lock, another process may be writing files that are younger than this.
_OLD_SECONDS = 24 * 3600

# Names made by `files.temporary_name`, and the files that TensorFlow writes for such a checkpoint,
# which have names like "model.ckpt-9.tmp-123.data-00000-of-00001.tempstate456" until they are
# complete.
_TEMPORARY = re.compile(r".+\.tmp-\d+(\.index|\.data-\d+-of-\d+)?(\.tempstate\d+)?$")


def is_left(path, is_locked):
    """Return whether an incomplete file is that of a killed process: with a lock, or if it is old.

    Object stores have no times of folders: these stay.
    """
    if is_locked:
        return True
    try:
        modified = files.size_and_time(path)[1]
    except UserError:  # another process has just removed or renamed it
        return False
    return 0 < modified < (time.time() - _OLD_SECONDS) * 1e9


def remove_temporary_files(folder, is_locked=True):
    """Remove the partial files of killed processes; see `is_left`."""
    gfile = files.system(folder)
    if gfile.isdir(folder):
        # Object stores list folders with a trailing slash.
        for name in filter(_TEMPORARY.match, (x.rstrip("/") for x in gfile.listdir(folder))):
            path = os.path.join(folder, name)
            if not is_left(path, is_locked):
                continue
            (gfile.rmtree if gfile.isdir(path) else gfile.remove)(path)
