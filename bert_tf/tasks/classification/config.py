"""The configuration of classification and regression."""

import dataclasses
from typing import Any, NamedTuple

from bert_tf import console
from bert_tf.configs.data_files import FileOptions, TfdsOptions
from bert_tf.configs.model import BertConfig
from bert_tf.configs.options import fact, option
from bert_tf.errors import UserError
from bert_tf.io import json_files
from bert_tf.io.json_files import Count, Finite
from bert_tf.tasks.classification import SPEC
from bert_tf.training.task_config import TaskConfig, check_labels


class DevSplit(NamedTuple):
    """Rows of the training set that are held out for evaluation.

    Attributes:
      fraction: their share.
      seed: of their choice.
      digest: of the rows, to recognise a training set that has changed; "" before it is read.
    """

    fraction: Finite
    seed: Count = 0
    digest: str = ""

    def __str__(self):
        return f"{self.fraction:g} with seed {self.seed} (rows {self.digest[:8]})"


class NumericFeature(NamedTuple):
    """A column of numbers, and their mean and standard deviation in the training set."""

    name: str
    mean: Finite
    deviation: Finite


class ScoreScale(NamedTuple):
    """The mean and standard deviation of the scores of a training set."""

    mean: Finite
    deviation: Finite


@dataclasses.dataclass(frozen=True)
class ClassificationConfig(FileOptions, TfdsOptions, TaskConfig):
    """The configuration of classification; that of its model is in `classifier.json`.

    Attributes:
      numeric_features: the `NumericFeature`s of an example.
      num_texts: 2 if the training set has pairs, else 1.
      columns: the options that name the columns of the training file, as far as they were given or
        its header has them.
      dev_split: the `DevSplit` of the rows held out of the training set, None if there are none.
      scores: the `ScoreScale` by which the logits of a regression are standardised, None if they
        are scores. In checkpoints outside of the run's folder they always are; see
        `checkpoints.open_checkpoint`.
    """

    GROUPS = (
        ("Columns and labels", "text_columns label_column id_column labels label_separator"),
        ("Columns and labels", "header delimiter numeric_columns numeric_as"),
        ("Sequences", "long_documents window_pooling max_windows"),
        ("Training", "class_weights standardize_scores"),
        ("Evaluation and prediction", "report glue_submission"),
    )
    FILE = SPEC.side_file

    data_dir: str | None = option(
        None, "Folder with the files of the task: train.tsv, dev.tsv and test.tsv."
    )
    task_name: str | None = option(
        None,
        "Task: cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-matched, mnli-mismatched, qnli, rte, "
        "wnli, ax, xnli, or tsv for other files.",
    )
    processor: str | None = option(
        None,
        "MODULE:CLASS of a DataProcessor as users of the release write it, instead of task_name; "
        "modules in the current folder are found. (bert_tf)",
    )
    xnli_language: str = option("zh", "Language of XNLI. (bert_tf)")
    task_type: str | None = option(
        None,
        "What to learn from custom files: one of the labels, a score, or any number of the labels; "
        "classification if not given. (bert_tf)",
        choices=("classification", "regression", "multi_label"),
        saved=True,
        fixed=True,
        inferred=True,
    )
    text_columns: tuple[str, ...] = option(
        (), "Column of the text, or of both texts, by name or by number from 0. (bert_tf)"
    )
    label_column: tuple[str, ...] = option(
        (), "Column of the label, or with multi_label a column of 0 and 1 for each label. (bert_tf)"
    )
    id_column: str | None = option(None, "Column that identifies predictions. (bert_tf)")
    labels: tuple[str, ...] = option(
        (),
        "Labels in the order of their ids; those of the training set if not given. (bert_tf)",
        saved=True,
        fixed=True,
        inferred=True,
    )
    label_separator: str = option(",", "Separator of the labels of one cell. (bert_tf)")
    header: str = option(
        "auto", "Whether the first line names the columns. (bert_tf)", choices=("auto", "yes", "no")
    )
    delimiter: str | None = option(
        None,
        "Character between the columns of custom files: comma, semicolon, tab, pipe, or another "
        "character; found if not given. (bert_tf)",
    )
    numeric_columns: tuple[str, ...] = option(
        (), "Columns of numeric features, by name or by number from 0. (bert_tf)", fixed=True
    )
    numeric_as: str | None = option(
        None,
        "vector concatenates numeric features with the pooled output, normalized by the training "
        "set; text writes them before the text as words. vector if not given. (bert_tf)",
        choices=("vector", "text"),
        saved=True,
        fixed=True,
        inferred=True,
    )
    dev_fraction: float | None = option(
        None,
        "Share of the training rows to hold out of training and evaluate on, with their labels in "
        "proportion, instead of a development set. (bert_tf)",
        minimum=0.0,
        maximum=1.0,
    )
    dev_seed: int = option(
        0,
        "Seed of the choice of those rows, which is the same for every seed of training. (bert_tf)",
        minimum=0,
        maximum=2**32 - 1,
    )
    standardize_scores: bool = option(
        True,
        "Learn scores standardised by the mean and deviation of the training set; predictions and "
        "metrics have the units of the data. A resumed run keeps its choice. (bert_tf)",
    )
    long_documents: str = option(
        "truncate",
        "What to do with texts of more than max_seq_length tokens: truncate them as in the "
        "release, or read overlapping windows and pool their logits. (bert_tf)",
        choices=("truncate", "windows"),
        saved=True,
        fixed=True,
    )
    doc_stride: int | None = option(
        None,
        "Tokens between the starts of two windows, half a window if not given. (bert_tf)",
        minimum=1,
        saved=True,
        requires=("long_documents", "windows"),
    )
    window_pooling: str = option(
        "mean",
        "Whether the logits of a text are the mean or the maximum of those of its windows. "
        "(bert_tf)",
        choices=("mean", "max"),
        saved=True,
        fixed=True,
        requires=("long_documents", "windows"),
    )
    max_windows: int = option(
        16,
        "Maximum number of windows of a text; the rest is left out. (bert_tf)",
        minimum=1,
        saved=True,
        requires=("long_documents", "windows"),
    )
    skip_bad_rows: bool = option(False, "Leave out rows that cannot be used. (bert_tf)")
    class_weights: tuple[str, ...] = option(
        (),
        "Loss weight of each label in training: balanced, or a number for each label in the order "
        "of their ids. (bert_tf)",
    )
    report: bool = option(
        False, "Write eval_report.txt with each label's scores and confusions. (bert_tf)"
    )
    glue_submission: str | None = option(
        None,
        "Folder for predictions in the form of GLUE's leaderboard, with a zip of them all. "
        "(bert_tf)",
    )
    numeric_features: tuple[NumericFeature, ...] = fact((), saved=True, inferred=True)
    num_texts: int = fact(2, choices=(1, 2), saved=True, inferred=True)
    columns: dict = fact(None, saved=True, inferred=True)
    dev_split: DevSplit | None = fact(None, saved=True, fixed=True, inferred=True)
    scores: ScoreScale | None = fact(None, saved=True, inferred=True)

    def __post_init__(self):
        super().__post_init__()
        values: dict[str, Any] = {"columns": {} if self.columns is None else self.columns}
        if isinstance(self.bert_config, BertConfig):
            values["task_type"] = self.task_type or "classification"
            values["numeric_as"] = self.numeric_as or "vector"
            values["numeric_columns"] = tuple(x.name for x in self.numeric_features)
        vars(self).update(values)

    @property
    def windows(self):
        """The `DocumentWindows` of long texts, None if they are truncated."""
        if self.long_documents != "windows":
            return None
        # It imports NumPy, for which `--help` does not wait.
        from bert_tf.tokenization.packing import DocumentWindows

        stride = self.doc_stride or (self.max_seq_length - 2) // 2
        return DocumentWindows(self.max_seq_length, stride, self.max_windows, self.window_pooling)

    @property
    def num_outputs(self):
        """The number of the model's logits: one for each label, or one for a score."""
        return len(self.labels) or 1

    @property
    def numeric_inputs(self):
        """The numeric features that the model takes as numbers."""
        return self.numeric_features if self.numeric_as == "vector" else ()

    def check(self, config, is_resumed):
        if self.labels:
            check_labels(self.labels)
        if self.dev_fraction is not None and self.dev_file:
            raise UserError("`dev_fraction` cannot be combined with `dev_file`")
        if self.dev_fraction is not None and not 0 < self.dev_fraction < 1:
            raise UserError(f"`dev_fraction={self.dev_fraction:g}`: expected more than 0, below 1")
        if self.glue_submission and config.num_seeds > 1:
            raise UserError("`glue_submission` requires the predictions of one run, `num_seeds=1`")
        if self.class_weights and config.teacher_dir and config.teacher_weight == 1:
            raise UserError(
                "`class_weights` has no effect where the labels have no share of the loss: use a "
                "`teacher_weight` below 1"
            )
        if self.class_weights and not config.do_train:
            console.warning("`class_weights` has no effect without `do_train`")

    def to_json(self):
        values = super().to_json()
        if not self.windows:
            del values["long_documents"]
        # The name of version 0.1.
        values["numbers"] = values.pop("numeric_features")
        if not values["numbers"]:
            del values["numeric_as"]
        for name in ("numbers", "columns", "dev_split", "scores"):
            if not values[name]:
                del values[name]
        return values

    @classmethod
    def from_json(cls, values, **others):
        json_files.check(values, {"labels": list[str]})
        # Files of version 0.1 lack what had no other value.
        values = {"long_documents": "truncate", **values}
        if "numbers" in values:
            values["numeric_features"] = values.pop("numbers")
        return super().from_json(values, **others)

    @classmethod
    def of_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
        if options.get("num_texts") is None:
            options["num_texts"] = min(2, bert_config.type_vocab_size)
        config = super().of_pretrained(bert_config, vocab_file, do_lower_case, **options)
        if config.task_type == "regression":
            return config
        return dataclasses.replace(config, labels=check_labels(labels))

    def resumed(self, folder):
        """Scale scores, and numbers of the same columns, as the run in the folder does."""
        stored = self.load(folder)
        if stored is None:
            return self
        changes: dict[str, Any] = {}
        if stored.scores != self.scores:
            changes["scores"] = stored.scores
            scale = " and ".join(f"{value:.4g}" for value in stored.scores or ()) or "none"
            console.info(
                "the run in %s keeps its mean and standard deviation of the scores: %s",
                folder, scale,
            )  # fmt: skip
        if stored.numeric_columns == self.numeric_columns:
            changes["numeric_features"] = stored.numeric_features
        return dataclasses.replace(self, **changes) if changes else self
