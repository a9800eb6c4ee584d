"""The settings of a sentence-transformers folder."""

import os
from typing import NamedTuple

from bert_tf import console
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG, containing_folder, read_json
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.tasks.sentence_embedding.options import POOLINGS

# Supported modules of a sentence-transformers folder.
_MODULES = ("Transformer", "Pooling", "Normalize")


class _Module(NamedTuple):
    type: str
    path: str


def encoder_settings(path, given):
    """Return `given`, a dict of settings, completed by a sentence-transformers folder or defaults.

    `path` is a folder or a checkpoint, or None.
    """
    modules_file = path and os.path.join(containing_folder(path), "modules.json")
    if not (path and files.exists(modules_file)):
        return {"pooling": "mean", "normalize": False, **given}
    folder = os.path.dirname(modules_file)
    modules = json_files.read(modules_file, list[_Module], "sentence-transformers")
    modules = {module["type"].rpartition(".")[2]: module["path"] for module in modules}
    if [*modules] != [name for name in _MODULES if name in modules]:
        raise UserError(
            f"{modules_file}: found the modules {', '.join(modules)}; expected only "
            f"{', '.join(_MODULES)}, in this order"
        )
    pooling_file = os.path.join(folder, modules.get("Pooling", ""), "config.json")
    is_read = "Pooling" in modules and ("pooling" not in given or files.exists(pooling_file))
    settings = json_files.read(pooling_file, dict) if is_read else {}
    modes = settings.get("pooling_mode") or _older_modes(settings)
    model = read_json(folder, "config_sentence_transformers.json")
    name = model.get("default_prompt_name")
    prompts = model.get("prompts") or {}
    if name not in {None, *prompts} and "prompt" not in given:
        raise UserError(f"{folder}: default_prompt_name is {name!r}, which is not in prompts")
    prompt, includes_prompt = prompts.get(name, ""), settings.get("include_prompt") is not False
    if not includes_prompt and (used := given.get("prompt", prompt)):
        raise UserError(
            f"{pooling_file}: include_prompt is false, which is not supported with the prompt "
            f"{used!r}; `prompt` overrides a default prompt"
        )
    if (measure := model.get("similarity_fn_name") or "cosine") != "cosine":
        console.warning("%s has similarity_fn_name %s; `similarity` is the cosine", folder, measure)
    saved = {
        "pooling": modes if isinstance(modes, str) else ",".join(modes),
        "layer": -1,
        "normalize": "Normalize" in modules,
        "max_seq_length": _max_seq_length(folder),
        "truncate_dim": model.get("truncate_dim"),
        "prompt": prompt,
        "prompts": prompts,
        "include_prompt": includes_prompt,
    }
    for name, value in saved.items():
        if given.get(name, value) != value:
            message = "`%s=%s` overrides the setting: %s has %s"
            console.info(message, name, given[name], folder, value)
    used = [f"{x}={y}" for x, y in saved.items() if x not in given and y not in (None, "", {})]
    console.info("from the settings in %s: %s", folder, ", ".join(used))
    return {**saved, **given}


def _older_modes(settings):
    """Return the poolings of sentence-transformers before 5.4, which has a setting for each."""
    names = {setting: name for name, setting in POOLINGS.items()}
    # Without a file, the default of sentence-transformers is the mean.
    modes = [x for x, y in settings.items() if x.startswith("pooling_mode_") and y is True]
    return [names.get(x, x) for x in modes or ["none" if settings else POOLINGS["mean"]]]


def _max_seq_length(folder):
    if length := read_json(folder, "sentence_bert_config.json").get("max_seq_length"):
        return length
    limit = read_json(folder, HUGGING_FACE_CONFIG).get("max_position_embeddings", 512)
    return min(read_json(folder, files.TOKENIZER_CONFIG).get("model_max_length") or limit, limit)
