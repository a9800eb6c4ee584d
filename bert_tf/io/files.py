"""Atomic file access on any file system that TensorFlow supports (local, `gs://`, ...).

A file is written under a temporary name in its own folder and renamed when it is complete, so a
reader never sees a partial file and a crash leaves the previous version. Local paths do not need
TensorFlow, which takes seconds to import and half a gigabyte of memory in each process.
"""

import codecs
import contextlib
import dataclasses
import errno
import glob
import gzip
import io
import os
import re
import shutil
import sys

from bert_tf import console
from bert_tf.errors import UserError, reason
from bert_tf.io.compressed import unpack

# Files that are saved next to a model's checkpoint and belong to it.
CONFIG, VOCABULARY = "bert_config.json", "vocab.txt"
# The tokenizer files of Hugging Face. A pre-training run keeps the casing in the second one.
TOKENIZER, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"

# The end of the names of files with the numbers of records of TFRecord files, see
# `data.record_files`.
RECORD_COUNTS = ".counts.json"

# How names of models of the Hugging Face hub begin, and the options that may be such a name.
HUB = "hf://"
_MODELS = ("model", "init_checkpoint", "input")

# The configuration file of each task and the script that writes it; `training.register` fills it.
TASK_FILES: dict[str, str] = {}


class Local:
    """The functions of `tf.io.gfile` for local paths, without TensorFlow."""

    GFile = open
    exists, isdir = staticmethod(os.path.exists), staticmethod(os.path.isdir)
    listdir, remove = staticmethod(os.listdir), staticmethod(os.remove)
    rmtree, glob = staticmethod(shutil.rmtree), staticmethod(glob.glob)

    @staticmethod
    def makedirs(path):
        """Create the folder and its parents if they do not exist."""
        try:
            os.makedirs(path, exist_ok=True)
        except FileExistsError:  # a misleading error: something on the path is not a folder
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path) from None

    @staticmethod
    def rename(source, target, overwrite=False):
        """Rename `source`; replace an existing `target` only if `overwrite`."""
        if not overwrite and os.path.lexists(target):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target)
        os.replace(source, target)


def system(path):
    """Return the functions for the file system of `path`: `Local` or `tf.io.gfile`."""
    if "://" not in os.fspath(path):
        return Local
    import tensorflow as tf

    return tf.io.gfile


def io_errors():
    """Return the exception classes of file systems; TensorFlow's only if it has been imported."""
    loaded = sys.modules.get("tensorflow")
    return (OSError, loaded.errors.OpError) if hasattr(loaded, "errors") else (OSError,)


@contextlib.contextmanager
def _naming_errors(problem):
    """Raise errors of the file system as a UserError that states the problem, then its reason."""
    try:
        yield
    except io_errors() as error:
        raise UserError(f"{problem} ({reason(error)})") from None


def copy_model_files(source, target):
    """Copy config, vocabulary and settings files, those that exist, to another folder."""
    for name in (CONFIG, VOCABULARY, TOKENIZER_CONFIG, *TASK_FILES):
        path = os.path.join(source, name)
        if system(path).exists(path):
            write_text(os.path.join(target, name), read_text(path))


# The scheme of a path outside the local file system. gRPC addresses, such as a TPU's, are no paths.
_SCHEME = re.compile(r"(?!grpc:)[a-z][a-z0-9+.-]*://")


def check_reachable(value, argument, is_path=True):
    """Check that remote paths, such as `gs://` paths, can be reached.

    A missing file is not an error here, but a missing network, credentials or file system is, and
    so is a text that TensorFlow, if it is used, does not accept.

    Args:
      value: a path, comma-separated paths, a list of them, or any other value, which is ignored.
      argument: the argument that gave it, for the message.
      is_path: False for a text, which is only checked for characters that TensorFlow refuses.

    Raises:
      UserError: if TensorFlow cannot access a path.
    """
    texts = value if isinstance(value, (list, tuple)) else [value]
    texts = [text for text in texts if isinstance(text, str)]
    if "tensorflow" in sys.modules and not all(map(_is_unicode, texts)):
        shown = ", ".join(texts).encode("utf-8", "backslashreplace").decode()
        raise UserError(f"`{argument}`: {shown} is not valid UTF-8, which TensorFlow requires")
    paths = [x.strip() for text in texts for x in text.split(",")] if is_path else []
    if argument in _MODELS:
        paths = [path for path in paths if not path.startswith(HUB)]
    for path in filter(_SCHEME.match, paths):
        try:
            system(path).exists(path)
        except io_errors() as error:
            raise UserError(
                f"`{argument}`: {path} cannot be accessed ({reason(error)}); check the network and "
                "the credentials, or use a local path"
            ) from None


