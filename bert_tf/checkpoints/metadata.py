"""Files next to a checkpoint: configuration, vocabulary, and metadata such as labels and casing."""

import contextlib
import os
import re

from bert_tf import console
from bert_tf.configs.model import BertConfig
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.errors import UserError, check_unicode
from bert_tf.io import files, json_files
from bert_tf.io.json_files import Positive
from bert_tf.tokenization.settings import (
    RELEASE_SETTINGS,
    is_tokenizer_json,
    read_tokenizer_settings,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import casing_from_path

HUGGING_FACE_CONFIG = "config.json"

# File names of the configuration and the vocabulary, in order of preference.
CONFIG_FILES = (files.CONFIG, HUGGING_FACE_CONFIG)
VOCABULARY_FILES = (files.VOCABULARY, files.TOKENIZER)


def containing_folder(path):
    """Return `path` if it is a folder, else the folder of the checkpoint."""
    return path if files.is_folder(path) else os.path.dirname(path)


def find_companion_file(path, names):
    """Return the first of `names` that exists next to a checkpoint, else None."""
    paths = (os.path.join(containing_folder(path), name) for name in names)
    return next(filter(files.exists, paths), None)


def load_config(path):
    """Read the `BertConfig` next to a checkpoint; raise UserError if it does not exist."""
    if (config_file := find_companion_file(path, CONFIG_FILES)) is None:
        raise UserError(f"`bert_config_file`: found no {' or '.join(CONFIG_FILES)} next to {path}")
    return BertConfig.from_json_file(config_file)


# Fields that are read from all side files.
_FIELDS = {
    "architectures?": list[str] | None,
    "do_lower_case?": bool | None,
    "id2label?": dict | None,
    "max_input_chars_per_word?": Positive | None,
    "problem_type?": str | None,
    "strip_accents?": bool | None,
    "tokenize_chinese_chars?": bool | None,
}
# Fields that are read only from `TASK_CONFIG_FILES`; other files use the names differently.
_TASK_CONFIG_FIELDS = {
    "data_scheme?": str,
    "labels?": list[str],
    "max_seq_length?": Positive | None,
    "names?": list[str],
    "numeric_features?": list[dict],
    "task_type?": str,
}


def read_json(folder, name):
    """Read a JSON file as a dict, empty if the file does not exist."""
    path = os.path.join(folder, name)
    fields = {**_FIELDS, **_TASK_CONFIG_FIELDS} if name in TASK_CONFIG_FILES else _FIELDS
    return json_files.read(path, fields) if files.exists(path) else {}


def read_metadata(path):
    """Return all metadata next to a checkpoint, such as casing, labels and architecture."""
    folder = containing_folder(path)
    metadata = {}
    for name in (files.TOKENIZER_CONFIG, HUGGING_FACE_CONFIG):
        values = read_json(folder, name)
        metadata.update({x: y for x, y in values.items() if f"{x}?" not in _TASK_CONFIG_FIELDS})
    id2label = metadata.get("id2label") or {}
    id2label = {i: str(label) for i, label in id2label.items() if label is not None}
    metadata["id2label"] = id2label
    labels = [id2label.get(str(i)) for i in range(len(id2label))]
    if labels and None not in labels:
        metadata["labels"] = labels
    for name in TASK_CONFIG_FILES:
        metadata.update(read_json(folder, name))
    # Needed because a token classifier's head has the same weights as a text classifier's.
    if "data_scheme" in metadata:
        metadata["labels"] = metadata.get("names", [])
        metadata["architectures"] = ["BertForTokenClassification"]
    for i, label in enumerate(metadata.get("labels", ())):
        check_unicode(label, f"{folder}: label {i}")
    return metadata


def read_settings(path, vocab_file=None):
    """Return the saved arguments of `FullTokenizer`, as a dict.

    `path` is a checkpoint, its folder, or a vocabulary. Raises UserError if the files describe a
    tokenizer other than BERT's, but with a `vocab_file` only logs a warning.
    """
    folder = containing_folder(path)
    if is_tokenizer_json(path):
        settings = read_tokenizer_settings(*os.path.split(path))
    else:
        settings = _read_folder_settings(folder, vocab_file)
    if read_json(folder, "sentence_bert_config.json").get("do_lower_case"):
        # sentence-transformers lower-cases the texts before a cased tokenizer, which keeps accents.
        settings = {**resolve_settings(**settings), "do_lower_case": True}
    return settings


def _read_folder_settings(folder, vocab_file):
    try:
        recorded = read_tokenizer_settings(folder)
    except UserError as error:
        if vocab_file is None:
            raise
        console.warning("%s; using `vocab_file=%s` instead", error, vocab_file)
        recorded = {}
    settings = {**read_json(folder, HUGGING_FACE_CONFIG), **recorded}
    for name in TASK_CONFIG_FILES:
        # A task config file with the casing has all settings that differ from the release's.
        values = read_json(folder, name)
        settings = values if "do_lower_case" in values else settings
    return {name: settings[name] for name in RELEASE_SETTINGS if name in settings}


def add_published_casing(settings, path):
    """Add the casing of the published model named in `path` if it is missing."""
    if "do_lower_case" not in settings and (published := casing_from_path(path)):
        settings["do_lower_case"] = published[1]


def read_labels(path, num_labels):
    """Return the labels of a checkpoint's head, None if they are unknown.

    A different number of labels is ignored, as are transformers' placeholders ("LABEL_0").
    """
    labels = read_metadata(path).get("labels", ())
    are_placeholders = all(re.fullmatch(r"LABEL_\d+", label) for label in labels)
    return None if are_placeholders or len(labels) != num_labels else labels


def copy_model_files(source, target):
    for name in (files.CONFIG, files.VOCABULARY, files.TOKENIZER_CONFIG, *TASK_CONFIG_FILES):
        path = os.path.join(source, name)
        if files.exists(path):
            files.write_text(os.path.join(target, name), files.read_text(path))


# The paths of the files that `save_to_preset` writes, besides the task's own.
_PRESET = (
    r"((bert_|tokenizer_|sentence_bert_|1_Pooling/)?config|config_sentence_transformers)\.json|"
    r"(modules|tokenizer)\.json|vocab\.txt|model\.safetensors|checkpoint|"
    r"quantized\.keras|(bert_model\.ckpt|model\.ckpt-\d+)\.(index|data-\d+-of-\d+)"
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
    files.check_replaceable(folder, "|".join((_PRESET, *TASK_CONFIG_FILES)), "folder")


@contextlib.contextmanager
def replacing_preset(folder, overwrite):
    """Yield a temporary name for the folder of `save_to_preset`; see `files.replacing`."""
    if not (folder := files.expand_home(folder).rstrip("/")):
        raise UserError("`folder`: found no name of a folder")
    check_preset(folder, overwrite)
    with files.replacing(folder, check_folder=check_preset) as (temporary,):
        yield temporary
