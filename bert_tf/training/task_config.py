"""What a fine-tuned model needs besides its weights, saved next to them, and checked."""

import dataclasses
import json
import os
import typing
from typing import ClassVar

import tensorflow as tf

from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.tokenization.settings import (
    EXTRA_SETTINGS,
    RELEASE_SETTINGS,
    extra_settings,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import vocabulary_text


@dataclasses.dataclass(frozen=True)
class TaskConfig:
    """What a fine-tuned model needs besides its weights; saved next to them.

    Subclasses add fields and define their JSON. The side files have the format of version 0.1, so
    folders of that version load.

    Attributes:
      bert_config: the `BertConfig` of the encoder.
      vocab_file: path of the vocabulary.
      do_lower_case: whether the model is uncased.
      max_seq_length: longest sequence in tokens.
      strip_accents, tokenize_chinese_chars, max_input_chars_per_word: see `FullTokenizer`.
    """

    bert_config: BertConfig
    vocab_file: str
    do_lower_case: bool = True
    max_seq_length: int = 128

    # The other settings of the tokenizer; None for those of the release.
    strip_accents: bool | None = dataclasses.field(default=None, kw_only=True)
    tokenize_chinese_chars: bool | None = dataclasses.field(default=None, kw_only=True)
    max_input_chars_per_word: int | None = dataclasses.field(default=None, kw_only=True)

    # The name of the side file, the attributes that a resumed run must not change, and those that
    # are options, which evaluation and prediction take from the trained model.
    FILE: ClassVar[str] = ""
    FIXED: ClassVar[tuple[str, ...]] = ()
    OPTIONS: ClassVar[tuple[str, ...]] = ("do_lower_case", "max_seq_length")

    @property
    def labels(self):
        """Names of the rows of the model's head in the order of their ids, () if there are none."""
        return ()

    @property
    def tokenizer_settings(self):
        """The arguments of `FullTokenizer` apart from the vocabulary, a dict."""
        return resolve_settings(**{name: getattr(self, name) for name in RELEASE_SETTINGS})

    @classmethod
    def default_options(cls):
        """Return the values of options that are neither given nor recorded, by name."""
        return {name: getattr(cls, name) for name in cls.OPTIONS}

    def recorded_options(self):
        """Return the options that evaluation and prediction take from the trained model."""
        return {name: getattr(self, name) for name in self.OPTIONS}

    def to_json(self):
        """Return the values of the side file, as JSON has them."""
        return self.recorded_options()

    @classmethod
    def json_fields(cls):
        """Return the fields of the side file, as `json_files.read_object` takes them."""
        hints = typing.get_type_hints(cls)
        return {
            **{name: json_files.of_type(hints[name]) for name in cls.OPTIONS},
            **{f"{name}?": json_files.of_type(hints[name]) for name in EXTRA_SETTINGS},
        }

    @classmethod
    def from_json(cls, values, bert_config, vocab_file):
        """Make a config from the values of a side file, which has valid `json_fields`."""
        return cls(bert_config, vocab_file, **{name: values[name] for name in cls.OPTIONS})

    @classmethod
    def of_run(cls, model, options, **values):
        """Make the config of a run from its `PretrainedFiles`, `TaskOptions` and other values."""
        chosen = {name: getattr(options, name) for name in cls.OPTIONS if name != "do_lower_case"}
        return cls(model.bert_config, model.vocab_file, model.do_lower_case, **chosen, **values)

    @classmethod
    def of_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
        """Make the config of a model that was fine-tuned elsewhere, to export it.

        `labels` are the names of the rows of its head, for subclasses that have them, and
        `**options` the values of other attributes, None for the default.
        """
        given = {name: value for name, value in options.items() if value is not None}
        config = cls(bert_config, vocab_file, do_lower_case, **given)
        check_length(config.max_seq_length, bert_config)
        return config

    def save(self, folder):
        """Write the side file, `bert_config.json` and `vocab.txt` into a folder, all or none."""
        texts = {
            files.CONFIG: self.bert_config.to_json_string(),
            files.VOCABULARY: vocabulary_text(self.vocab_file),
            # Last: where this file exists, the others do.
            self.FILE: json.dumps(self._side_file(), indent=2, ensure_ascii=False) + "\n",
        }
        files.write_texts({os.path.join(folder, name): text for name, text in texts.items()})

    def _side_file(self):
        """Return the values of the side file: `to_json` and settings unlike the release's."""
        return {**self.to_json(), **extra_settings(self.tokenizer_settings)}

    @classmethod
    def load(cls, folder):
        """Read the config of a run's folder; None if the folder has no side file of this task.

        Raises:
          UserError: if a file is damaged, or was not written by this task's script.
        """
        path = os.path.join(folder, cls.FILE)
        if not tf.io.gfile.exists(path):
            return None
        values = json_files.read_object(path, cls.json_fields(), files.TASK_FILES[cls.FILE])
        config = cls.from_json(
            values,
            BertConfig.from_json_file(os.path.join(folder, files.CONFIG)),
            os.path.join(folder, files.VOCABULARY),
        )
        return dataclasses.replace(config, **{x: values.get(x) for x in EXTRA_SETTINGS})

    @classmethod
    def check_folder(cls, folder):
        """Raise UserError if a folder holds a run of another task's script."""
        for name, script in files.TASK_FILES.items():
            if name != cls.FILE and tf.io.gfile.exists(os.path.join(folder, name)):
                raise UserError(
                    f"`output_dir`: {folder} holds a run of {script} (it has {name}); use another "
                    "`output_dir`"
                )

    def resumed(self, folder):
        """Return this config with the values that an earlier run in `folder` has fixed."""
        return self

    def check_resume(self, folder):
        """Check that a run in `folder` has the same model, vocabulary and `FIXED` values.

        Raises:
          UserError: naming what differs.
        """
        stored = self.load(folder)
        if stored is None:
            return
        for name in (*self.FIXED, *RELEASE_SETTINGS, "bert_config", "vocab_file"):
            old, new = getattr(stored, name), getattr(self, name)
            if name == "vocab_file":
                old, new = vocabulary_text(old), vocabulary_text(new)
            elif name in EXTRA_SETTINGS:
                old, new = stored.tokenizer_settings[name], self.tokenizer_settings[name]
            if old == new:
                continue
            values = ""
            if name not in ("bert_config", "vocab_file"):
                values = f": {_as_text(old)} there, {_as_text(new)} now"
            raise UserError(
                f"`output_dir`: {folder} holds a run with a different {name}{values}; continue it "
                "with the same value, or use another `output_dir`"
            )

    def settle(self, folder, write):
        """Check a resumed run; with `write`, save a config that is new or has other options."""
        self.check_resume(folder)
        stored = self.load(folder)
        if write and (stored is None or self._side_file() != stored._side_file()):
            self.save(folder)


def _as_text(value):
    return ", ".join(value) or "none" if isinstance(value, (list, tuple)) else value


def check_labels(labels):
    """Return the names of a head's rows as a tuple; UserError if there are none or duplicates."""
    labels = tuple(labels)
    if not labels:
        raise UserError("`labels` must be given: no file next to the checkpoint has them")
    if len(set(labels)) < len(labels):
        raise UserError(f"`labels`: a label occurs twice in {', '.join(labels)}")
    return labels


# [CLS] a [SEP] b [SEP] with one token in each text.
SHORTEST = 5


def check_length(max_seq_length, config):
    """Raise UserError if the model has no positions for such sequences, or they hold no text."""
    if max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"`max_seq_length={max_seq_length}` exceeds the model's max_position_embeddings, "
            f"{config.max_position_embeddings}"
        )
    if max_seq_length < SHORTEST:
        raise UserError(f"`max_seq_length={max_seq_length}` is less than {SHORTEST}")
