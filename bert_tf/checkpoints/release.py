"""Read and write TF1 checkpoints, the format of the release and bert_tf's training runs."""

import ntpath
import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf.errors import DamagedFile, UserError, reason
from bert_tf.io import files

RELEASE_CHECKPOINT = "bert_model.ckpt"

# The checkpoint reader converts TensorFlow's error codes to several Python exceptions.
_READ_ERRORS = (tf.errors.OpError, RuntimeError, ValueError, IndexError)


# Names of weights that bert_tf does not read, and what to do with them.
_UNREAD = {
    r"adapter_model\..*": "is an adapter; merge it with `merge_and_unload` of PEFT",
    r"pytorch_model.*\.bin": "is unsafe (pickled); convert it by `save_pretrained` of transformers",
    r"(tf|flax)_model.*": "is not read; transformers 4 converts it with from_tf or from_flax=True",
    r".*\.(keras|weights\.h5)": "is a Keras file, for keras.models.load_model or `load_weights`",
}


def unread_weights(path):
    """Return a clause about weights that bert_tf does not read, for a file or a folder, or ""."""
    names = sorted(files.list_folder(path)) if files.is_folder(path) else [os.path.basename(path)]
    pairs = ((name, y) for x, y in _UNREAD.items() for name in names if re.fullmatch(x, name))
    return next((f"; {name} {advice}" for name, advice in pairs), "")


def check_path(path, argument):
    """Expand "~" in a path; raise UserError if TensorFlow would read the path as a pattern."""
    path = files.expand_home(path)
    special = sorted(set("[]*?\\") & set(path))
    if special and "://" not in path:
        raise UserError(
            f"`{argument}`: {path} contains {' '.join(special)}; TensorFlow reads checkpoint "
            "paths as glob patterns, so use a different name"
        )
    return path


def named_checkpoint(folder: str) -> str | None:
    """Return the checkpoint prefix named in the file `checkpoint`, None if the file does not exist.

    A checkpoint with this name in `folder` wins over the recorded path, because the folder may have
    been moved. Raises UserError if the file is damaged or the named checkpoint does not exist.
    """
    path = os.path.join(folder, "checkpoint")
    if not files.exists(path):
        return None
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:  # no path, or not UTF-8
        state = None
    if not state:
        raise UserError(f"{path}: found no line with model_checkpoint_path, expected one")
    name = state.model_checkpoint_path
    base = ntpath.basename(name)  # the path may be from Windows
    for prefix in (os.path.join(folder, base), name):
        if files.exists(prefix + ".index"):
            return prefix
    index = base + ".index"
    raise UserError(f"{path} names {name!r}, but there is no {index!r} in {folder}")


def find(path: str, argument: str = "init_checkpoint") -> str:
    """Return the prefix of a checkpoint; raise a UserError that names `argument` if there is none.

    `path` is a prefix ("model.ckpt-1000"), its `.index`, `.meta` or `.data-...` file, or a folder
    that contains a `checkpoint` file or a single checkpoint.
    """
    path = check_path(path, argument)
    prefix = named_checkpoint(path) if files.is_folder(path) else path
    if prefix is None:
        indices = sorted(name for name in files.list_folder(path) if name.endswith(".index"))
        if len(indices) != 1:
            raise UserError(
                f"`{argument}`: found {', '.join(indices) or 'none'} in the folder {path}, "
                f"expected one checkpoint{'' if indices else unread_weights(path)}"
            )
        prefix = os.path.join(path, indices[0])
    if not files.exists(prefix + ".index"):
        prefix = re.sub(r"\.(index|meta|data-[^/.]*)$", "", prefix)
    if not files.exists(prefix + ".index"):
        if files.exists(path):
            hint = unread_weights(path) or f"; pass its folder, {os.path.dirname(path) or '.'}"
            raise UserError(f"`{argument}`: {path} is not a checkpoint with {prefix}.index{hint}")
        raise UserError(f"`{argument}`: there is no checkpoint {path} (no file {prefix}.index)")
    return prefix


class ReleaseCheckpoint:
    """Reads a checkpoint: `path` is its prefix, `shapes` a dict from name to shape."""

    def __init__(self, path, argument="init_checkpoint"):
        """Open the checkpoint `find(path, argument)`; raise UserError if it is damaged."""
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
            raise DamagedFile(f"{self.path}: cannot read {name} ({reason(error)})") from None


def write(prefix: str, tensors: Mapping[str, np.ndarray]) -> None:
    """Write a dict from name to array as a checkpoint that `tf.compat.v1.train.Saver` can restore.

    This is atomic: a checkpoint exists when it has an index file, which is renamed last.
    """
    prefix = files.expand_home(prefix)
    files.make_folder(os.path.dirname(prefix))
    temporary = files.temporary_name(prefix)
    names = sorted(tensors)
    try:
        with tf.device("CPU:0"):  # avoids copies to the GPU and back
            values = [tf.convert_to_tensor(tensors[name]) for name in names]
            slices = [""] * len(names)
            tf.raw_ops.SaveV2(
                prefix=temporary, tensor_names=names, shape_and_slices=slices, tensors=values
            )
        if files.exists(prefix + ".index"):
            files.remove(prefix + ".index")
        for ending in (".data-00000-of-00001", ".index"):
            files.rename(temporary + ending, prefix + ending)
    except files.io_errors() as error:
        raise UserError(f"{prefix}: cannot be written ({reason(error)})") from None
    finally:
        for path in find_files(temporary):
            files.remove(path)


def remove(prefix):
    """Remove a checkpoint, its index file first."""
    files.remove(prefix + ".index")
    for path in find_files(prefix + ".data-"):
        files.remove(path)


def find_files(start):
    # Without glob, because the path may contain brackets.
    folder, prefix = os.path.split(start)
    if not files.is_folder(folder or "."):
        return []
    names = files.list_folder(folder)
    return [os.path.join(folder, name) for name in names if name.startswith(prefix)]
