"""The files of a pre-trained model, and the settings of a sentence-transformers folder."""

import os
from typing import NamedTuple

import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints.metadata import (
    HUGGING_FACE_CONFIG,
    find_companion_file,
    find_vocabulary,
    read_json,
)
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.settings import resolve_settings
from bert_tf.tokenization.tokenizer_json import is_tokenizer_json
from bert_tf.training.task_config import check_vocabulary


class ModelFiles(NamedTuple):
    """The files of a pre-trained model.

    Attributes:
      checkpoint: path of the weights.
      config: path of the model's configuration, None if unknown.
      vocab: path of the vocabulary, None if unknown.
      do_lower_case: whether the model expects lower-cased text, None if unknown.
      settings: dict of further arguments of `FullTokenizer`, None for those of the release.
    """

    checkpoint: str
    config: str | None
    vocab: str | None
    do_lower_case: bool | None
    settings: dict | None = None

    @property
    def flags(self):
        """Dict from flag to value for scripts that start from this model."""
        flags = {
            "init_checkpoint": self.checkpoint,
            "bert_config_file": self.config,
            "vocab_file": self.vocab,
            "do_lower_case": self.do_lower_case,
        }
        return {name: value for name, value in flags.items() if value is not None}

    def open(self, keep_special_tokens=False):
        """Return the `BertConfig` and a `FullTokenizer` with this `keep_special_tokens`.

        Raises:
          UserError: if a file is missing or the two do not match.
        """
        for path, argument, description in (
            (self.config, "bert_config_file", "configuration"),
            (self.vocab, "vocab_file", "vocabulary"),
        ):
            if path is None:
                raise UserError(
                    f"`{argument}` is not given, and there is no {description} next to "
                    f"{self.checkpoint}"
                )
        config = BertConfig.from_json_file(self.config)
        settings = self.tokenizer_settings()
        tokenizer = FullTokenizer(self.vocab, keep_special_tokens=keep_special_tokens, **settings)
        check_vocabulary(tokenizer.vocab, config, self.vocab, settings["do_lower_case"])
        return config, tokenizer

    def tokenizer_settings(self, do_lower_case=None):
        """Return the arguments of `FullTokenizer` apart from the vocabulary, a dict.

        `do_lower_case` is the casing, None for that of the model, which is logged.
        """
        if do_lower_case is None:
            do_lower_case = self.casing()
        settings = {**(self.settings or {}), "do_lower_case": do_lower_case}
        return resolve_settings(self.vocab, **settings)

    def casing(self):
        """Return `do_lower_case`, True if it is unknown, and log it."""
        do_lower_case = self.do_lower_case
        if do_lower_case is None and is_tokenizer_json(self.vocab):
            do_lower_case = resolve_settings(self.vocab)["do_lower_case"]
        if do_lower_case is None:
            console.warning(
                "no settings next to %s specify the casing; assuming `do_lower_case=True`",
                self.checkpoint,
            )
            return True
        console.info("text is %s", "lower-cased" if do_lower_case else "not lower-cased")
        return do_lower_case


def find_model_files(preset, vocab_file=None):
    """Find the files of a model.

    Args:
      preset: the name of a published model (`checkpoints.MODELS`); a folder or checkpoint of the
        release or of a training run; or a Hugging Face folder. `ModelFiles` are returned
        unchanged.
      vocab_file: the vocabulary that will be used instead of that of the model, or None.

    Returns:
      `ModelFiles`. The casing is read from the settings next to the weights or else inferred from
      the name of a published model in the path.
    """
    if isinstance(preset, ModelFiles):
        return preset
    if preset in checkpoints.MODELS:
        model = checkpoints.fetch(preset)
        return ModelFiles(model.checkpoint, model.config, model.vocab, model.do_lower_case)
    settings = checkpoints.find_settings(preset, vocab_file)
    return ModelFiles(
        preset,
        find_companion_file(preset, (files.CONFIG, HUGGING_FACE_CONFIG)),
        find_vocabulary(preset),
        settings.pop("do_lower_case", None),
        settings,
    )


def find_preset(preset, needs_config=True):
    """Find the files of a model as `find_model_files` does, and check that they exist.

    Args:
      preset: as in `find_model_files`; a path may also be a `pathlib.Path`.
      needs_config: whether the weights and their configuration must exist too, or only the
        vocabulary.

    Raises:
      UserError: if there is no such model or a file is missing; it names `preset`.
    """
    if isinstance(preset, ModelFiles):
        return preset
    preset = os.fspath(preset)
    path = checkpoints.find_preset(preset, needs_config)
    model_files = find_model_files(preset)
    if model_files.vocab is None:
        raise UserError(f"`preset`: there is no {files.VOCABULARY} or {files.TOKENIZER} in {path}")
    return model_files


def sentence_transformers_options(path):
    """Return the settings of a sentence-transformers folder as arguments of `SentenceEncoder`.

    The dict is empty for any other folder. `path` is a folder or a file in it.

    Raises:
      UserError: if the folder uses a module or a pooling that is not supported.
    """
    folder = _folder_of(path)
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


def _folder_of(path):
    return os.path.dirname(path) if path.endswith(".safetensors") else path
