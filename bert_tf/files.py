"""Files on any file system that TensorFlow knows (local, `gs://`, ...), whole or not at all.

A file is written under a temporary name in its own folder and renamed when it is complete, so a
reader never sees half of one and a crash leaves the earlier version. Local paths do without
TensorFlow, which takes seconds to import and half a gigabyte in each process.
"""

import codecs
import contextlib
import errno
import glob
import gzip
import os
import re
import shutil
import sys
import time
import zlib

from bert_tf import console
from bert_tf.errors import UserError, reason

# What lies beside a model's checkpoint and belongs to it, under these names.
CONFIG, VOCABULARY, CLASSIFIER = "bert_config.json", "vocab.txt", "classifier.json"
SPANS, TAGGER, CHOICE = "squad.json", "tagger.json", "choice.json"

# The files of settings, and the scripts that they are of.
TASK_FILES = {
    CLASSIFIER: "run_classifier.py",
    SPANS: "run_squad.py",
    TAGGER: "run_ner.py",
    CHOICE: "run_multiple_choice.py",
}


class Local:
    """What `tf.io.gfile` does, for local paths and by Python's own means."""

    GFile = open
    exists, isdir = staticmethod(os.path.exists), staticmethod(os.path.isdir)
    listdir, remove = staticmethod(os.listdir), staticmethod(os.remove)
    rmtree, glob = staticmethod(shutil.rmtree), staticmethod(glob.glob)

    @staticmethod
    def makedirs(path):
        """Makes the folder and its parents if they are not there."""
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:  # which says the opposite of what is wrong
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None

    @staticmethod
    def rename(source, target, overwrite=False):
        """Renames, over an older file if `overwrite`."""
        if not overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.replace(source, target)


def system(path):
    """The functions of the file system of `path`: `Local`, or `tf.io.gfile`."""
    if "://" not in os.fspath(path):
        return Local
    import tensorflow as tf

    return tf.io.gfile


def errors():
    """What file systems raise, for `except`; TensorFlow raises nothing before it is imported."""
    loaded = sys.modules.get("tensorflow")
    return (OSError, loaded.errors.OpError) if hasattr(loaded, "errors") else (OSError,)


def copy_side_files(source, target):
    """Copies what belongs to a model from one folder to another, as far as it is there."""
    for name in (CONFIG, VOCABULARY, *TASK_FILES):
        path = os.path.join(source, name)
        if system(path).exists(path):
            write_text(os.path.join(target, name), read_text(path))


def require(path, flag):
    """Returns `path`, or raises UserError naming `flag` if there is no such file."""
    if not system(path).exists(path):
        raise UserError(f"`{flag}`: there is no file {path}")
    if system(path).isdir(path):
        raise UserError(f"`{flag}`: {path} is a folder, a file was expected")
    return path


def expand(patterns, flag):
    """Turns comma-separated paths and globs into a list of files.

    Args:
      patterns: "a.txt,b*.txt", as the scripts take it.
      flag: the flag it came from, for the error.

    Returns:
      The files, in the order of the patterns, each pattern's matches sorted. A pattern that is
      the name of a file, such as "g[1]/data.tfrecord", means that file.

    Raises:
      UserError: if a pattern matches nothing.
    """
    paths = []
    for pattern in filter(None, (part.strip() for part in patterns.split(","))):
        exists = system(pattern).exists(pattern)
        matches = [pattern] if exists else sorted(system(pattern).glob(pattern))
        if not matches:
            raise UserError(f"`{flag}`: no file matches {pattern}")
        paths += matches
    if not paths:
        raise UserError(f"`{flag}`: no file is named")
    return paths


def read_text(path):
    """Returns the file's text; UserError if it is missing or not UTF-8."""
    try:
        with system(path).GFile(path, "rb") as reader:
            return reader.read().decode("utf-8-sig")
    except errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8 text") from None


