"""The settings of a sentence-transformers folder."""

import os

import tensorflow as tf

from bert_tf.checkpoints.metadata import folder_of, read_json
from bert_tf.errors import UserError
from bert_tf.io import json_files


def sentence_transformers_options(path):
    """Return the settings of a sentence-transformers folder as arguments of `SentenceEncoder`.

    The dict is empty for any other folder. `path` is a folder or a file in it.

    Raises:
      UserError: if the folder uses a module or a pooling that is not supported.
    """
    folder = folder_of(path)
    modules_file = os.path.join(folder, "modules.json")
    if not tf.io.gfile.exists(modules_file):
        return {}
    module_kind = json_files.record({"type": json_files.TEXT, "path": json_files.TEXT})
    modules = {
        module["type"].rpartition(".")[2]: module["path"]
        for module in json_files.read(
            modules_file, json_files.array(module_kind), "sentence-transformers"
        )
    }
    unsupported = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if unsupported:
        raise UserError(
            f"{modules_file}: module {unsupported[0]} is not supported; expected only Transformer, "
            "Pooling and Normalize"
        )
    settings = read_json(os.path.join(folder, modules.get("Pooling", "")), "config.json")
    modes = [name for name, value in settings.items()
             if name.startswith("pooling_") and value is True]  # fmt: skip
    poolings = {"pooling_mode_mean_tokens": "mean", "pooling_mode_max_tokens": "max",
                "pooling_mode_cls_token": "cls"}  # fmt: skip
    if len(modes) != 1 or modes[0] not in poolings:
        raise UserError(
            f"{folder}: pooling {', '.join(modes) or 'none'} is not supported; expected one of "
            f"{', '.join(poolings)}"
        )
    options = {"pooling": poolings[modes[0]], "layer": -1, "normalize": "Normalize" in modules}
    length = read_json(folder, "sentence_bert_config.json").get("max_seq_length")
    return {**options, "max_seq_length": length} if length else options
