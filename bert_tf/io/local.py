"""The local file system, with the interface of `tf.io.gfile`."""

import ctypes
import errno
import functools
import glob
import os
import shutil
import stat
import sys
import tempfile
from typing import Any


def status(path):
    """Return `os.stat` of a path or descriptor, or None if there is no such local file."""
    try:
        return None if "://" in str(path) else os.stat(path)
    except (OSError, ValueError):
        return None


def identity(path):
    """Return a value that is equal for all names of a file, such as links and relative paths."""
    found = status(path)
    if not found:
        return path if "://" in str(path) else os.path.realpath(path)
    is_device = stat.S_ISCHR(found.st_mode)  # a terminal may be input and output
    return object() if is_device else (found.st_dev, found.st_ino)


def is_stream(path):
    """Return whether an output cannot be replaced: a pipe, a device, or the standard output."""
    found = status(path)
    is_plain = not found or stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)
    return not is_plain or bool(found and _standard_output(found))


def _standard_output(found):
    """Return the descriptor 1 or 2 if it is redirected to the file with a status, else None."""
    same = (x for x in (1, 2) if (opened := status(x)) and os.path.samestat(opened, found))
    return next(same, None)


# From <fcntl.h> and <stdio.h>.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2

# Copies of pipes, which can be read only once; by identity and time of the last write.
_copies: dict[tuple, Any] = {}


def open_file(path, mode="r", **options):
    """Open a file, which may be a pipe; a pipe is read to its end and may be opened again."""
    found = status(path)
    # Opening /dev/stdout would truncate the file that the shell appends to.
    if found and mode[0] == "w" and (descriptor := _standard_output(found)):
        return os.fdopen(os.dup(descriptor), mode, **options)
    if found and mode[0] == "r" and stat.S_ISFIFO(found.st_mode):
        path = _copy(path, found)
    return open(path, mode, **options)


def _copy(path, found):
    key = found.st_ino, found.st_mtime_ns
    is_copied = key in _copies
    flags = os.O_RDONLY | os.O_NONBLOCK * is_copied
    with open(path, "rb", 0, opener=lambda name, _: os.open(name, flags)) as reader:
        start = reader.read(1)  # None if another program has opened the pipe, but not written yet
        if not is_copied or start != b"":
            os.set_blocking(reader.fileno(), True)
            copy = tempfile.NamedTemporaryFile()  # noqa: SIM115  removed at exit
            copy.write(start or b"")
            shutil.copyfileobj(reader, copy)
            copy.flush()
            key = found.st_ino, os.fstat(reader.fileno()).st_mtime_ns
            _copies[key] = copy
    return _copies[key].name


def exchange_folders(source, target):
    """Exchange two folders; on Linux in one step, elsewhere a kill may leave only other names."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    exchange = getattr(libc, "renameat2", lambda *_: -1)  # older C libraries have no such function
    names = os.fsencode(source), os.fsencode(target)
    if exchange(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        old = f"{source}.old"
        os.rename(target, old)
        os.rename(source, target)
        os.rename(old, source)


class Local:
    """The interface of `tf.io.gfile` for local paths, without TensorFlow."""

    GFile = staticmethod(open_file)
    exists, isdir = staticmethod(os.path.exists), staticmethod(os.path.isdir)
    walk = staticmethod(os.walk)
    listdir, remove = staticmethod(os.listdir), staticmethod(os.remove)
    rmtree, glob = staticmethod(shutil.rmtree), staticmethod(glob.glob)
    makedirs = staticmethod(functools.partial(os.makedirs, exist_ok=True))

    @staticmethod
    def rename(source, target, overwrite=False):
        if not overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.replace(source, target)
