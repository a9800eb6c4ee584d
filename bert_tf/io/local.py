"""The local file system, with the interface of `tf.io.gfile`."""

import ctypes
import errno
import functools
import glob
import os
import shutil
import stat
import sys

from bert_tf.errors import UserError


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
    """Return whether an output cannot be replaced: a pipe or a device."""
    found = status(path)
    return bool(found) and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


# From <fcntl.h> and <stdio.h>.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def open_file(path, mode="r", **options):
    """Open a file; UserError for input from a pipe, which could be read only once."""
    if mode[0] == "r" and path != os.devnull and is_stream(path):
        raise UserError(f"{path}: found a pipe or a device, expected a file")
    return open(path, mode, **options)


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
