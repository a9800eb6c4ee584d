"""Atomic file access on any file system that TensorFlow supports (local, `gs://`, ...).

All modules access files with these functions.

A file is written under a temporary name in its folder and renamed when complete, so a crash keeps
the previous version. Pipes and devices are written to as they are. Local paths do not need
TensorFlow, which takes seconds to import and half a gigabyte of memory per process.
"""

import codecs
import contextlib
import ctypes
import errno
import functools
import glob
import gzip
import hashlib
import io
import itertools
import os
import re
import shutil
import stat
import sys
import zlib

from bert_tf import console
from bert_tf.errors import UserError, check_unicode, reason

# Files that belong to a model and are saved next to its checkpoint.
CONFIG, VOCABULARY = "bert_config.json", "vocab.txt"
# Hugging Face's tokenizer files. Pre-training runs save the casing in the second one.
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"

# Suffix of the side files that cache the number of records in a TFRecord file, see
# `data.tfrecord`.
RECORD_COUNTS = ".counts.json"

# Prefix of models on the Hugging Face hub, and the options that accept them.
HUB = "hf://"
_MODELS = ("model", "init_checkpoint", "input")


def expand_home(path, name="file"):
    """Return a path, or paths separated by commas, with the home folder in place of "~".

    A path object becomes a str. `name` is the option or flag; values of options whose names do
    not end like the name of a path are unchanged.
    """
    path = os.fspath(path) if isinstance(path, os.PathLike) else path
    if isinstance(path, str) and name.endswith(("file", "dir", "model", "checkpoint", "input")):
        path = ",".join(map(os.path.expanduser, path.split(",")))
    return path


def _status(path):
    """Return `os.stat` of a path or descriptor, or None if no such local file exists."""
    try:
        return None if "://" in str(path) else os.stat(path)
    except (OSError, ValueError):
        return None


def identity(path):
    """Return a value that is equal for all names of a file, such as links and relative paths."""
    if not (found := _status(path)):
        return path if "://" in str(path) else os.path.realpath(path)
    is_device = stat.S_ISCHR(found.st_mode)  # a terminal may be input and output
    return object() if is_device else (found.st_dev, found.st_ino)


def is_stream(path):
    """Return whether an output cannot be replaced: a pipe or a device."""
    found = _status(path)
    return bool(found) and not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode))


def _open_local(path, mode="r", **options):
    """Open a file; raise UserError if the input is a pipe, which could be read only once."""
    if mode[0] == "r" and path != os.devnull and is_stream(path):
        raise UserError(f"{path}: found a pipe or a device, expected a file")
    return open(path, mode, **options)


class Local:
    """The interface of `tf.io.gfile` for local paths, without TensorFlow."""

    # The class has no instances, so that these stay functions.
    GFile, exists, isdir, walk = _open_local, os.path.exists, os.path.isdir, os.walk
    listdir, remove, rmtree, glob = os.listdir, os.remove, shutil.rmtree, glob.glob
    makedirs = functools.partial(os.makedirs, exist_ok=True)

    @staticmethod
    def rename(source, target, overwrite=False):
        if not overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.replace(source, target)


def system(path):
    """Return the file system of `path`: `Local` or `tf.io.gfile`."""
    if "://" not in os.fspath(path):
        return Local
    import tensorflow as tf

    return tf.io.gfile


def _on_any_system(name):
    def function(path, *arguments, **options):
        return getattr(system(path), name)(expand_home(path), *arguments, **options)

    return function


exists = _on_any_system("exists")
is_folder = _on_any_system("isdir")
open_file = _on_any_system("GFile")
walk = _on_any_system("walk")


def list_folder(path):
    """Return the names in a folder, without the slashes after folders that object stores list."""
    return [name.rstrip("/") for name in system(path).listdir(expand_home(path) or ".")]


def io_errors():
    """Return the exception classes for I/O errors, with TensorFlow's if it has been imported."""
    loaded = sys.modules.get("tensorflow")
    errors = OSError, EOFError, zlib.error  # the last two are raised for damaged gzip files
    return (*errors, loaded.errors.OpError) if hasattr(loaded, "errors") else errors


