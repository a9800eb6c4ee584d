"""Files of the release's format: a TF1 checkpoint, names to tensors.

Our own training checkpoints are such files too, so whatever reads the one reads the other.
"""

import os
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.errors import DamagedFile, UserError, reason

# The reader translates TensorFlow's statuses into Python's exceptions, each into another.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


def check_path(path, flag):
    """Raises UserError for a path that TensorFlow would take as a pattern when it reads it."""
    found = sorted(set("[]*?\\") & set(path))
    if found and "://" not in path:
        raise UserError(
            f"`{flag}`: {path} has {' '.join(found)} in it; TensorFlow reads the paths of "
            "checkpoints as patterns, so another name is needed"
        )


def find(path: str, flag: str = "init_checkpoint") -> str:
    """Returns the prefix of the checkpoint that `path` means.

    Args:
      path: a prefix ("model.ckpt-1000"), its `.index` or `.data-...` file, or a folder with a
        `checkpoint` file or a single checkpoint in it.
      flag: the flag it came from, for the error.

    Raises:
      UserError: if there is no checkpoint.
    """
    check_path(path, flag)
    prefix = path
    if tf.io.gfile.isdir(path):
        prefix = tf.train.latest_checkpoint(path)
        if prefix is None:
            found = sorted(name for name in tf.io.gfile.listdir(path) if name.endswith(".index"))
            if len(found) != 1:
                seeds = [name.rstrip("/") for name in tf.io.gfile.listdir(path)
                         if name.startswith("seed_")]  # fmt: skip
                names = ", ".join(found) or (
                    f"none but those of its folders {', '.join(sorted(seeds))}" if seeds else "none"
                )
                raise UserError(
                    f"`{flag}`: one checkpoint was expected in the folder {path}, found {names}"
                )
            prefix = os.path.join(path, found[0])
    for ending in (".index", ".data-"):
        head, dot, _ = prefix.rpartition(ending)
        if dot and not files.system(prefix).exists(prefix + ".index"):
            prefix = head
    if not files.system(prefix).exists(prefix + ".index"):
        if tf.io.gfile.exists(path):
            raise UserError(f"`{flag}`: {path} is not a checkpoint, there is no {prefix}.index")
        raise UserError(f"`{flag}`: there is no checkpoint {path} (no file {prefix}.index)")
    return prefix


class ReleaseCheckpoint:
    """A checkpoint that can be read: `shapes`, a dict of names to shapes, and `tensor`."""

    def __init__(self, path, flag="init_checkpoint"):
        """Opens what `find` finds; UserError if the files are damaged or incomplete."""
        self.path = find(path, flag)
        try:
            self._reader = tf.train.load_checkpoint(self.path)
        except _READ_ERRORS as error:
            raise DamagedFile(f"{self.path}: not a readable checkpoint ({reason(error)})") from None
        shapes = self._reader.get_variable_to_shape_map()
        self.shapes = {name: tuple(shape) for name, shape in sorted(shapes.items())}

    def tensor(self, name):
        """Reads one tensor as a numpy array; UserError if the file is damaged there."""
        try:
            return self._reader.get_tensor(name)
        except _READ_ERRORS as error:
            raise DamagedFile(
                f"{self.path}: tensor {name} cannot be read ({reason(error)})"
            ) from None


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes a dict of names to arrays as a checkpoint that `tf.compat.v1.train.Saver` restores.

    The data file gets its name first and the index last, and without its index a checkpoint does
    not exist: it appears whole or not at all.
    """
    files.make_folder(os.path.dirname(prefix))
    temporary = files.temporary_name(prefix)
    names = sorted(tensors)
    try:
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
    except files.errors() as error:
        raise UserError(f"{prefix}: cannot be written ({reason(error)})") from None
    finally:
        for left in _beside(temporary):
            files.system(prefix).remove(left)


def remove(prefix):
    """Removes a checkpoint: the index first, without which the rest is none any more."""
    files.system(prefix).remove(prefix + ".index")
    for path in _beside(prefix + ".data-"):
        files.system(prefix).remove(path)


def _beside(start):
    """The paths that begin with `start`. Not by glob: the user's path may have brackets in it."""
    folder, name = os.path.split(start)
    if not tf.io.gfile.isdir(folder or "."):
        return []
    found = tf.io.gfile.listdir(folder or ".")
    return [os.path.join(folder, other) for other in found if other.startswith(name)]
