"""Compressed files."""

import gzip
import io
import os
import zlib

from bert_tf.errors import UserError

# A file may unpack to this many bytes, or to this many times its size. Texts have a tenth of that.
_MAX_UNPACKED, _MAX_RATIO = 1 << 26, 100


def check_unpacked(path, unpacked_size, size):
    """Raise UserError if a compressed file unpacks to much more than its size, both in bytes."""
    if unpacked_size > max(_MAX_UNPACKED, _MAX_RATIO * size):
        raise UserError(
            f"{path}: it unpacks to more than {_MAX_RATIO} times its size; if the file is right, "
            "unpack it first"
        )


class _Unpacked(io.RawIOBase):
    """What a reader of a gzip file unpacks to.

    Reading raises gzip.BadGzipFile if the file is damaged, UserError if it unpacks to too much.
    """

    def __init__(self, reader, path, size):
        self._unpacked, self._path, self._size = gzip.GzipFile(fileobj=reader), path, size

    def readable(self):
        return True

    def readinto(self, buffer):
        try:
            data = self._unpacked.read(len(buffer))
        except (EOFError, zlib.error) as error:
            raise gzip.BadGzipFile(str(error)) from None
        check_unpacked(self._path, self._unpacked.tell(), self._size)
        buffer[: len(data)] = data
        return len(data)


def unpack(reader, path):
    """Return the binary reader of a file, or one of what it unpacks to if it is a gzip file.

    The reader must be at its start and allow seeking.
    """
    is_gzip = reader.read(2) == b"\x1f\x8b"
    reader.seek(0, os.SEEK_END)
    size = reader.tell()
    reader.seek(0)
    # Buffered, because the lines of a `GzipFile` are found by Python code.
    return io.BufferedReader(_Unpacked(reader, path, size)) if is_gzip else reader
