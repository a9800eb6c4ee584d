"""The options of classification and regression."""

import dataclasses
from typing import Annotated, NamedTuple

from bert_tf.configs.base import option
from bert_tf.configs.task import TableOptions, TaskConfig, TfdsOptions, check_labels
from bert_tf.errors import UserError
from bert_tf.io.json_files import Count, Finite, Fraction, Limits, Positive


class DevSplit(NamedTuple):
    """Training rows held out for evaluation; `digest`, "" until they are read, detects changes."""

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassificationData(TfdsOptions, TableOptions):
    """Data of the task: classification and regression."""

    data_dir: str | None = option(
        None, "Folder with the files of the task: train.tsv, dev.tsv and test.tsv."
    )
    task_name: str | None = option(
        None,
        "Name of the task: cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-matched, mnli-mismatched, "
        "qnli, rte, wnli, ax, xnli, or tsv for custom files.",
    )
    processor: str | None = option(
        None,
        "MODULE:CLASS of a DataProcessor as in the release, instead of task_name; the module may "
        "be in the current folder.",
    )
    xnli_language: str = option("zh", "Language of XNLI.")
    text_columns: tuple[str, ...] = option(
        (), "One or two columns of texts, by name or by number from 0."
    )
    label_column: tuple[str, ...] = option(
        (),
        "Column of the label, or a column for each label, of 0 and 1 (multi_label) or of "
        "probabilities.",
    )
    label_separator: str = option(",", "Separator between the labels in a cell.")
    header: str = option(
        "auto",
        "Whether the first line of a delimited or Excel file names the columns. Default: yes if it "
        "has a known name, no if the columns are given by number, else an error.",
        choices=("auto", "yes", "no"),
    )
    numeric_columns: tuple[str, ...] = option(
        (), "Columns of numeric features, by name or by number from 0."
    )
    dev_fraction: Fraction | None = option(
        None,
        "Fraction of the training rows to hold out for evaluation, stratified by label, instead of "
        "dev_file.",
        excludes=("dev_file",),
    )
    dev_seed: Annotated[int, Limits(0, 2**32 - 1)] = option(
        0, "Random seed for the held-out rows, independent of the training seed."
    )
    class_weights: tuple[str, ...] = option(
        (),
        "Label weights in the training loss: balanced, or a number per label in the order of their "
        "ids.",
    )
    report: bool = option(
        False, "Write eval_report.txt, with scores per label and the confusion matrix."
    )


class TrainedOn(NamedTuple):
    """The training set of a model.

    Attributes:
      columns: dict from each column option to its value, from the user or from the header.
      dev_split: the `DevSplit` of the held-out rows, or None.
    """

    columns: dict = {}  # noqa: RUF012
    dev_split: DevSplit | None = None


@dataclasses.dataclass(frozen=True)
class ClassificationConfig(TaskConfig):
    """Options of the task: classification and regression, saved in `classifier.json`.

    Attributes:
      numeric_features: the `NumericFeature`s of an example.
      num_texts: 2 if the training set has pairs, else 1.
      trained_on: the `TrainedOn` of a model that was trained by a script.
    """

    FILE = "classifier.json"
    INFERRED = ("labels", "task_type", "numeric_as")

    labels: tuple[str, ...] = option(
        (), "Labels in the order of their ids. Default: found in the training set.", fixed=True
    )
    task_type: str = option(
        "classification",
        "Type of the task in custom files: one label per text (classification), a score "
        "(regression), or any number of labels (multi_label).",
        choices=("classification", "regression", "multi_label"),
        fixed=True,
    )
    numeric_as: str = option(
        "vector",
        "How to use numeric features: vector normalizes them and concatenates them with the pooled "
        "output; text puts them before the text as words.",
        choices=("vector", "text"),
        fixed=True,
    )
    long_documents: str = option(
        "truncate",
        "How to process texts longer than max_seq_length: truncate them, as in the release, or "
        "split them into overlapping windows and pool the logits.",
        choices=("truncate", "windows"),
        fixed=True,
    )
    doc_stride: Positive | None = option(
        None,
        "Stride between windows, in tokens. Default: half a window.",
        requires=("long_documents", "windows"),
    )
    window_pooling: str = option(
        "mean",
        "How to pool the logits of a text's windows.",
        choices=("mean", "max"),
        fixed=True,
        requires=("long_documents", "windows"),
    )
    max_windows: Positive = option(
        16,
        "Maximum number of windows per text; longer texts are truncated.",
        requires=("long_documents", "windows"),
    )
    numeric_features: tuple[NumericFeature, ...] = ()
    num_texts: Annotated[int, Limits(choices=(1, 2))] = 2
    trained_on: TrainedOn = dataclasses.field(default_factory=TrainedOn)

    @property
    def windows(self):
        """The `DocumentWindows` of long texts; None if texts are truncated."""
        if self.long_documents != "windows":
            return None
        # Imports NumPy, which would slow down `--help`.
        from bert_tf.tokenization.packing import DocumentWindows

        stride = self.doc_stride or (self.max_seq_length - 2) // 2
        return DocumentWindows(self.max_seq_length, stride, self.max_windows, self.window_pooling)

    def validate(self):
        super().validate()
        if self.labels:
            check_labels(self.labels)

    def validate_model(self):
        super().validate_model()
        if self.num_texts == 2 and self.windows:
            found = "found pairs of texts, expected single texts; pairs can only be truncated"
            raise UserError(f"`long_documents=windows`: {found}")

    @property
    def num_outputs(self):
        """The number of logits of the model: one per label, or one for a score."""
        return len(self.labels) or 1

    @property
    def numeric_inputs(self):
        """The numeric features that are an input of the model, not part of the text."""
        return self.numeric_features if self.numeric_as == "vector" else ()

    @property
    def numeric_names(self):
        return tuple(x.name for x in self.numeric_features)

    def fixed_values(self):
        # The columns first, because without them another option differs, too.
        columns = {"numeric_columns": self.numeric_names}
        return {**columns, **super().fixed_values(), "dev_split": self.trained_on.dev_split}

    def with_values_of_run(self, folder):
        """Use the scale of the numeric features from the run in `folder`."""
        earlier = self.load(folder)
        if earlier is None or earlier.numeric_names != self.numeric_names:
            return self
        return dataclasses.replace(self, numeric_features=earlier.numeric_features)