def unpack(reader):
    """Return a reader of the unpacked contents if the file is gzip, else `reader` itself."""
    is_gzip = reader.read(2) == b"\x1f\x8b"
    reader.seek(0)
    # Buffered, because `GzipFile` finds line ends in slow Python code.
    return io.BufferedReader(gzip.GzipFile(fileobj=reader)) if is_gzip else reader


@contextlib.contextmanager
def naming_errors(problem):
    """Convert I/O errors to a UserError that starts with `problem`."""
    try:
        yield
    except io_errors() as error:
        raise UserError(f"{problem} ({reason(error)})") from None


@contextlib.contextmanager
def reading(path):
    """Open a file, which may be gzip, as a binary reader; I/O errors become a UserError."""
    with naming_errors(f"{path}: cannot be read"), open_file(path, "rb") as reader:
        yield unpack(reader)


def check_encoding(path, start):
    """Raise UserError if the first bytes of a text file are UTF-16, UTF-32 or binary."""
    marks = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
    if start.startswith(marks) or 3 * start.count(b"\0") > len(start):
        raise UserError(f"{path}: found UTF-16, UTF-32 or a binary file, expected UTF-8")


def iterate_lines(reader, path):
    """Return an iterator of a binary reader's lines, without a byte order mark.

    CR ends a line if the file has no LF, like old files from a Mac. Raises UserError if the lines
    are UTF-16.
    """
    first = reader.readline()
    check_encoding(path, first)
    is_cr = b"\r" in first and not first.endswith(b"\n")
    first = first.removeprefix(codecs.BOM_UTF8)
    lines = first.splitlines(keepends=True) if is_cr or not first else [first]
    return itertools.chain(lines, reader)


# Scheme of a remote path. gRPC addresses, such as a TPU's, are not paths.
_SCHEME = re.compile(r"(?!grpc:)[a-z][a-z0-9+.-]*://")


def check_reachable(value, argument):
    """Check that remote paths, such as `gs://` paths, can be reached; the file may be missing.

    `value` is a path, comma-separated paths, a list, or the value of another flag.
    """
    text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    if "tensorflow" in sys.modules:  # which requires UTF-8
        check_unicode(text, f"`{argument}`")
    for path in filter(_SCHEME.match, map(str.strip, text.split(","))):
        if argument in _MODELS and path.startswith(HUB):
            continue
        try:
            exists(path)
        except io_errors() as error:
            raise UserError(
                f"`{argument}`: {path} cannot be accessed ({reason(error)}); check the network and "
                "the credentials, or use a local path"
            ) from None


def require(path, argument):
    if not exists(path):
        raise UserError(f"`{argument}`: there is no file {path}")
    if is_folder(path):
        raise UserError(f"`{argument}`: {path} is a folder, expected a file")
    return path


def expand(patterns, argument):
    """Expand comma-separated paths and globs such as "a.txt,b*.txt" to a list of files.

    The name of an existing file, such as "g[1]/data.tfrecord", is not expanded. Side files of
    TFRecord files never match. Raises UserError if a pattern has no matches.
    """
    paths = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        matches = [pattern]
        if not exists(pattern):
            candidates = sorted(system(pattern).glob(pattern))
            matches = [path for path in candidates if not path.endswith(RECORD_COUNTS)]
        if not matches:
            raise UserError(f"`{argument}`: no file matches {pattern}")
        paths += matches
    if not paths:
        raise UserError(f"`{argument}`: found no files, expected at least one")
    return paths


def read_text(path):
    """Return the text of a file, which may be gzip; raise UserError if it is not UTF-8."""
    with reading(path) as reader:
        data = reader.read()
    check_encoding(path, data[:100])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8 text") from None


