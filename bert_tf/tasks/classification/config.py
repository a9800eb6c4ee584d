"""The configuration of a fine-tuned classifier, and the options of its training."""

import dataclasses
from typing import Any

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tasks.base import TaskConfig, TaskOptions, check_labels
from bert_tf.tasks.classification.examples import NumericFeature


@dataclasses.dataclass(frozen=True)
class ClassificationConfig(TaskConfig):
    """The configuration of a model of one of the `task.TASK_CLASSES`, in `classifier.json`.

    Attributes:
      labels: in the order of their ids; () for regression.
      task_type: a key of `task.TASK_CLASSES`.
      numeric_features: the `NumericFeature`s of an example.
      numeric_as: "vector" if they are concatenated with the pooled output, "text" if they are
        written before the text as words.
      num_texts: 2 if the training set has pairs, else 1.
    """

    FILE = files.CLASSIFIER
    FIXED = ("task_type", "labels", "numeric_columns", "numeric_as")

    labels: tuple = ()
    task_type: str = "classification"
    numeric_features: tuple = ()
    numeric_as: str = "vector"
    num_texts: int = 2

    @property
    def num_outputs(self):
        """The number of the model's logits: one for each label, or one for a score."""
        return len(self.labels) or 1

    @property
    def numeric_inputs(self):
        """The numeric features that the model takes as numbers."""
        return self.numeric_features if self.numeric_as == "vector" else ()

    @property
    def numeric_columns(self):
        """The names of the numeric features."""
        return [feature.name for feature in self.numeric_features]

    def to_json(self):
        values: dict[str, Any] = {
            "task_type": self.task_type,
            "labels": list(self.labels),
            "max_seq_length": self.max_seq_length,
            "do_lower_case": self.do_lower_case,
            "num_texts": self.num_texts,
        }
        if self.numeric_features:
            values["numeric_as"] = self.numeric_as
            values["numbers"] = [feature._asdict() for feature in self.numeric_features]
        return values

    @classmethod
    def from_json(cls, values, bert_config, vocab_file):
        return cls(
            bert_config,
            vocab_file,
            values["do_lower_case"],
            values["max_seq_length"],
            tuple(values["labels"]),
            # Before there were other task types.
            values.get("task_type", "classification"),
            tuple(NumericFeature(**feature) for feature in values.get("numbers", ())),
            values.get("numeric_as", "vector"),
            values.get("num_texts", 2),
        )

    @classmethod
    def of_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
        is_scored = options.get("task_type") == "regression"
        names = () if is_scored else check_labels(labels)
        return super().of_pretrained(
            bert_config,
            vocab_file,
            do_lower_case,
            **options,
            **({"labels": names} if names else {}),
        )

    def resumed(self, folder):
        """Normalize numbers as the run in the folder does, if it has the same columns."""
        stored = self.load(folder)
        if stored is None or stored.numeric_columns != self.numeric_columns:
            return self
        return dataclasses.replace(self, numeric_features=stored.numeric_features)


@dataclasses.dataclass(frozen=True)
class ClassificationOptions(TaskOptions):
    """The options of a classifier: its data, and how to learn from them.

    Attributes:
      data_dir: folder with the files of the task.
      task_name: a task of `glue.TASKS`, "tsv" for other files.
      xnli_language: language of XNLI.
      train_file, dev_file, test_file: files outside `data_dir`, or under other names.
      task_type: a key of `task.TASK_CLASSES`, for custom files.
      text_columns: one or two columns, by name or by number from 0.
      label_column: column of the label; several with 0 and 1 for multi-label tasks.
      id_column: column that identifies predictions.
      labels: in the order of their ids; those of the training set if empty.
      label_separator: separates the labels of one cell.
      header: "auto", "yes" or "no".
      numeric_columns: columns of numbers.
      numeric_as: "vector" or "text".
      skip_bad_rows: leave out rows that cannot be used instead of raising an error.
      tfds_name, tfds_data_dir, tfds_splits: a dataset of tensorflow-datasets instead of files.
      class_weights: ("balanced",), or a loss weight for each label.
      report: write each label's scores to eval_report.txt.
      glue_submission: folder for predictions in the form of GLUE's leaderboard.
    """

    data_dir: str | None = None
    task_name: str | None = None
    xnli_language: str = "zh"
    train_file: str | None = None
    dev_file: str | None = None
    test_file: str | None = None
    task_type: str | None = None
    text_columns: tuple = ()
    label_column: tuple = ()
    id_column: str | None = None
    labels: tuple = ()
    label_separator: str = ","
    header: str = "auto"
    numeric_columns: tuple = ()
    numeric_as: str | None = None
    skip_bad_rows: bool = False
    tfds_name: str | None = None
    tfds_data_dir: str | None = None
    tfds_splits: tuple = ()
    class_weights: tuple = ()
    report: bool = False
    glue_submission: str | None = None

    def check(self, config):
        if self.glue_submission and config.num_seeds > 1:
            raise UserError("`glue_submission` requires the predictions of one run, `num_seeds=1`")
        distillation = config.distillation
        if self.class_weights and distillation and distillation.weight == 1:
            raise UserError(
                "`class_weights` has no effect where the labels have no share of the loss: use a "
                "`teacher_weight` below 1"
            )
        if self.class_weights and not config.do_train:
            console.warning("`class_weights` has no effect without `do_train`")
