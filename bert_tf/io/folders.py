"""The rule for folders that are replaced or emptied: the user's files are not deleted."""

import contextlib
import os
import re

from bert_tf.errors import UserError
from bert_tf.io import files

# The file of a quantized model in a preset, which `keras.models.load_model` also reads.
QUANTIZED = "quantized.keras"

# The paths of the files that `save_to_preset` writes, besides the task's own.
_PRESET = (
    r"((bert_|tokenizer_|sentence_bert_|1_Pooling/)?config|config_sentence_transformers)\.json|"
    r"(modules|tokenizer)\.json|vocab\.txt|model\.safetensors|checkpoint|"
    r"quantized\.keras|(bert_model\.ckpt|model\.ckpt-\d+)\.(index|data-\d+-of-\d+)"
)


def check_replaceable(folder: str, pattern: str, argument: str) -> None:
    """Raise UserError if a file in a folder does not match `pattern`.

    Args:
      folder: the folder.
      pattern: regular expression for the paths of files in it.
      argument: the argument that the error names.
    """
    for path, folders, names in files.walk(folder):
        names += (name for name in folders if os.path.islink(os.path.join(path, name)))
        for name in (os.path.relpath(os.path.join(path, name), folder) for name in names):
            if not re.fullmatch(pattern, name):
                raise UserError(
                    f"`{argument}`: {folder} also contains {name}, which would be deleted; move "
                    "it, or choose another folder"
                )


def check_preset(folder: str, overwrite: bool = True) -> None:
    """Raise UserError unless `save_to_preset` may write to a folder."""
    files.remove_partial(folder)
    if not files.exists(folder) or (files.is_folder(folder) and not files.list_folder(folder)):
        return
    if not overwrite:
        raise UserError(f"`folder`: {folder} already exists; `overwrite=True` replaces it")
    configs = (os.path.join(folder, name) for name in (files.CONFIG, "config.json"))
    if not any(map(files.exists, configs)):
        raise UserError(f"`folder`: found no model in {folder}, so `overwrite` does not replace it")
    check_replaceable(folder, "|".join((_PRESET, *files.TASK_CONFIG_FILES)), "folder")


def is_quantized_preset(folder):
    return files.exists(os.path.join(folder, QUANTIZED))


@contextlib.contextmanager
def replacing_preset(folder, overwrite):
    """Yield a temporary name for the folder of `save_to_preset`; see `files.replacing`."""
    if not (folder := files.expand_home(folder).rstrip("/")):
        raise UserError("`folder`: found no name of a folder")
    check_preset(folder, overwrite)
    with files.replacing(folder, check_folder=check_preset) as (temporary,):
        yield temporary