def read_lines(path, on_progress=None, strict=False):
    """Yield the lines of a text file with their line ends; unpack gzip, drop a byte order mark.

    `on_progress` is called every 200 lines with the number of new bytes. Unless `strict`, invalid
    UTF-8 is dropped, as in the release's tokenizer, with one warning per file.
    """
    num_invalid, first_invalid = 0, 0
    with naming_errors(f"{path}: cannot be read"), open_file(path, "rb") as reader:
        position = 0
        for number, line in enumerate(iterate_lines(unpack(reader), path), 1):
            if on_progress and number % 200 == 0:
                position, previous = reader.tell(), position
                on_progress(position - previous)
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                if strict:
                    where = f"byte {error.start + 1} is {line[error.start]:#04x}"
                    raise UserError(f"{path}, line {number}: not UTF-8 text ({where})") from None
                num_invalid, first_invalid = num_invalid + 1, first_invalid or number
                yield line.decode("utf-8", "ignore")
        if on_progress:
            on_progress(reader.tell() - position)
    if num_invalid:
        console.warning(
            f"{path}: {num_invalid} lines are not UTF-8, the first is line {first_invalid}; the "
            "invalid bytes are dropped"
        )


def digest(path):
    """Return the SHA-256 of a file, in hexadecimal."""
    sha = hashlib.sha256()
    with open_file(path, "rb") as reader:
        while data := reader.read(1 << 20):
            sha.update(data)
    return sha.hexdigest()


def size_and_time(path):
    """Return size in bytes and modification time in nanoseconds."""
    with naming_errors(f"{path}: cannot be read"):
        if system(path) is Local:
            status = os.stat(path)
            return status.st_size, status.st_mtime_ns
        status = system(path).stat(path)
        return status.length, status.mtime_nsec


def temporary_name(path):
    return f"{path}.tmp-{os.getpid()}"


def rename(source, target):
    """Rename a folder, or a complete file, which is flushed to disk because of power loss."""
    is_file = not is_folder(source)
    if is_file and "://" not in source:
        with open(source, "r+b") as written:
            os.fsync(written.fileno())
    system(source).rename(source, target, overwrite=is_file)


# The end of names from `temporary_name`, and of files of a checkpoint with such a name. TensorFlow
# names incomplete ones like "model.ckpt-9.tmp-123.data-00000-of-00001.tempstate456".
_TEMPORARY = r"\.tmp-(?P<process>\d+)(\.index|\.data-\d+-of-\d+)?(\.tempstate\d+)?"


def remove_temporary(folder, name=".+", is_abandoned=lambda path, process_id: True):
    """Remove the partial files in a folder that `is_abandoned`; `name` is a pattern."""
    pattern = re.compile(f"({name}){_TEMPORARY}")
    names = list_folder(folder) if is_folder(folder or ".") else ()
    for match in filter(None, map(pattern.fullmatch, names)):
        path = os.path.join(folder, match[0])
        if is_abandoned(path, int(match["process"])):
            _try_remove(path)


def remove_partial(path):
    """Remove partial versions of a local file or folder whose processes no longer run."""
    folder, name = os.path.split(path)
    if os.name == "posix" and "://" not in path:
        name = rf"{re.escape(name)}({re.escape(RECORD_COUNTS)})?"
        remove_temporary(folder, name, lambda _, process_id: not _is_running(process_id))


def _is_running(process_id):
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # the process belongs to another user
        pass
    return True


# From <fcntl.h> and <stdio.h>.
_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def _exchange_folders(source, target):
    """Exchange two folders; on Linux in one step, elsewhere a kill may leave only other names."""
    libc = ctypes.CDLL(None) if sys.platform == "linux" else None
    exchange = getattr(libc, "renameat2", lambda *_: -1)  # older C libraries have no such function
    names = os.fsencode(source), os.fsencode(target)
    if exchange(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE):
        old = f"{source}.old"
        os.rename(target, old)
        os.rename(source, target)
        os.rename(old, source)


# A full disk, a quota, a limit, and a pipe whose reader has exited.
_WRITE_ERRORS = errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EPIPE


