"""Checkpoints in the release's format: TF1 checkpoints, which map names to tensors.

Training runs of bert_tf write this format, too.
"""

import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from google.protobuf import text_format, wrappers_pb2

from bert_tf.errors import DamagedFile, UserError, reason
from bert_tf.io import files

# The reader turns TensorFlow's error codes into different Python exceptions.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


def check_path(path, argument):
    """Raise a UserError for a path that TensorFlow would read as a glob pattern."""
    special = sorted(set("[]*?\\") & set(path))
    if special and "://" not in path:
        raise UserError(
            f"`{argument}`: {path} contains {' '.join(special)}; TensorFlow reads checkpoint "
            "paths as glob patterns, so use a different name"
        )


# A field of TensorFlow's CheckpointState, as text.
_NEWEST = re.compile(r"""^\s*model_checkpoint_path\s*:\s*(".*"|'.*')\s*$""", re.MULTILINE)


def named_checkpoint(folder: str) -> str | None:
    """Return the prefix of the checkpoint that the file `checkpoint` names, None without the file.

    A checkpoint of that name in `folder` takes precedence, because the folder may have been moved.

    Raises:
      UserError: if the file is damaged, or the checkpoint that it names does not exist.
    """
    path = os.path.join(folder, "checkpoint")
    if not tf.io.gfile.exists(path):
        return None
    match = _NEWEST.search(files.read_text(path))
    try:
        name = match and text_format.Parse(f"value: {match[1]}", wrappers_pb2.StringValue()).value
    except text_format.ParseError:
        name = None
    if not name or "\0" in name:
        raise UserError(f"{path}: no model_checkpoint_path found, expected the name of one")
    for prefix in (os.path.join(folder, os.path.basename(name)), os.path.join(folder, name)):
        if tf.io.gfile.exists(prefix + ".index"):
            return prefix
    index = os.path.basename(name) + ".index"
    raise UserError(f"{path} names {name!r}, but there is no {index!r} in {folder}")


def _only_checkpoint(folder, argument):
    """Return the prefix of the only checkpoint in a folder; raise UserError if it is not one."""
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(folder))
    indices = [name for name in names if name.endswith(".index")]
    if len(indices) != 1:
        seeds = [name for name in names if name.startswith("seed_")]
        found = ", ".join(indices) or "none"
        if seeds and not indices:
            found = f"none except in the folders {', '.join(seeds)}"
        raise UserError(
            f"`{argument}`: expected one checkpoint in the folder {folder}, found {found}"
        )
    return os.path.join(folder, indices[0])


def find(path: str, argument: str = "init_checkpoint") -> str:
    """Return the prefix of a checkpoint; raise UserError, which names `argument`, if there is none.

    `path` is a prefix ("model.ckpt-1000"), its `.index` or `.data-...` file, or a folder with a
    `checkpoint` file or a single checkpoint in it.
    """
    check_path(path, argument)
    prefix = path
    if tf.io.gfile.isdir(path):
        prefix = named_checkpoint(path) or _only_checkpoint(path, argument)
    for ending in (".index", ".data-"):
        head, dot, _ = prefix.rpartition(ending)
        if dot and not files.system(prefix).exists(prefix + ".index"):
            prefix = head
    if not files.system(prefix).exists(prefix + ".index"):
        if tf.io.gfile.exists(path):
            raise UserError(f"`{argument}`: {path} is not a checkpoint, there is no {prefix}.index")
        raise UserError(f"`{argument}`: there is no checkpoint {path} (no file {prefix}.index)")
    return prefix


class ReleaseCheckpoint:
    """A readable checkpoint: `path` is its prefix, `shapes` a dict of names to shapes."""

    def __init__(self, path, argument="init_checkpoint"):
        """Open a checkpoint; raise UserError if it is missing, damaged or incomplete.

        Arguments are those of `find`.
        """
        self.path = find(path, argument)
        try:
            self._reader = tf.train.load_checkpoint(self.path)
        except _READ_ERRORS as error:
            raise DamagedFile(f"{self.path}: not a readable checkpoint ({reason(error)})") from None
        shapes = self._reader.get_variable_to_shape_map()
        self.shapes = {name: tuple(shape) for name, shape in sorted(shapes.items())}

    def tensor(self, name):
        """Return a tensor as a numpy array; raise UserError if the file is damaged."""
        try:
            return self._reader.get_tensor(name)
        except _READ_ERRORS as error:
            raise DamagedFile(
                f"{self.path}: tensor {name} cannot be read ({reason(error)})"
            ) from None


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a dict of names to arrays as a checkpoint that `tf.compat.v1.train.Saver` restores.

    The write is atomic: the index file is renamed last, and without an index there is no
    checkpoint.
    """
    files.make_folder(os.path.dirname(prefix))
    temporary = files.temporary_name(prefix)
    names = sorted(tensors)
    try:
        with tf.device("CPU:0"):  # otherwise the values would be copied to a GPU and back
            tf.raw_ops.SaveV2(
                prefix=temporary,
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[tf.convert_to_tensor(tensors[name]) for name in names],
            )
        if files.system(prefix).exists(prefix + ".index"):
            files.system(prefix).remove(prefix + ".index")
        for ending in (".data-00000-of-00001", ".index"):
            files.rename(temporary + ending, prefix + ending)
    except files.io_errors() as error:
        raise UserError(f"{prefix}: cannot be written ({reason(error)})") from None
    finally:
        for path in _starting_with(temporary):
            files.system(prefix).remove(path)


def remove(prefix):
    """Remove a checkpoint: the index first, without which the other files are not a checkpoint."""
    files.system(prefix).remove(prefix + ".index")
    for path in _starting_with(prefix + ".data-"):
        files.system(prefix).remove(path)


def _starting_with(start):
    """Return the paths that begin with `start`. Not with glob: the path may contain brackets."""
    folder, prefix = os.path.split(start)
    if not tf.io.gfile.isdir(folder or "."):
        return []
    names = tf.io.gfile.listdir(folder or ".")
    return [os.path.join(folder, name) for name in names if name.startswith(prefix)]
