"""Vectors to files, one text after the other: the release's JSON lines, and a compact TFRecord."""

import contextlib
import json

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.data import records
from bert_tf.errors import UserError

FORMATS = ("json", "tfrecord")
DTYPES = ("float32", "float16")


@contextlib.contextmanager
def vector_writer(path, file_format="json", dtype="float32"):
    """Yields a function that writes one `TextVectors`; the file appears when all are written.

    A record of the compact form has `linex_index`, `tokens`, `layers` (their names), `shape` and
    `values`, the raw bytes of numbers of `dtype`, lowest first; `read_vectors` reads it.

    Args:
      path: the file.
      file_format: "json" for the release's lines, numbers rounded to 6 digits; "tfrecord".
      dtype: "float32" or "float16", of the compact form.

    Raises:
      UserError: if it cannot be written, or there is no such form.
    """
    for value, known in ((file_format, FORMATS), (dtype, DTYPES)):
        if value not in known:
            raise UserError(f"{path}: {value!r} is not one of {', '.join(known)}")
    with files.replacing(path) as (temporary,):
        if file_format == "json":
            with tf.io.gfile.GFile(temporary, "wb") as writer:
                yield lambda vectors: writer.write(json_line(vectors).encode())
        else:
            with tf.io.TFRecordWriter(temporary) as writer:
                yield lambda vectors: writer.write(_serialize(vectors, dtype))


def json_line(vectors):
    """A `TextVectors` as the release writes it, with the line's end."""
    # Of a float32 this is what Python's round() gives, and many times as fast.
    values = np.round(vectors.values.astype("float64"), 6).tolist()
    features = [
        {
            "token": token,
            "layers": [
                {"index": name, "values": numbers}
                for name, numbers in zip(vectors.names, layers, strict=True)
            ],
        }
        for token, layers in zip(vectors.tokens, values, strict=True)
    ]
    return json.dumps({"linex_index": vectors.index, "features": features}) + "\n"


def _serialize(vectors, dtype):
    example = tf.train.Example()
    features = example.features.feature
    features["linex_index"].int64_list.value.append(vectors.index)
    features["tokens"].bytes_list.value.extend(token.encode() for token in vectors.tokens)
    features["layers"].bytes_list.value.extend(str(name).encode() for name in vectors.names)
    features["shape"].int64_list.value.extend(vectors.values.shape)
    features["dtype"].bytes_list.value.append(dtype.encode())
    raw = vectors.values.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
    features["values"].bytes_list.value.append(raw)
    return example.SerializeToString(deterministic=True)


def read_vectors(path):
    """Reads the compact form.

    Args:
      path: the TFRecord file.

    Yields:
      (number of the line, list of tokens, list of the layers' names, array) for each text, the
      array of the type and shape that was written: (T, L, W) of vectors, (L, N, S, S) of attention.

    Raises:
      UserError: if it is not such a file, or damaged.
    """
    records.check_lengths(path, {}, {})
    with records.naming_bad_records([path]):
        for serialized in tf.data.TFRecordDataset(path).as_numpy_iterator():
            features = tf.train.Example.FromString(serialized).features.feature
            if "shape" not in features or "values" not in features:
                raise UserError(f"{path}: its records hold no vectors of extract_features.py")
            dtype = np.dtype(features["dtype"].bytes_list.value[0].decode()).newbyteorder("<")
            values = np.frombuffer(features["values"].bytes_list.value[0], dtype)
            yield (
                features["linex_index"].int64_list.value[0],
                [token.decode() for token in features["tokens"].bytes_list.value],
                [name.decode() for name in features["layers"].bytes_list.value],
                values.reshape(features["shape"].int64_list.value),
            )


@contextlib.contextmanager
def array_writer(path, count, width, dtype="float32"):
    """Yields a function that writes one row (W,) of a NumPy file, which appears when all are.

    Args:
      path: the file.
      count: how many rows come.
      width: W.
      dtype: "float32" or "float16".

    Raises:
      UserError: if it cannot be written, or another number of rows came.
    """
    kind = np.dtype(dtype).newbyteorder("<")
    header = {"descr": kind.str, "fortran_order": False, "shape": (count, width)}
    written = 0
    with files.replacing(path) as (temporary,):
        with tf.io.gfile.GFile(temporary, "wb") as writer:
            np.lib.format.write_array_header_1_0(writer, header)

            def write(row):
                nonlocal written
                written += 1
                writer.write(row.astype(kind).tobytes())

            yield write
        if written != count:
            raise UserError(
                f"{path}: {count} rows were expected, {written} came; was the input changed?"
            )
