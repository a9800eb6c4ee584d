"""The options of a task: of its data, and of its model, which are saved next to the weights."""

import dataclasses
import functools
import json
import os
from typing import ClassVar, NamedTuple

from bert_tf.configs.base import Config, from_json_value, hints_of, option, to_json_value
from bert_tf.configs.model import BertConfig
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.errors import UserError, check_unicode
from bert_tf.io import files, json_files
from bert_tf.io.json_files import Positive
from bert_tf.tokenization.settings import (
    EXTRA_SETTINGS,
    RELEASE_SETTINGS,
    SHORTEST,
    extra_settings,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import load_vocab, vocabulary_text

SPLITS = ("train", "dev", "test")


def base_split(split):
    """Return "train", "dev" or "test" for a split: "dev" for "dev_mismatched"."""
    return split.partition("_")[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DataOptions(Config):
    """The options of the data of a task, and of a run with them; they are not saved."""

    def check_run(self, config):
        """Raise UserError if an option cannot be combined with a `FineTuneConfig`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileOptions(DataOptions):
    """Data files. Each task lists the file names that it expects in `data_dir`."""

    data_dir: str | None = None
    train_file: str | None = option(None, "Training set. Default: the file in data_dir.")
    dev_file: str | None = option(None, "Development set. Default: the file in data_dir.")
    test_file: str | None = option(None, "Test set. Default: the file in data_dir.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions(FileOptions):
    """Data files with a table of examples."""

    delimiter: str | None = option(
        None,
        "Column delimiter of delimited files: comma, semicolon, tab, pipe, or any other character. "
        "Default: comma in .csv, tab in other files.",
    )
    id_column: str | None = option(None, "Column that identifies predictions.")
    skip_bad_rows: bool = option(False, "Skip invalid rows instead of stopping.")


# Options of files, of all tasks that also read TFDS.
_FILE_OPTIONS = (
    "task_name", "data_dir", "train_file", "dev_file", "test_file", "predict_file", "header",
    "delimiter",
)  # fmt: skip


@dataclasses.dataclass(frozen=True, kw_only=True)
class TfdsOptions(DataOptions):
    """TensorFlow Datasets (TFDS)."""

    tfds_name: str | None = option(
        None,
        "Name of a TensorFlow Datasets (TFDS) dataset, such as glue/mrpc or squad/v1.1.",
        excludes=_FILE_OPTIONS,
    )
    tfds_data_dir: str | None = option(
        None, "TFDS data directory with prepared datasets.", requires="tfds_name"
    )
    tfds_splits: tuple[str, ...] = option(
        (),
        "TFDS splits for training, development and test, such as train[:90%],train[90%:],test. "
        "Default: the splits with the usual names.",
        requires="tfds_name",
    )

    def validate(self):
        super().validate()
        if len(self.tfds_splits) > len(SPLITS):
            raise UserError(
                f"`tfds_splits`: found {len(self.tfds_splits)} splits, expected at most "
                f"{len(SPLITS)}, for training, development and test"
            )

    def split_names(self):
        """Return `tfds_splits` by their purpose: "train", "dev" and "test"."""
        return dict(zip(SPLITS, self.tfds_splits, strict=False))


class Vocabulary(NamedTuple):
    """The mapping from piece to id, and the text of the vocabulary file."""

    pieces: dict
    text: str


# Values of a `TaskConfig` that are saved in other files.
_OF_FILES = ("bert_config", "vocab_file", "vocabulary")


@dataclasses.dataclass(frozen=True)
class TaskConfig(Config):
    """Options of the task, which describe the model and are saved next to its weights.

    Before a run has found its model, `bert_config` is None, and only the options that were given
    count.

    Attributes:
      bert_config: the `BertConfig` of the encoder.
      vocab_file: path of the vocabulary.
      do_lower_case: whether the model is uncased.
      strip_accents, tokenize_chinese_chars, max_input_chars_per_word: see `FullTokenizer`; None for
        the release's settings.
      vocabulary: the `Vocabulary`, after `keep_vocabulary`.
    """

    bert_config: BertConfig | None = None
    vocab_file: str = ""
    max_seq_length: Positive = option(
        128, "Maximum sequence length, in tokens; longer texts are truncated."
    )
    do_lower_case: bool = option(True, None, fixed=True)
    strip_accents: bool | None = None
    tokenize_chinese_chars: bool | None = None
    max_input_chars_per_word: Positive | None = None
    vocabulary: Vocabulary | None = dataclasses.field(default=None, repr=False, compare=False)

    # The name of the side file, "" for a task without training by a script.
    FILE: ClassVar[str] = ""
    # Options that a run infers from its data or its pre-trained model, unless they are given. Side
    # files of older versions may lack them.
    INFERRED: ClassVar[tuple[str, ...]] = ()
    # Attributes that are not saved in the side file.
    UNSAVED: ClassVar[tuple[str, ...]] = ()

    # The number of texts in a sequence; `ClassificationConfig` has an attribute.
    num_texts = 1

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the labels in the order of their ids, () if the model has none."""
        return ()

    def validate(self):
        super().validate()
        for i, label in enumerate(self.labels):
            check_unicode(label, f"`labels`: label {i}")
            if "".join(label.splitlines()) != label:
                raise UserError(f"`labels`: label {i} is {label!r}, expected no line break")
        if self.bert_config:  # else the options are not complete
            self.validate_model()

    def validate_model(self):
        """Raise UserError if an option does not fit the model or another option."""
        self.bert_config.check_num_texts(self.num_texts)

    def check_requirements(self):
        if self.bert_config:  # else `with_trained` checks
            super().check_requirements()

    @property
    def tokenizer_settings(self):
        """The arguments of `FullTokenizer` apart from the vocabulary, a dict."""
        return resolve_settings(**{name: getattr(self, name) for name in RELEASE_SETTINGS})

    @functools.cached_property
    def vocab(self):
        """The mapping from piece to id, read once because the file may change later."""
        return self.vocabulary.pieces if self.vocabulary else load_vocab(self.vocab_file)

    @functools.cached_property
    def vocabulary_text(self):
        """The text of the vocabulary file, also read once."""
        return self.vocabulary.text if self.vocabulary else vocabulary_text(self.vocab_file)

    def keep_vocabulary(self):
        """Return a copy with the vocabulary, which no longer needs the file."""
        return dataclasses.replace(self, vocabulary=Vocabulary(self.vocab, self.vocabulary_text))

    def with_model(self, pretrained, **values):
        """Return the config of a model: these options, its `PretrainedFiles`, and other values."""
        values = {**pretrained.tokenizer_settings, **values}
        files = {"bert_config": pretrained.bert_config, "vocab_file": pretrained.vocab_file}
        return self.with_options(**files, **values)

    def with_trained(self, trained=None):
        """Return these options with the values of a trained model, unless given."""
        options = trained.with_options(**self.given_options()) if trained else self
        Config.check_requirements(options)
        return options

    def given_options(self):
        """Return the options that were passed to the constructor, as a dict."""
        return {name: getattr(self, name) for name in hints_of(type(self)) if self.is_given(name)}

    def save(self, folder):
        """Write the side file, `bert_config.json` and `vocab.txt` into a folder, atomically."""
        name = self.FILE or files.TOKENIZER_CONFIG
        texts = {
            files.CONFIG: self.bert_config.to_json_string(),
            files.VOCABULARY: self.vocabulary_text,
            # Written last: if this file exists, so do the others.
            name: json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n",
        }
        files.write_texts({os.path.join(folder, name): text for name, text in texts.items()})

    def to_json(self):
        """Return the values of the side file; omit tokenizer settings with the release's values.

        A named tuple has an entry for each of its values.
        """
        values = {"do_lower_case": self.do_lower_case}
        for field in dataclasses.fields(self):
            name, value = field.name, getattr(self, field.name)
            if self._applies(field) and name not in (*_OF_FILES, *self.UNSAVED, *EXTRA_SETTINGS):
                entries = hasattr(value, "_asdict")
                values |= to_json_value(value) if entries else {name: to_json_value(value)}
        return {**values, **extra_settings(self.tokenizer_settings)}

    @classmethod
    def from_json(cls, values, **others):
        """Return the config for the values of a side file; `others` are additional attributes."""
        read = {}
        for field in dataclasses.fields(cls):
            name, hint = field.name, hints_of(cls)[field.name]
            kind = json_files.unwrap_annotation(hint)[0]
            if name in (*_OF_FILES, *cls.UNSAVED):
                continue
            is_option = field.metadata.get("help") and not field.metadata["requires"]
            if hasattr(kind, "_fields"):
                json_files.check(values, kind)
                read[name] = from_json_value(values, kind)
            elif name in values or (is_option and name not in cls.INFERRED):
                json_files.check(values, {name: hint})
                read[name] = from_json_value(values[name], hint)
        return cls(given=(), **others, **read)

    @classmethod
    def load(cls, folder):
        """Read the config of a run's folder; None if the folder has no side file of this task.

        Raises:
          UserError: if a file is damaged, or was not written by this task's script.
        """
        path = os.path.join(folder, cls.FILE)
        if not cls.FILE or not files.exists(path):
            return None
        script = TASK_CONFIG_FILES[cls.FILE]
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
        for name, script in TASK_CONFIG_FILES.items():
            if name != cls.FILE and files.exists(os.path.join(folder, name)):
                raise UserError(
                    f"`output_dir`: found {name} of a {script} run in {folder}; use another"
                )

    def with_values_of_run(self, folder):
        """Return this config with the values that an earlier run in `folder` fixed."""
        return self

    def fixed_values(self):
        """Return the values that a resumed run must not change, as a dict."""
        fields = dataclasses.fields(self)
        return {
            "bert_config": self.bert_config,
            "vocab_file": self.vocab_file and self.vocabulary_text,
            "labels": self.labels,
            **{x.name: getattr(self, x.name) for x in fields if x.metadata.get("fixed")},
            **self.tokenizer_settings,
        }

    def check_resume(self, folder):
        """Raise UserError if a run in `folder` has different `fixed_values`, such as the model."""
        if (earlier := self.load(folder)) is None:
            return
        new = self.fixed_values()
        for name, old in earlier.fixed_values().items():
            if old == new[name]:
                continue
            is_long = name in ("bert_config", "vocab_file")
            values = "" if is_long else f" ({_value_text(old)}, now {_value_text(new[name])})"
            raise UserError(
                f"`output_dir`: found a run with a different {name}{values} in {folder}; continue "
                "it with the same value, or use another `output_dir`"
            )

    def save_changes(self, folder):
        """Save a new or changed config."""
        earlier = self.load(folder)
        if earlier is None or self.to_json() != earlier.to_json():
            self.save(folder)


def _value_text(value):
    text = ", ".join(value) if type(value) is tuple else value
    return "none" if text in (None, "") else text


def check_labels(labels, argument="labels"):
    """Return label names as a tuple; raise UserError if it is empty or has duplicates."""
    labels = tuple(labels)
    if not labels:
        raise UserError(f"`{argument}`: found no labels, expected at least one")
    for i, label in enumerate(labels):
        if not label or label in labels[:i]:
            names = ", ".join(labels)
            raise UserError(f"`{argument}`: label {i} of {names} is empty or occurs twice")
    return labels


def check_length(max_seq_length, config):
    """Raise UserError if a length exceeds the model's limit or is too short for two texts."""
    longest = config.max_position_embeddings
    if not SHORTEST <= max_seq_length <= longest:
        raise UserError(
            f"`max_seq_length={max_seq_length}`: expected a number between {SHORTEST} and "
            f"{longest}, the model's max_position_embeddings"
        )
