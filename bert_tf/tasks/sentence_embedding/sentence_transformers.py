"""Read the settings of sentence-transformers folders."""

import os
from typing import NamedTuple

from bert_tf import console
from bert_tf.checkpoints.metadata import containing_folder, read_json
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.tasks.sentence_embedding.options import POOLINGS


class _Module(NamedTuple):
    type: str
    path: str


def encoder_settings(path, given):
    """Return `given`, a dict of settings, with those of a sentence-transformers folder or defaults.

    `path` is a folder or a checkpoint, or None.
    """
    modules_file = path and os.path.join(containing_folder(path), "modules.json")
    if not (path and files.exists(modules_file)):
        return {"pooling": "mean", "normalize": False, **given}
    folder = os.path.dirname(modules_file)
    modules = {
        module["type"].rpartition(".")[2]: module["path"]
        for module in json_files.read(modules_file, list[_Module], "sentence-transformers")
    }
    unsupported = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if unsupported:
        raise UserError(
            f"{modules_file}: module {unsupported[0]} is not supported; expected only Transformer, "
            "Pooling and Normalize"
        )
    recorded, problem = _read_pooling(folder, modules)
    if problem and "pooling" not in given:
        raise UserError(f"{problem}; `pooling` overrides it")
    saved = {"pooling": recorded, "layer": -1, "normalize": "Normalize" in modules}
    if length := read_json(folder, "sentence_bert_config.json").get("max_seq_length"):
        saved["max_seq_length"] = length
    for name, value in saved.items():
        if given.get(name, value) != value:
            found = problem if value is None else f"{folder} has {value}"
            console.info("`%s=%s` overrides the setting: %s", name, given[name], found)
    if used := [f"{name}={value}" for name, value in saved.items() if name not in given]:
        console.info("from the settings in %s: %s", folder, ", ".join(used))
    return {**saved, **given}


def _read_pooling(folder, modules):
    """Return (pooling, None), or (None, problem) if it is not supported."""
    if "Pooling" not in modules:
        return "mean", None  # the default of sentence-transformers
    path = os.path.join(folder, modules["Pooling"], "config.json")
    if not files.exists(path):
        return None, f"{path} does not exist, although modules.json lists it"
    settings = read_json(folder, os.path.join(modules["Pooling"], "config.json"))
    modes = [x for x, value in settings.items() if x.startswith("pooling_") and value is True]
    for name, setting in POOLINGS.items():
        if modes == [setting]:
            return name, None
    expected = ", ".join(POOLINGS.values())
    modes = ", ".join(modes) or "none"
    return None, f"{folder}: pooling {modes} is not supported; expected one of {expected}"
