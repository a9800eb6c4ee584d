"""The configuration of a fine-tuned model: options and labels, saved next to its weights."""

import dataclasses
import functools
import json
import os
from typing import ClassVar

from bert_tf.configs.base import Config, derived, option
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError, check_unicode
from bert_tf.io import files, json_files
from bert_tf.tokenization.settings import (
    EXTRA_SETTINGS,
    RELEASE_SETTINGS,
    extra_settings,
    resolve_settings,
)
from bert_tf.tokenization.special_tokens import SHORTEST
from bert_tf.tokenization.vocabulary import load_vocab, vocabulary_text


@dataclasses.dataclass(frozen=True)
class TaskConfig(Config):
    """The configuration of a task and its trained model.

    The `task` of a `FineTuneConfig` has only the options that the user sets. With a `bert_config`,
    it is the complete config of a model, which is saved next to the weights.

    Attributes:
      bert_config: the `BertConfig` of the encoder.
      vocab_file: path of the vocabulary.
      do_lower_case: whether the model is uncased.
      strip_accents, tokenize_chinese_chars, max_input_chars_per_word: see `FullTokenizer`; None for
        the release's settings.
      labels: label names in the order of their ids, () if the model has none.
    """

    GROUPS: ClassVar[tuple] = (("Sequences", "max_seq_length doc_stride"),)

    bert_config: BertConfig | None = derived(None, fixed=True)
    vocab_file: str = derived("", fixed=True)
    do_lower_case: bool = derived(True, saved=True, fixed=True)
    max_seq_length: int = option(
        128,
        "Maximum sequence length, in tokens; longer texts are truncated.",
        minimum=1,
        saved=True,
    )
    strip_accents: bool | None = derived(None, saved=True, inferred=True)
    tokenize_chinese_chars: bool | None = derived(None, saved=True, inferred=True)
    max_input_chars_per_word: int | None = derived(None, minimum=1, saved=True, inferred=True)
    labels: tuple[str, ...] = derived((), fixed=True)

    # The name of the side file, "" for a task without training by a script.
    FILE: ClassVar[str] = ""

    # The number of texts in a sequence; `ClassificationConfig` has an attribute.
    _NUM_TEXTS: ClassVar[int] = 1

    def __post_init__(self):
        super().__post_init__()
        if isinstance(self.bert_config, BertConfig):
            vars(self).update(vars(self.resolve()))
            self.bert_config.check_num_texts(getattr(self, "num_texts", self._NUM_TEXTS))
            for i, label in enumerate(self.labels):
                check_unicode(label, f"`labels`: label {i}")

    @property
    def tokenizer_settings(self):
        """The arguments of `FullTokenizer` apart from the vocabulary, a dict."""
        return resolve_settings(**{name: getattr(self, name) for name in RELEASE_SETTINGS})

    @functools.cached_property
    def vocab(self):
        """The mapping from piece to id, read once because the file may change later."""
        return load_vocab(self.vocab_file)

    @functools.cached_property
    def vocabulary_text(self):
        """The text of the vocabulary file, also read once."""
        return vocabulary_text(self.vocab_file)

    def keep_vocabulary(self, other=None):
        """Read the vocabulary, or copy it from a config with the same file; return self.

        Afterwards, the file is no longer needed.
        """
        source = self if other is None else other
        vars(self).update(vocab=source.vocab, vocabulary_text=source.vocabulary_text)
        return self

    def check(self, config):
        """Raise UserError for options of a `FineTuneConfig` that cannot be combined."""

    def of_model(self, model, **values):
        """Return the config of a run from its `PretrainedFiles` and from `values` of the data."""
        return dataclasses.replace(
            self,
            bert_config=model.bert_config,
            vocab_file=model.vocab_file,
            do_lower_case=model.do_lower_case,
            **values,
        )

    @classmethod
    def from_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
        """Make the config of a model that was fine-tuned elsewhere, to export it.

        `**options` are other attributes, None for the default.
        """
        given = {name: value for name, value in options.items() if value is not None}
        default = cls().resolve().max_seq_length
        length = valid_length(given.pop("max_seq_length", None), bert_config, default)
        return cls(bert_config, vocab_file, do_lower_case, max_seq_length=length, **given)

    def save(self, folder):
        """Write the side file, `bert_config.json` and `vocab.txt` into a folder, atomically."""
        texts = {
            files.CONFIG: self.bert_config.to_json_string(),
            files.VOCABULARY: self.vocabulary_text,
            # Written last: if this file exists, so do the others.
            self.FILE: json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n",
        }
        files.write_texts({os.path.join(folder, name): text for name, text in texts.items()})

    def to_json(self):
        """Return the values of the side file; omit tokenizer settings with the release's values."""
        values = super().to_json().items()
        values = {name: value for name, value in values if name not in EXTRA_SETTINGS}
        return {**values, **extra_settings(self.tokenizer_settings)}

    @classmethod
    def load(cls, folder):
        """Read the config of a run's folder; None if the folder has no side file of this task.

        Raises:
          UserError: if a file is damaged, or was not written by this task's script.
        """
        path = os.path.join(folder, cls.FILE)
        if not cls.FILE or not files.system(path).exists(path):
            return None
        script = files.TASK_CONFIG_FILES[cls.FILE]
        values = json_files.read(path, dict, script)
        bert_config = BertConfig.from_json_file(os.path.join(folder, files.CONFIG))
        vocab_file = os.path.join(folder, files.VOCABULARY)
        try:
            return cls.from_json(values, bert_config=bert_config, vocab_file=vocab_file)
        except UserError as error:
            raise UserError(f"{path}: {error}; expected a file written by {script}") from None

    @classmethod
    def check_folder(cls, folder):
        """Raise UserError if a folder contains a run of another task's script."""
        for name, script in files.TASK_CONFIG_FILES.items():
            path = os.path.join(folder, name)
            if name != cls.FILE and files.system(path).exists(path):
                raise UserError(
                    f"`output_dir`: found {name} of a {script} run in {folder}; use another "
                    "`output_dir`"
                )

    def resumed(self, folder):
        """Return this config with the values that an earlier run in `folder` fixed."""
        return self

    def fixed_values(self):
        values = super().fixed_values()
        if values["vocab_file"]:
            values["vocab_file"] = self.vocabulary_text
        return values | self.tokenizer_settings

    def check_resume(self, folder):
        """Raise UserError if a run in `folder` has different `fixed_values`, such as the model."""
        stored = self.load(folder)
        if stored is None:
            return
        new_values = self.fixed_values()
        for name, old in stored.fixed_values().items():
            if old == new_values[name]:
                continue
            values = ""
            if name not in ("bert_config", "vocab_file"):
                values = f" ({_as_text(old)}, now {_as_text(new_values[name])})"
            raise UserError(
                f"`output_dir`: found a run with a different {name}{values} in {folder}; continue "
                "it with the same value, or use another `output_dir`"
            )

    def save_changes(self, folder):
        """Save a new or changed config."""
        stored = self.load(folder)
        if stored is None or self.to_json() != stored.to_json():
            self.save(folder)


def _as_text(value):
    if type(value) is tuple:
        return ", ".join(value) or "none"
    return "none" if value is None else value


def check_labels(labels):
    """Return label names as a tuple; UserError if it is empty or has duplicates."""
    labels = tuple(labels)
    if not labels:
        raise UserError("`labels` must be given: no file next to the checkpoint has them")
    for i, label in enumerate(labels):
        if not label or label in labels[:i]:
            names = ", ".join(labels)
            raise UserError(f"`labels`: label {i} of {names} is empty or occurs twice")
    return labels


def valid_length(max_seq_length, config, default=128):
    """Return a checked length; None means the default or, if lower, the model's limit."""
    if max_seq_length is None:
        max_seq_length = min(default, config.max_position_embeddings)
    check_length(max_seq_length, config)
    return max_seq_length


def check_length(max_seq_length, config):
    """Raise UserError if a length exceeds the model's limit or is too short for two texts."""
    longest = config.max_position_embeddings
    if not SHORTEST <= max_seq_length <= longest:
        raise UserError(
            f"`max_seq_length={max_seq_length}`: expected a number between {SHORTEST} and "
            f"{longest}, the model's max_position_embeddings"
        )
