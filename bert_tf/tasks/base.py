"""The interface of a task for the training loop, `fine_tune`, the scripts and export.

`Task` is the model with its losses and metrics. `TaskConfig` is what a fine-tuned model needs
besides its weights, and is saved next to them. `TaskData` is the data of one run. `TaskSpec` ties
them together; `bert_tf.tasks.TASKS` is the registry of them.
"""

import dataclasses
import importlib
import json
import os
import typing
from collections.abc import Callable
from typing import Any, ClassVar

import tensorflow as tf

from bert_tf import console, files, json_files
from bert_tf.config import BertConfig
from bert_tf.data import records
from bert_tf.errors import UserError
from bert_tf.options import TaskOptions
from bert_tf.tasks.truncation import log_truncated
from bert_tf.tokenization.settings import (
    EXTRA_SETTINGS,
    RELEASE_SETTINGS,
    extra_settings,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import vocabulary_text


class Task:
    """A model with its losses, its predictions and its metrics.

    Subclasses make `model` in their constructor, which runs in the strategy's scope. All methods
    but `on_warm_start` and `metrics` are traced into the training or prediction step: TensorFlow
    operations only, with static shapes except for the sequence length (which is static too on a
    TPU).
    """

    model = None
    loss_names: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()

    def loss_weights(self, batch):
        """Return this batch's share of the denominator of each loss: a dict of float32 scalars.

        The loop sums them over the replicas (and over the parts of a batch with gradient
        accumulation) before it calls `losses`. So a loss is the mean over the global batch however
        unevenly the weights are distributed.
        """
        raise NotImplementedError

    def losses(self, outputs, batch, weights):
        """Return the batch's share of each loss: a dict of float32 scalars by `loss_names`.

        Args:
          outputs: outputs of the model for `batch`, in training.
          batch: dict of tensors (B, ...), B the batch size of one replica.
          weights: the sums of `loss_weights` over the global batch.
        """
        raise NotImplementedError

    def predictions(self, outputs, batch):
        """Return the predictions for a batch: a dict of tensors (B, ...)."""
        raise NotImplementedError

    def on_warm_start(self, loaded):
        """Adapt weights after the initial checkpoint is loaded; `loaded` has their names."""

    def metrics(self, predictions):
        """Return the metrics of a whole split: dict of numpy arrays (N, ...) -> dict of numbers.

        The keys are `metric_names`. Lower is better if "loss" is part of the name, else higher.
        """
        raise NotImplementedError


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
        """Make the config of a run from its `LoadedModel`, its `TaskOptions` and other values."""
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


@dataclasses.dataclass(frozen=True)
class RecordFormat:
    """The format of the records of a split.

    Attributes:
      schema: a schema of `data.records`.
      lengths: dict from the letters of the schema's shapes to sizes.
      limits: upper bounds of the values, as `data.records.limits` returns them.
    """

    schema: dict
    lengths: dict
    limits: dict

    @classmethod
    def of(cls, schema, config, lengths, num_labels=2):
        """Make the format of a schema for a `TaskConfig`, with the bounds of its model."""
        limits = records.limits(schema, config.bert_config, lengths, num_labels)
        return cls(schema, lengths, limits)


class TaskData:
    """The data of one run, read and checked, with their evaluation and prediction.

    A split is named "train", "dev" or "test", or starts with such a name ("dev_mismatched").

    Attributes:
      config: the `TaskConfig` of the run.
      unit: the plural noun for training examples in messages.
      sequence_unit: the plural noun for what is packed into one sequence.
      metric_names: names of the metrics that an evaluation gives.
    """

    unit = "examples"
    sequence_unit = "texts"
    config: TaskConfig
    metric_names: tuple[str, ...] = ()

    def splits(self, part):
        """Return the names of the splits of "train", "dev" or "test" that were read."""
        raise NotImplementedError

    def train_config(self, config):
        """Return the `training.TrainConfig` to train with, for a `training.FineTuneConfig`."""
        return config.train

    def features(self, split, path, tokenizer, teacher=None):
        """Return the `FeatureCache` of a split.

        Args:
          split: one of `splits`.
          path: of the TFRecord file.
          tokenizer: a `FullTokenizer`.
          teacher: a `training.Teacher` whose logits are added, or None.
        """
        raise NotImplementedError

    def log_truncated(self, split, features):
        """Log how many texts of a split are truncated, if its `FeatureCache` has counted them."""
        if counts := (features.metadata or {}).get("lengths"):
            config = self.config
            limits = config.max_seq_length, config.bert_config.max_position_embeddings
            log_truncated(split, counts, *limits, self.truncation_advice(), self.sequence_unit)

    def truncation_advice(self):
        """Return an option and its value that reads all of a long text, or "" without one."""
        return ""

    def count(self, split, features):
        """Return the number of records of a split with this `FeatureCache`, None if unknown."""
        raise NotImplementedError

    def num_train_units(self, features):
        """Return the number of training examples that an epoch has; see `count`."""
        return self.count(self.splits("train")[0], features)

    def record_format(self, split, with_teacher=False):
        """Return the `RecordFormat` of a split; `with_teacher` if it has logits of a teacher."""
        raise NotImplementedError

    def make_task(self, dtype=None, distillation=None):
        """Make the `Task`, in the strategy's scope.

        Args:
          dtype: a Keras dtype policy.
          distillation: a `DistillationConfig` if the model learns from a teacher.
        """
        raise NotImplementedError

    def evaluate(self, run, split):
        """Evaluate a split and write its result files.

        Args:
          run: the `training.fine_tuning.Run`, with its trainer, folder and batches.
          split: one of the "dev" splits.

        Returns:
          Dict of metrics, with `global_step`.
        """
        raise NotImplementedError

    def predict(self, run, split):
        """Predict a split and write its result files; arguments as for `evaluate`."""
        raise NotImplementedError

    def evaluate_and_predict(self, run):
        """Evaluate and predict as the config of the run specifies.

        Returns a dict from each evaluated split to its metrics.
        """
        splits = self.splits("dev") if run.config.do_eval else ()
        results = {split: self.evaluate(run, split) for split in splits}
        for split in self.splits("test") if run.config.do_predict else ():
            self.predict(run, split)
        return results


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """Everything that `fine_tune`, the scripts, the feature cache and export need of a task.

    Attributes:
      name: of the task, such as "question_answering".
      script: the script that trains it.
      options_class: its `TaskOptions`.
      config_class: its `TaskConfig`.
      read: function from (options, model, parts, stored) to `TaskData`, where `options` are
        completed `options_class`, `model` is a `training.fine_tuning.LoadedModel`, `parts` the
        set of "train", "dev" and "test" that are needed, and `stored` the `TaskConfig` of a
        trained run, or None.
      make_model: function from (config, dtype) to the Keras model.
      servable: "module:function" that makes a `serving.Servable` of (model, config, options). It is
        imported only when a model is exported.
      can_distill: whether the task can learn from a teacher.
    """

    name: str
    script: str
    options_class: type[TaskOptions]
    config_class: type[TaskConfig]
    read: Callable[..., TaskData]
    make_model: Callable[..., Any]
    servable: str
    can_distill: bool = False

    def make_servable(self, model, config, options):
        """Make the `serving.Servable` of a trained model; see `servable`."""
        module, _, function = self.servable.partition(":")
        return getattr(importlib.import_module(module), function)(model, config, options)


def part_of(split):
    """Return the part that a split belongs to: "dev" for "dev_mismatched"."""
    return split.partition("_")[0]


def result_name(stem, split, ending):
    """Return the name of a split's file: ("eval_results", "dev_mismatched", ".txt") ->
    "eval_results_mismatched.txt".
    """
    return f"{stem}{split.removeprefix(part_of(split))}{ending}"


def result_file(folder, stem, split, ending):
    """Return the path of a split's file in a folder; see `result_name`."""
    return os.path.join(folder, result_name(stem, split, ending))


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


def check_vocabulary(vocab, config, vocab_file):
    """Raise UserError if the vocabulary has ids that the model has no embedding for.

    A smaller vocabulary only gives a warning, because tables are sometimes rounded up. But it may
    belong to a different model, cased instead of uncased, and nothing else would reveal that.
    """
    needed = max(vocab.values()) + 1
    if needed > config.vocab_size:
        raise UserError(
            f"`vocab_file`: {vocab_file} has {needed} entries, but the model's vocab_size is "
            f"{config.vocab_size}"
        )
    if needed < config.vocab_size:
        console.warning(
            "%s has %d entries, but the model's word table has %d: check that it is the vocabulary "
            "of this model",
            vocab_file, needed, config.vocab_size,
        )  # fmt: skip
