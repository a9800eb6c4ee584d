"""Files of vectors: the release's JSON lines and NumPy arrays."""

import contextlib
import json

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.io import files


def json_line(index, text):
    """Return the `TextVectors` of line `index` as JSON like the release's, rounded to 6 digits."""
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
    return json.dumps({"linex_index": index, "features": features}) + "\n"


@contextlib.contextmanager
def array_writer(path, count, width):
    """Yield a function that writes one row (W,) of a NumPy file, float32 (`count`, `width`)."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    num_written = 0
    with files.replacing(path) as (temporary,):
        with tf.io.gfile.GFile(temporary, "wb") as writer:
            np.lib.format.write_array_header_1_0(writer, header)

            def write(row):
                nonlocal num_written
                num_written += 1
                writer.write(row.astype("<f4").tobytes())

            yield write
        if num_written != count:
            raise UserError(
                f"{path}: found {num_written} rows, expected {count}; the input may have changed"
            )
