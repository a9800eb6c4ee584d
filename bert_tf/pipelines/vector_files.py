"""Files of vectors: the release's JSON lines, compact TFRecords and NumPy arrays."""

import contextlib
import json

import numpy as np
import tensorflow as tf

from bert_tf.data import record_checks, tfrecord
from bert_tf.errors import UserError
from bert_tf.io import files

FORMATS = ("json", "tfrecord")
DTYPES = ("float32", "float16")


@contextlib.contextmanager
def vector_writer(path, file_format="json", dtype="float32"):
    """Yield a function that writes one `TextVectors`; the file appears when it is complete.

    `file_format` is "json" for the release's JSON lines, rounded to 6 digits, or "tfrecord" for
    records with `linex_index`, `tokens`, `layers` (indices or names), `shape`, `dtype` and `values`
    (raw little-endian numbers). `dtype`, "float32" or "float16", is for records only.
    """
    for value, allowed in ((file_format, FORMATS), (dtype, DTYPES)):
        if value not in allowed:
            raise UserError(f"{path}: found {value!r}, expected one of {', '.join(allowed)}")
    if file_format == "tfrecord":
        with tfrecord.writing([path]) as write:
            yield lambda text: write(_serialize(text, dtype))
        return
    with files.replacing(path) as (temporary,), tf.io.gfile.GFile(temporary, "wb") as writer:
        yield lambda text: writer.write(json_line(text).encode())


def json_line(text):
    """Return a `TextVectors` as a line of JSON in the release's format."""
    # For float32 values this equals Python's round(), but it is many times faster.
    values = np.round(text.values.astype("float64"), 6).tolist()
    features = [
        {
            "token": token,
            "layers": [
                {"index": layer, "values": vector}
                for layer, vector in zip(text.layers, vectors, strict=True)
            ],
        }
        for token, vectors in zip(text.tokens, values, strict=True)
    ]
    return json.dumps({"linex_index": text.index, "features": features}) + "\n"


def _serialize(text, dtype):
    raw = text.values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    columns = {
        "linex_index": np.array([[text.index]]),
        "tokens": [[token.encode() for token in text.tokens]],
        "layers": [[str(layer).encode() for layer in text.layers]],
        "shape": np.array([text.values.shape]),
        "dtype": [[dtype.encode()]],
        "values": [[raw]],
    }
    return tfrecord.examples(columns)


def read_vectors(path):
    """Read a TFRecord file written by `vector_writer`.

    Yields:
      (line index, list of tokens, list of layers as str, array) for each text. The array keeps its
      dtype and shape: (T, L, W) for vectors, (L, N, T, T) for attention.

    Raises:
      UserError: if the file is damaged or contains other records.
    """
    record_checks.check_lengths(path, {}, {})
    with record_checks.naming_bad_records([path]):
        for serialized in tf.data.TFRecordDataset(path).as_numpy_iterator():
            features = tf.train.Example.FromString(serialized).features.feature
            if "shape" not in features or "values" not in features:
                raise UserError(
                    f"{path}: found a record without `shape` and `values`, expected a file written "
                    "by extract_features.py"
                )
            dtype = np.dtype(features["dtype"].bytes_list.value[0].decode()).newbyteorder("<")
            values = np.frombuffer(features["values"].bytes_list.value[0], dtype)
            yield (
                features["linex_index"].int64_list.value[0],
                [token.decode() for token in features["tokens"].bytes_list.value],
                [layer.decode() for layer in features["layers"].bytes_list.value],
                values.reshape(features["shape"].int64_list.value),
            )


@contextlib.contextmanager
def array_writer(path, count, width, dtype="float32"):
    """Yield a function that writes one row (W,) of a NumPy file, an array (`count`, `width`)."""
    dtype = np.dtype(dtype).newbyteorder("<")
    header = {"descr": dtype.str, "fortran_order": False, "shape": (count, width)}
    num_written = 0
    with files.replacing(path) as (temporary,):
        with tf.io.gfile.GFile(temporary, "wb") as writer:
            np.lib.format.write_array_header_1_0(writer, header)

            def write(row):
                nonlocal num_written
                num_written += 1
                writer.write(row.astype(dtype).tobytes())

            yield write
        if num_written != count:
            raise UserError(
                f"{path}: found {num_written} rows, expected {count}; the input may have changed"
            )
