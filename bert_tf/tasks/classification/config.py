"""What a fine-tuned classifier is besides its weights."""

import dataclasses
from typing import Any

from bert_tf import console
from bert_tf.io.json_files import NUMBER, OBJECT, TEXT, array, choice, integer, optional, record
from bert_tf.tasks.classification import SPEC
from bert_tf.tasks.classification.examples import DevSplit, NumericFeature, ScoreScale
from bert_tf.tokenization.packing import DocumentWindows
from bert_tf.training.task_config import TaskConfig, check_labels


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
      columns: the options of `ClassificationOptions` that name the columns of the training file,
        as far as they were given or its header has them.
      dev_split: the `DevSplit` of the rows held out of the training set, None if there are none.
      scores: the `ScoreScale` by which the logits of a regression are standardised, None if they
        are scores. In checkpoints outside of the run's folder they always are; see
        `checkpoints.open_checkpoint`.
      long_documents: "truncate", or "windows" if long texts are read in overlapping windows.
      doc_stride: tokens from the start of one window to that of the next, None for half a window.
      window_pooling: "mean" or "max" of the logits of the windows.
      max_windows: the largest number of windows of a text.
    """

    FILE = SPEC.side_file
    FIXED = ("task_type", "labels", "numeric_columns", "numeric_as", "dev_rows", "long_documents",
             "window_pooling")  # fmt: skip
    OPTIONS = ("do_lower_case", "max_seq_length", "long_documents")
    # Options that require windows.
    WINDOW_OPTIONS = ("doc_stride", "window_pooling", "max_windows")

    labels: tuple = ()
    task_type: str = "classification"
    numeric_features: tuple = ()
    numeric_as: str = "vector"
    num_texts: int = 2
    columns: dict = dataclasses.field(default_factory=dict)
    dev_split: DevSplit | None = None
    scores: ScoreScale | None = None
    long_documents: str = "truncate"
    doc_stride: int | None = None
    window_pooling: str = "mean"
    max_windows: int = 16

    @property
    def windows(self):
        """The `DocumentWindows` of long texts, None if they are truncated."""
        if self.long_documents != "windows":
            return None
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

    @property
    def numeric_columns(self):
        """The names of the numeric features."""
        return [feature.name for feature in self.numeric_features]

    @property
    def dev_rows(self):
        """The rows held out of the training set, as text for messages."""
        return str(self.dev_split or "none")

    def recorded_options(self):
        names = self.WINDOW_OPTIONS if self.windows else ()
        return {**super().recorded_options(), **{name: getattr(self, name) for name in names}}

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
        if self.columns:
            values["columns"] = {
                name: list(value) if isinstance(value, tuple) else value
                for name, value in self.columns.items()
            }
        if self.dev_split:
            values["dev_split"] = self.dev_split._asdict()
        if self.scores:
            values["scores"] = self.scores._asdict()
        if self.windows:
            names = ("long_documents", *self.WINDOW_OPTIONS)
            values |= {name: getattr(self, name) for name in names}
        return values

    @classmethod
    def json_fields(cls):
        fields = super().json_fields()
        del fields["long_documents"]
        return {
            **fields,
            "labels": array(TEXT),
            "task_type?": choice("classification", "multi_label", "regression"),
            "num_texts?": choice(1, 2),
            "numeric_as?": choice("vector", "text"),
            "numbers?": array(record({"name": TEXT, "mean": NUMBER, "deviation": NUMBER})),
            "columns?": OBJECT,
            "dev_split?": record({"fraction": NUMBER, "seed?": integer(0), "digest?": TEXT}),
            "scores?": record({"mean": NUMBER, "deviation": NUMBER}),
            "long_documents?": choice("truncate", "windows"),
            "doc_stride?": optional(integer(1)),
            "window_pooling?": choice("mean", "max"),
            "max_windows?": integer(1),
        }

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
            tuple(_of(NumericFeature, feature) for feature in values.get("numbers", ())),
            values.get("numeric_as", "vector"),
            values.get("num_texts", 2),
            {
                name: tuple(value) if isinstance(value, list) else value
                for name, value in values.get("columns", {}).items()
            },
            _of(DevSplit, values["dev_split"]) if "dev_split" in values else None,
            # Before scores were standardised.
            _of(ScoreScale, values["scores"]) if "scores" in values else None,
            **{
                name: values[name]
                for name in ("long_documents", *cls.WINDOW_OPTIONS)
                if name in values
            },
        )

    @classmethod
    def of_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
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


def _of(named_tuple, values):
    """Make a NamedTuple of those values of a dict that it has fields for."""
    return named_tuple(**{name: values[name] for name in named_tuple._fields if name in values})