def read_lines(path, moved=None, strict=False):
    """Yields the lines of a text file, line ends included, without holding all of it.

    What is packed by gzip is unpacked, and a byte order mark in front is left out.

    Args:
      path: the file.
      moved: called now and then with the number of bytes of the file that were read since.
      strict: whether bytes that are not UTF-8 are an error. If not they are left out, as in the
        release's tokenizer, with one warning a file.

    Raises:
      UserError: if it cannot be read.
    """
    if system(path).isdir(path):
        raise UserError(f"{path}: a folder, a text file was expected")
    damaged, first, number = 0, 0, 0
    try:
        with system(path).GFile(path, "rb") as reader:
            is_packed = reader.read(2) == b"\x1f\x8b"
            reader.seek(0)
            lines = gzip.GzipFile(fileobj=reader) if is_packed else reader
            at = 0
            for number, line in enumerate(lines, 1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if moved and number % 200 == 0:
                    at, before = reader.tell(), at
                    moved(at - before)
                try:
                    yield line.decode("utf-8")
                except UnicodeDecodeError as error:
                    if strict:
                        found = f"byte {error.start + 1} is {line[error.start]:#04x}"
                        raise UserError(f"{path}, line {number}: not UTF-8 ({found})") from None
                    damaged, first = damaged + 1, first or number
                    yield line.decode("utf-8", "ignore")
            if moved:
                moved(reader.tell() - at)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserError(f"{path}, line {number + 1}: cannot be unpacked ({error})") from None
    except errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if damaged:
        console.warning(
            "%s: %d lines are not UTF-8, the first is line %d; bytes at fault are left out",
            path, damaged, first,
        )  # fmt: skip


def size_and_time(path):
    """The bytes of a file, and the nanoseconds of its last change; UserError if it is not there."""
    try:
        if system(path) is Local:
            found = os.stat(path)
            return found.st_size, found.st_mtime_ns
        found = system(path).stat(path)
        return found.length, found.mtime_nsec
    except errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None


@contextlib.contextmanager
def locked(folder, flag, does):
    """Makes a folder and holds it; UserError naming `flag` if another process `does` work there.

    The lock is the kernel's, so it is gone when the process is, however it ends. On `gs://` and
    other object stores there is no such lock, and a line says so.
    """
    try:
        import fcntl
    except ImportError:
        fcntl = None
    if fcntl is None or "://" in folder:
        make_folder(folder)
        console.info("%s cannot be locked: see that only one process %s there", folder, does)
        yield
        return
    with _lock(fcntl, folder, flag, does) as lock:
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        yield


# How long to try: the helpers of a process that was killed hold its lock until they notice.
_LOCK_SECONDS = 1.0


def _lock(fcntl, folder, flag, does):
    """The lock file of a folder, open and held; UserError as `locked`."""
    path = os.path.join(folder, ".lock")
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            # Who held it may have removed the folder, and may do so here.
            os.makedirs(folder, exist_ok=True)
            lock = open(path, "a+", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            gone = isinstance(error, (FileNotFoundError, FileExistsError))
            if gone and time.monotonic() < end:
                time.sleep(0.1)
                continue
            raise UserError(f"`{flag}`: cannot write into {folder} ({error.strerror})") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # It must still be the one that others find.
            if os.path.samestat(os.fstat(lock.fileno()), os.stat(path)):
                return lock
        except (BlockingIOError, FileNotFoundError):
            pass
        except OSError as error:  # a file system without locks
            console.info("%s cannot be locked (%s)", folder, error.strerror)
            return lock
        with lock:
            if time.monotonic() > end:
                lock.seek(0)
                who = lock.read().strip() or "unknown"
                raise UserError(f"`{flag}`: another process (number {who}) {does} in {folder}")
        time.sleep(0.1)


def temporary_name(path):
    """A name beside `path` for the version that is being written."""
    return f"{path}.tmp-{os.getpid()}"


def rename(source, target):
    """Renames a complete file, over an older one if there is one.

    Its bytes reach the disk first: a machine that loses power must not keep the name without them.
    """
    if "://" not in source:
        with open(source, "r+b") as written:
            os.fsync(written.fileno())
    system(source).rename(source, target, overwrite=True)


# What `temporary_name` makes, and what TensorFlow makes of it for a checkpoint.
_TEMPORARY = re.compile(r".+\.tmp-\d+(\.index|\.data-\d+-of-\d+)?$")


def clear_left_overs(folder):
    """Removes what a process that was killed was writing; no other one may write there now."""
    here = system(folder)
    if here.isdir(folder):
        # Object stores end the name of a folder with a slash.
        for name in filter(_TEMPORARY.match, (x.rstrip("/") for x in here.listdir(folder))):
            path = os.path.join(folder, name)
            (here.rmtree if here.isdir(path) else here.remove)(path)


@contextlib.contextmanager
def replacing(*paths):
    """Yields temporary names for `paths`; renames them into place if the block succeeds.

    >>> with files.replacing("eval_results.txt") as (path,):
    ...     write_something(path)

    Raises:
      UserError: if a path cannot be written. Other errors of the block stay what they are.
    """
    temporary = [temporary_name(path) for path in paths]
    for path in paths:
        make_folder(os.path.dirname(path))
    try:
        with _writing_to(paths, temporary):
            yield temporary
            for source, target in zip(temporary, paths, strict=True):
                rename(source, target)
    finally:
        for path in temporary:
            _clear(path, system(path).remove)


@contextlib.contextmanager
def _writing_to(paths, temporary):
    """Turns errors about `temporary` names into a UserError about `paths`.

    Every file system names the file that it could not write, and nobody else has that name; so an
    error without it, such as a GPU out of memory, comes from what the block computes. Only a full
    disk is told without a name, by Python.
    """
    try:
        yield
    except errors() as error:
        full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not full and not any(os.path.basename(name) in str(error) for name in temporary):
            raise
        raise UserError(f"{', '.join(paths)}: cannot be written ({reason(error)})") from None


def _clear(path, remove):
    """Removes what is left at `path`; a failure must not hide the error before it."""
    try:
        if system(path).exists(path):
            remove(path)
    except errors() as error:
        console.warning("%s: cannot be removed (%s)", path, reason(error))


def check_writable(path, flag):
    """Makes the folder of `path` and tries a file there, so that hours of work are not in vain.

    Raises:
      UserError: naming `flag` if `path` could not be written.
    """
    temporary = temporary_name(path)
    try:
        system(path).makedirs(os.path.dirname(path) or ".")
        with system(temporary).GFile(temporary, "wb") as writer:
            writer.write(b"")
        system(path).remove(temporary)
    except errors() as error:
        raise UserError(f"`{flag}`: {path} cannot be written ({reason(error)})") from None


def write_text(path, text):
    """Writes `text` as UTF-8, whole or not at all."""
    write_texts({path: text})


def write_texts(texts):
    """Writes texts, a dict of them by path: all are complete before the first is in its place."""
    with replacing(*texts) as temporary:
        for path, text in zip(temporary, texts.values(), strict=True):
            with system(path).GFile(path, "wb") as writer:
                writer.write(text.encode("utf-8"))


@contextlib.contextmanager
def writing_text(path):
    """Yields a function that writes a part of a text; the file appears when all is written."""
    with replacing(path) as (temporary,), system(temporary).GFile(temporary, "wb") as writer:
        yield lambda text: writer.write(text.encode("utf-8"))


def make_folder(path):
    """Makes the folder and its parents if they are not there."""
    if path:
        try:
            system(path).makedirs(path)
        except errors() as error:
            raise UserError(f"{path}: the folder cannot be made ({reason(error)})") from None


@contextlib.contextmanager
def replacing_folder(path):
    """Yields a temporary name for a folder; renames it to `path` if the block succeeds.

    `path` must not exist. On object stores a rename of a folder copies file by file, so there a
    reader can see it grow.
    """
    temporary = temporary_name(path)
    make_folder(os.path.dirname(path))
    try:
        with _writing_to([path], [temporary]):
            yield temporary
            system(path).rename(temporary, path)
    finally:
        _clear(temporary, system(path).rmtree)