@contextlib.contextmanager
def replacing(*paths, check_folder=None):
    """Yield temporary names for files or folders, and rename them if the block succeeds.

    The target of a symbolic link is replaced; a pipe or a device yields its own name. An existing
    folder is replaced only with `check_folder`, which raises UserError if it must not.
    Renaming a folder is not atomic on object stores. I/O errors that mention a temporary name
    become a UserError about `paths`, as do errors for a full disk. Other errors come from the
    computation in the block.
    """
    paths = [*map(expand_home, paths)]
    for path in paths:
        make_folder(os.path.dirname(path))
    if len(set(map(identity, paths))) < len(paths):
        raise UserError(f"{', '.join(paths)}: two of these names are the same file")
    targets = [os.path.realpath(x) if os.path.islink(x) and not is_stream(x) else x for x in paths]
    temporary = [path if is_stream(path) else temporary_name(path) for path in targets]
    pairs = [(x, path) for x, path in zip(temporary, targets, strict=True) if x != path]
    try:
        yield temporary
        for source, target in pairs:
            if check_folder and is_folder(target):
                check_folder(target)
                if system(target) is Local:
                    _exchange_folders(source, target)
                    continue
                remove(target)
            rename(source, target)
    except io_errors() as error:
        is_known = getattr(error, "errno", None) in _WRITE_ERRORS
        if not is_known and not any(os.path.basename(name) in str(error) for name in temporary):
            raise
        raise UserError(f"{', '.join(paths)}: cannot be written ({reason(error)})") from None
    finally:
        for path, _ in pairs:
            _try_remove(path)


def remove(path):
    """Remove a file or a folder."""
    (system(path).rmtree if is_folder(path) else system(path).remove)(path)


def _try_remove(path):
    """Remove `path` if it exists; a failure must not hide an earlier error."""
    try:
        if exists(path):
            remove(path)
    except io_errors() as error:
        console.warning("%s: cannot be removed (%s)", path, reason(error))


def check_output(path, argument, others=()):
    """Check that an output is not a folder, and not one of the `others` under another name."""
    if identity(path) in map(identity, others):
        raise UserError(f"`{argument}`: {path} is given twice or also an input file")
    if is_folder(path):
        raise UserError(f"`{argument}`: {path} is a folder, expected a file")
    if os.path.islink(path) and path.startswith("/dev/") and not is_stream(path):
        raise UserError(f"`{argument}`: {path} is redirected to a file; name that file instead")


def check_replaceable(folder: str, pattern: str, argument: str) -> None:
    """Raise UserError if a file in a folder does not match `pattern`.

    Args:
      folder: the folder.
      pattern: regular expression for the paths of files in it.
      argument: the argument that the error names.
    """
    for path, folders, names in walk(folder):
        names += (name for name in folders if os.path.islink(os.path.join(path, name)))
        for name in (os.path.relpath(os.path.join(path, name), folder) for name in names):
            if not re.fullmatch(pattern, name):
                raise UserError(
                    f"`{argument}`: {folder} also contains {name}, which would be deleted; move "
                    "it, or choose another folder"
                )


def check_writable(path, argument, others=()):
    """Check before a long computation that `path` can be written; see `check_output`."""
    check_output(path, argument, others)
    if is_stream(path):
        return
    path = os.path.realpath(path) if os.path.islink(path) else path
    remove_partial(path)
    temporary = temporary_name(path)
    with naming_errors(f"`{argument}`: {path} cannot be written"):
        system(path).makedirs(os.path.dirname(path) or ".")
        with open_file(temporary, "wb") as writer:
            writer.write(b"")
        system(path).remove(temporary)


def write_text(path, text):
    write_texts({path: text})


def write_texts(texts):
    """Write a dict from path to text; rename when all are complete."""
    with replacing(*texts) as temporary:
        for path, text in zip(temporary, texts.values(), strict=True):
            with open_file(path, "wb") as writer:
                writer.write(text.encode("utf-8"))


@contextlib.contextmanager
def writing_text(path):
    """Yield a function that appends text; the file appears when the block succeeds."""
    with replacing(path) as (temporary,), open_file(temporary, "wb") as writer:
        yield lambda text: writer.write(text.encode("utf-8"))


def make_folder(path):
    if path:
        with naming_errors(f"{path}: the folder cannot be created"):
            system(path).makedirs(path)