def _is_unicode(text):
    """Return whether a text has no surrogates, as Python decodes bytes that are not UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_all_reachable(config):
    """Call `check_reachable` for all values of a configuration dataclass and those in it."""
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            check_all_reachable(value)
        else:
            check_reachable(value, field.name)


def require(path, argument):
    """Return `path`; raise a UserError that names `argument` if it is not an existing file."""
    if not system(path).exists(path):
        raise UserError(f"`{argument}`: there is no file {path}")
    if system(path).isdir(path):
        raise UserError(f"`{argument}`: {path} is a folder, expected a file")
    return path


def expand(patterns, argument):
    """Expand comma-separated paths and globs such as "a.txt,b*.txt" into a list of files.

    They are in the order of the patterns, with the matches of each pattern sorted. A pattern that
    is itself the name of a file, such as "g[1]/data.tfrecord", stands for that file. Side files of
    TFRecord files never match. A pattern that matches nothing raises a UserError.
    """
    paths = []
    for pattern in filter(None, map(str.strip, patterns.split(","))):
        exists = system(pattern).exists(pattern)
        matches = [pattern]
        if not exists:
            found = sorted(system(pattern).glob(pattern))
            matches = [path for path in found if not path.endswith(RECORD_COUNTS)]
        if not matches:
            raise UserError(f"`{argument}`: no file matches {pattern}")
        paths += matches
    if not paths:
        raise UserError(f"`{argument}`: the list of files is empty")
    return paths


def read_text(path):
    """Return the text of a file, which may be compressed by gzip.

    Raises:
      UserError: if it is missing, damaged or not UTF-8.
    """
    with _naming_errors(f"{path}: cannot be read"), system(path).GFile(path, "rb") as reader:
        data = unpack(io.BytesIO(reader.read()), path).read()  # a pipe does not allow seeking
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: byte {error.start} is not UTF-8 text") from None


def read_lines(path, on_progress=None, strict=False):
    """Yield the lines of a text file, including line ends, without reading all of it at once.

    Decompresses gzip files and drops a byte order mark. `on_progress` is called every 200 lines
    with the number of bytes read since the last call. Bytes that are not UTF-8 are an error if
    `strict`, else they are dropped, as in the release's tokenizer, with one warning per file.

    Raises:
      UserError: if the file cannot be read.
    """
    if system(path).isdir(path):
        raise UserError(f"{path}: a folder, expected a text file")
    num_invalid, first_invalid, number = 0, 0, 0
    try:
        with system(path).GFile(path, "rb") as reader:
            position = 0
            for number, line in enumerate(unpack(reader, path), 1):
                line = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                if on_progress and number % 200 == 0:
                    position, previous = reader.tell(), position
                    on_progress(position - previous)
                try:
                    yield line.decode("utf-8")
                except UnicodeDecodeError as error:
                    if strict:
                        where = f"byte {error.start + 1} is {line[error.start]:#04x}"
                        raise UserError(f"{path}, line {number}: not UTF-8 ({where})") from None
                    num_invalid, first_invalid = num_invalid + 1, first_invalid or number
                    yield line.decode("utf-8", "ignore")
            if on_progress:
                on_progress(reader.tell() - position)
    except gzip.BadGzipFile as error:
        raise UserError(f"{path}, line {number + 1}: cannot be unpacked ({error})") from None
    except io_errors() as error:
        raise UserError(f"{path}: cannot be read ({reason(error)})") from None
    if num_invalid:
        console.warning(
            "%s: %d lines are not UTF-8, the first is line %d; the invalid bytes are dropped",
            path, num_invalid, first_invalid,
        )  # fmt: skip


def size_and_time(path):
    """Return the size in bytes and the modification time in nanoseconds of a file."""
    with _naming_errors(f"{path}: cannot be read"):
        if system(path) is Local:
            status = os.stat(path)
            return status.st_size, status.st_mtime_ns
        status = system(path).stat(path)
        return status.length, status.mtime_nsec


def temporary_name(path):
    """Return the name, in the folder of `path`, under which a new version is written."""
    return f"{path}.tmp-{os.getpid()}"


def rename(source, target):
    """Rename a complete file, replacing an existing one.

    Its bytes are flushed to disk first, so that a power loss cannot leave an empty `target`.
    """
    if "://" not in source:
        with open(source, "r+b") as written:
            os.fsync(written.fileno())
    system(source).rename(source, target, overwrite=True)


def remove_partial(path):
    """Remove the partial versions of a local file or folder that killed processes left.

    Those of processes that are running on this machine stay.
    """
    folder, name = os.path.split(path)
    if os.name != "posix" or "://" in path or not os.path.isdir(folder or "."):
        return
    side_file = re.escape(RECORD_COUNTS)
    pattern = re.compile(rf"{re.escape(name)}({side_file})?\.tmp-(\d+)")
    for match in filter(None, map(pattern.fullmatch, os.listdir(folder or "."))):
        if not _is_running(int(match[2])):
            left = os.path.join(folder, match[0])
            _try_remove(left, shutil.rmtree if os.path.isdir(left) else os.remove)


def _is_running(process_id):
    try:
        os.kill(process_id, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to another user
        pass
    return True


@contextlib.contextmanager
def replacing(*paths):
    """Yield temporary names for `paths`; rename them to `paths` if the block succeeds.

    A UserError is raised if a path cannot be written; other errors of the block are not changed.

    >>> with files.replacing("eval_results.txt") as (path,):
    ...     write_something(path)
    """
    with _temporary_names(paths, "remove") as temporary:
        yield temporary
        for source, target in zip(temporary, paths, strict=True):
            rename(source, target)


@contextlib.contextmanager
def replacing_folder(path):
    """Yield a temporary name for a folder; rename it to `path` if the block succeeds.

    `path` must not exist. Object stores rename a folder by copying file by file, so there a
    reader can see a partial folder.
    """
    with _temporary_names([path], "rmtree") as (temporary,):
        yield temporary
        system(path).rename(temporary, path)


@contextlib.contextmanager
def _temporary_names(paths, remove):
    """Yield temporary names for `paths`; `remove` what is left there at the end.

    Errors about them become a UserError about `paths`. Every file system names the file that it
    could not write, and nothing else uses that name; an error without it, such as a GPU out of
    memory, comes from the computation in the block. Only Python's error about a full disk has no
    name.
    """
    temporary = [temporary_name(path) for path in paths]
    for path in paths:
        make_folder(os.path.dirname(path))
    try:
        yield temporary
    except io_errors() as error:
        is_full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        if not is_full and not any(os.path.basename(name) in str(error) for name in temporary):
            raise
        raise UserError(f"{', '.join(paths)}: cannot be written ({reason(error)})") from None
    finally:
        for path in temporary:
            _try_remove(path, getattr(system(path), remove))


def _try_remove(path, remove):
    """Remove `path` if it exists; a failure must not hide an earlier error."""
    try:
        if system(path).exists(path):
            remove(path)
    except io_errors() as error:
        console.warning("%s: cannot be removed (%s)", path, reason(error))


def check_writable(path, argument):
    """Check that `path` can be written, before hours of work; an error names `argument`.

    Removes the partial versions of it that killed processes left.
    """
    remove_partial(path)
    temporary = temporary_name(path)
    with _naming_errors(f"`{argument}`: {path} cannot be written"):
        system(path).makedirs(os.path.dirname(path) or ".")
        with system(temporary).GFile(temporary, "wb") as writer:
            writer.write(b"")
        system(path).remove(temporary)


def write_text(path, text):
    """Write `text` as UTF-8, atomically."""
    write_texts({path: text})


def write_texts(texts):
    """Write a dict of paths to texts; no file is replaced before all are complete."""
    with replacing(*texts) as temporary:
        for path, text in zip(temporary, texts.values(), strict=True):
            with system(path).GFile(path, "wb") as writer:
                writer.write(text.encode("utf-8"))


@contextlib.contextmanager
def writing_text(path):
    """Yield a function that appends text; the file appears when the block succeeds."""
    with replacing(path) as (temporary,), system(temporary).GFile(temporary, "wb") as writer:
        yield lambda text: writer.write(text.encode("utf-8"))


def make_folder(path):
    """Create the folder and its parents if they do not exist."""
    if path:
        with _naming_errors(f"{path}: the folder cannot be created"):
            system(path).makedirs(path)
