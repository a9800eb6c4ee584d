"""Build the C++ program `tests/serving/cpp/answer.cc`, run it and read its answers."""

import importlib.util
import os
import pathlib
import shutil
import subprocess

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError

SOURCE = pathlib.Path(__file__).resolve().parent.parent / "tests" / "serving" / "cpp" / "answer.cc"

# The libraries of tensorflow-text with the two operations that text graphs use.
_TEXT_LIBRARIES = ("_fast_bert_normalizer.so", "_fast_wordpiece_tokenizer.so")


def build(folder):
    """Compile the program into a folder, with the headers and libraries of the tensorflow wheel.

    Returns:
      The path of the program.

    Raises:
      UserError: if g++ is missing or reports an error.
    """
    compiler = shutil.which("g++")
    if not compiler:
        raise UserError("g++, which builds the C++ program, is not installed")
    program = os.path.join(folder, "answer")
    # No warnings: TensorFlow's own headers have hundreds.
    compiled = [compiler, "-w", *tf.sysconfig.get_compile_flags(), str(SOURCE), "-o", program]
    linked = [*tf.sysconfig.get_link_flags(), f"-Wl,-rpath,{tf.sysconfig.get_lib()}"]
    done = subprocess.run([*compiled, *linked], capture_output=True, text=True)
    if done.returncode:
        raise UserError(f"g++ cannot build {SOURCE}: {done.stderr[-2000:]}")
    return program


def libraries(with_text):
    """Return the libraries to load: the kernels of TensorFlow and tensorflow-text."""
    paths = [os.path.join(tf.sysconfig.get_lib(), "libtensorflow_cc.so.2")]
    if with_text:
        package = importlib.util.find_spec("tensorflow_text").submodule_search_locations[0]
        paths += [os.path.join(package, "python", "ops", name) for name in _TEXT_LIBRARIES]
    return paths


def ask(program, folder, rows, with_text, signature="serving_default", batch_size=32):
    """Return the numeric outputs of the program.

    Args:
      program: the path returned by `build`.
      folder: a SavedModel.
      rows: a list of tuples, with a str, bytes or list of ids for each input, in the order of
        the input names.
      with_text: whether the graph has operations of tensorflow-text.
      signature: the name of the signature.
      batch_size: number of rows in a batch.

    Returns:
      A list of float32 arrays (rows, values), in the order of the output names. Outputs with the
      names of labels are left out.

    Raises:
      UserError: with the program's message, if it ends with an error or a signal.
    """
    done = subprocess.run(
        [program, folder, signature, str(batch_size), *libraries(with_text)],
        input=b"".join(b"\t".join(map(_cell, row)) + b"\n" for row in rows),
        capture_output=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )
    if done.returncode:
        messages = done.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
        raise UserError(f"the C++ program ended with status {done.returncode}: {messages[-1]}")
    answers = [line.split(b"\t") for line in done.stdout.splitlines()]
    columns = [[cell.split(b" ") for cell in cells] for cells in zip(*answers, strict=True)]
    return [np.array(column, "float32") for column in columns if _is_numeric(column)]


def _is_numeric(column):
    """Whether the values of an output are numbers, and not the names of labels."""
    try:
        float(column[0][0])
    except ValueError:
        return False
    return True


def _cell(value):
    if isinstance(value, list):
        return " ".join(map(str, value)).encode()
    text = value.encode() if isinstance(value, str) else value
    return text.replace(b"\\", b"\\\\").replace(b"\t", b"\\t").replace(b"\n", b"\\n")
