"""What a fine-tuned classifier is besides its weights."""

from typing import NamedTuple

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.tasks import kept_settings
from bert_tf.tasks.numbers import Number


class Settings(NamedTuple):
    """Labels in the order of their ids, lengths and casing, a `BertConfig`, a vocabulary's path.

    `task_type` is a key of `kinds.TASK_CLASSES`. A regression has no labels. `numbers` are those
    beside the text, `numeric_as` is "vector" or "text". `num_texts` is 1 if no example is a pair.
    """

    labels: tuple
    max_seq_length: int
    do_lower_case: bool
    config: BertConfig
    vocab_file: str
    task_type: str = "classification"
    numbers: tuple = ()
    numeric_as: str = "vector"
    num_texts: int = 2

    @property
    def num_outputs(self):
        """The number of the model's logits: one for each label, one for a score."""
        return len(self.labels) or 1

    @property
    def vector(self):
        """The numbers that the model takes as such, and not as words."""
        return self.numbers if self.numeric_as == "vector" else ()

    @property
    def numeric_columns(self):
        """The names of the numbers."""
        return [number.name for number in self.numbers]

    def flags(self):
        """The values that flags of run_classifier.py have, by their names."""
        return {"do_lower_case": self.do_lower_case, "max_seq_length": self.max_seq_length}


def settle(output_dir, settings, write):
    """Sees that a run goes on with the settings that it began with.

    Args:
      output_dir: the run's folder.
      settings: the `Settings` of the flags and the data.
      write: whether to write them, if they are not there.

    Raises:
      UserError: if the folder has others.
    """
    before = load_settings(output_dir)
    if before:
        shown = ("task_type", "labels", "numeric_columns", "numeric_as")
        kept_settings.check_same(output_dir, before, settings, shown)
    if write and (before is None or settings.flags() != before.flags()):
        values = {
            "task_type": settings.task_type,
            "labels": list(settings.labels),
            "max_seq_length": settings.max_seq_length,
            "do_lower_case": settings.do_lower_case,
            "num_texts": settings.num_texts,
        }
        if settings.numbers:
            values["numeric_as"] = settings.numeric_as
            values["numbers"] = [number._asdict() for number in settings.numbers]
        kept_settings.save(output_dir, files.CLASSIFIER, settings, values)


def with_stored_normalization(output_dir, settings):
    """The settings with the numbers normalised as the run in the folder does, if there is one."""
    before = load_settings(output_dir)
    if before is None or before.numeric_columns != settings.numeric_columns:
        return settings
    return settings._replace(numbers=before.numbers)


def load_settings(output_dir):
    """Reads the `Settings` of the run in a folder; None if it has none."""

    def make(values, config, vocab_file):
        return Settings(
            tuple(values["labels"]),
            values["max_seq_length"],
            values["do_lower_case"],
            config,
            vocab_file,
            # A run of an earlier version could only classify.
            values.get("task_type", "classification"),
            tuple(Number(**number) for number in values.get("numbers", ())),
            values.get("numeric_as", "vector"),
            values.get("num_texts", 2),
        )

    return kept_settings.load(output_dir, files.CLASSIFIER, make)
