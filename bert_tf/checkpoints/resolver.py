"""Resolve presets to the files and tokenizer settings of a pre-trained model."""

import dataclasses
import functools
import os
import re
from collections.abc import Collection, Mapping
from typing import Any

from bert_tf import console
from bert_tf.checkpoints import metadata
from bert_tf.checkpoints.hub import MODELS, fetch, local_folder
from bert_tf.checkpoints.release import unread_weights
from bert_tf.checkpoints.warm_start import open_checkpoint
from bert_tf.configs.model import BertConfig, ModelConfig
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling.layer_states import is_quantized_preset
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.settings import (
    RELEASE_SETTINGS,
    extra_settings,
    is_tokenizer_json,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import check_vocabulary, validate_case_matches_checkpoint

# Option of `ModelConfig` -> names of the companion files that provide its default.
_FILES = {"bert_config_file": metadata.CONFIG_FILES, "vocab_file": metadata.VOCABULARY_FILES}


@dataclasses.dataclass(frozen=True)
class PretrainedFiles:
    """The files of a pre-trained model, and the settings of its tokenizer.

    Attributes:
      checkpoint: path of the weights or of their folder, or None.
      config_file: path of the model's configuration, or None.
      vocab_file: path of the vocabulary, or None.
      tokenizer_settings: dict of the arguments of `FullTokenizer` other than the vocabulary; None
        if `resolve` did not need the vocabulary.
      task_file: path of the options of a fine-tuned model, whose weights may be elsewhere, or None.
      attention_probs_dropout_prob: replaces the rate in `config_file` unless it is None.
    """

    # Any instead of `str | None`, because `resolve` guarantees the files that its caller needs.
    checkpoint: Any = None
    config_file: Any = None
    vocab_file: Any = None
    tokenizer_settings: Any = None
    task_file: str | None = None
    attention_probs_dropout_prob: float | None = None

    @property
    def folder(self) -> str:
        """The folder of the weights."""
        return metadata.containing_folder(self.checkpoint)

    @property
    def config_folder(self) -> str:
        """The folder where to look for a `TaskConfig`."""
        return metadata.containing_folder(self.task_file or self.checkpoint)

    @property
    def revision(self) -> str | None:
        """The commit of a Hugging Face hub model, None for other models."""
        # In the cache of huggingface_hub.
        found = self.checkpoint and re.search(r"/snapshots/([0-9a-f]{40})/?$", self.folder)
        return found[1] if found else None

    @property
    def do_lower_case(self) -> bool:
        """Whether the model is uncased."""
        return self.tokenizer_settings["do_lower_case"]

    @functools.cached_property
    def bert_config(self) -> BertConfig:
        """The `BertConfig`; reading it raises UserError if its file is damaged."""
        config = BertConfig.from_json_file(self.config_file)
        rate = self.attention_probs_dropout_prob
        if rate is None:
            return config
        return dataclasses.replace(config, attention_probs_dropout_prob=rate)

    @functools.cached_property
    def tokenizer(self) -> FullTokenizer:
        """The `FullTokenizer`; reading it raises UserError if it does not fit the model."""
        tokenizer = FullTokenizer(self.vocab_file, **self.tokenizer_settings)
        check_vocabulary(
            tokenizer.vocab, self.bert_config, self.vocab_file, self.do_lower_case, self.config_file
        )
        return tokenizer


def resolve(
    preset: str | os.PathLike | ModelConfig | PretrainedFiles,
    needs: Collection[str] = ("bert_config_file", "vocab_file"),
    run_settings: Mapping[str, Any] | None = None,
    default_lower_case: bool | None = None,
    **overrides: Any,
) -> PretrainedFiles:
    """Find the files of a model and the settings of its tokenizer.

    Files in `overrides` or a `ModelConfig` win over files next to the weights. For tokenizer
    settings, the arguments win over the settings of the run, which win over those saved with the
    vocabulary or next to the weights. If none has the casing, it comes from the name of a published
    model in the path, else from the default of the task. The origin of each value is logged.

    >>> model_files = resolve("uncased_L-4_H-256_A-4")
    >>> model_files.bert_config.hidden_size, model_files.do_lower_case
    (256, True)

    Args:
      preset: a folder or checkpoint of the release or of a training run; a Hugging Face or
        sentence-transformers folder; the name of a published model (`checkpoints.MODELS`) or
        "OWNER/NAME[@REVISION]" of the Hugging Face hub, both downloaded if they are not cached; or
        a `ModelConfig`. For `PretrainedFiles`, only the tokenizer settings are replaced.
      needs: options of `ModelConfig` whose files must exist. Without "vocab_file", tokenizer
        settings are not read; with "init_checkpoint", the weights must be readable.
      run_settings: tokenizer settings of the run that is resumed or evaluated, or None.
      default_lower_case: the casing if nothing specifies it. None means True, with a warning.
      **overrides: options of `ModelConfig` and tokenizer settings, None if not given.

    Raises:
      UserError: if the model does not exist, a file is missing, or the tokenizer is not BERT's.
    """
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if isinstance(preset, PretrainedFiles):
        extra = extra_settings(preset.tokenizer_settings)
        specified = {"do_lower_case": preset.do_lower_case, **extra, **overrides}
        return dataclasses.replace(preset, tokenizer_settings=resolve_settings(**specified))
    config = preset if isinstance(preset, ModelConfig) else ModelConfig(os.fspath(preset))
    is_preset = config is not preset
    fields = dataclasses.asdict(config).keys() & overrides.keys()
    config = dataclasses.replace(config, **{name: overrides[name] for name in fields})
    values = {**overrides, **dataclasses.asdict(config)}
    options = {name: values[name] for name in RELEASE_SETTINGS if values.get(name) is not None}
    source, checkpoint = (x and local_folder(x) for x in (config.model, config.init_checkpoint))
    if source in MODELS and files.exists(source):
        console.info("using the local folder %s instead of downloading the model", source)
    elif source and not any(files.exists(source + ending) for ending in ("", ".index")):
        source = fetch(source, "preset" if is_preset else "model")
    checkpoint = checkpoint or source
    source = source or checkpoint
    if source and source.endswith(".json") and os.path.basename(source) not in _FILES["vocab_file"]:
        name = "model" if config.model else "init_checkpoint"
        open_checkpoint(source, "preset" if is_preset else name)  # the error of a single file
    if "init_checkpoint" in needs:
        if not checkpoint:
            raise UserError("`init_checkpoint` or `model` must be given")
        if not is_quantized_preset(checkpoint):  # which `from_preset` loads
            open_checkpoint(checkpoint)
    paths: dict[str, str | None] = {}
    used = []
    for name, companions in _FILES.items():
        paths[name] = values[name]
        if source and paths[name] is None:
            path = paths[name] = metadata.find_companion_file(source, companions)
            used += [f"{name} ({os.path.basename(path)})"] if path else []
        if name in needs and not paths[name]:
            if source is None:
                raise UserError(f"`{name}` or `model` must be given")
            if not any(files.exists(source + ending) for ending in ("", ".index")):
                raise UserError(f"`init_checkpoint`: there is no checkpoint {source}")
            argument = "preset" if is_preset else name
            place = f"in {source}" if files.is_folder(source) else f"next to {source}"
            missing = f"there is no {' or '.join(companions)} {place}"
            raise UserError(f"`{argument}`: {missing}{unread_weights(source)}")
    settings = None
    if "vocab_file" in needs:
        given_file = values["vocab_file"]
        settings, origin, saved = _resolve_settings(
            options, given_file, source, paths["vocab_file"], run_settings, default_lower_case
        )
        if given_file is None:
            used += saved
        elif saved:
            console.info("from %s: %s", origin, ", ".join(saved))
    if used:
        console.info("from %s: %s", source, ", ".join(used))
    task_file = metadata.find_companion_file(source, TASK_CONFIG_FILES) if source else None
    config_file, vocab_file = paths.values()
    return PretrainedFiles(checkpoint, config_file, vocab_file, settings, task_file)


def _resolve_settings(options, given_file, source, vocab_file, run_settings, default_lower_case):
    """Return the settings, the path of the saved ones, and "name=value" of the saved ones used."""
    if run_settings is not None:
        return resolve_settings(**{**run_settings, **options}), None, []
    # A `tokenizer.json` contains all settings.
    origin = vocab_file if is_tokenizer_json(vocab_file) else source
    saved = metadata.read_settings(origin, given_file) if origin else {}
    settings = resolve_settings(**saved)
    for name, value in options.items():
        if name in saved and settings[name] != value:
            console.warning(
                "`%s=%s` overrides %s in the metadata of %s", name, value, settings[name], origin
            )
    if "do_lower_case" not in saved and origin:
        if "do_lower_case" in options:
            validate_case_matches_checkpoint(options["do_lower_case"], origin)
        metadata.add_published_casing(saved, origin)
    specified = {**saved, **options}
    if default_lower_case is not None:
        specified.setdefault("do_lower_case", default_lower_case)
    settings = resolve_settings(**specified)
    if "do_lower_case" in specified:
        console.info("text is %slower-cased", "" if settings["do_lower_case"] else "not ")
    else:
        console.warning(
            "no file next to %s specifies the casing; assuming `do_lower_case=True`",
            source or vocab_file,
        )
    used = [f"{x}={y}" for x, y in saved.items() if y is not None and x not in options]
    return settings, origin, used
