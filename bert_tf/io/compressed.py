"""Transparent decompression of gzip files, protected against decompression bombs."""

import gzip
import io
import os
import zlib

from bert_tf.errors import UserError

# Limits on the unpacked size, in bytes and as a multiple of the file size; the larger one applies.
# Text compresses about tenfold.
_MAX_UNPACKED, _MAX_RATIO = 1 << 26, 100


def check_unpacked(path, unpacked_size, size):
    """Raise UserError if a compressed file unpacks to far more than its own `size`."""
    if unpacked_size > max(_MAX_UNPACKED, _MAX_RATIO * size):
        raise UserError(
            f"{path} unpacks to more than {_MAX_RATIO} times its size; if you trust the file, "
            "unpack it first"
        )


class _Unpacked(io.RawIOBase):
    """Reads the unpacked contents of a gzip file; raises gzip.BadGzipFile if it is damaged."""

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
    """Return a reader of the unpacked contents if the file is gzip, else `reader` itself."""
    is_gzip = reader.read(2) == b"\x1f\x8b"
    reader.seek(0, os.SEEK_END)
    size = reader.tell()
    reader.seek(0)
    # Buffered, because `GzipFile` finds line ends in slow Python code.
    return io.BufferedReader(_Unpacked(reader, path, size)) if is_gzip else reader
