"""What a fine-tuned classifier is besides its weights."""

import dataclasses
from typing import Any

from bert_tf import files
from bert_tf.tasks.base import TaskConfig, check_labels
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
        config = super().of_pretrained(bert_config, vocab_file, do_lower_case, **options)
        if config.task_type == "regression":
            return config
        return dataclasses.replace(config, labels=check_labels(labels))

    def resumed(self, folder):
        """Normalize numbers as the run in the folder does, if it has the same columns."""
        stored = self.load(folder)
        if stored is None or stored.numeric_columns != self.numeric_columns:
            return self
        return dataclasses.replace(self, numeric_features=stored.numeric_features)
