"""What a fine-tuned model is besides its weights.

It lies in the output folder, for export and conversion, and so that a run is not continued on other
labels.
"""

import json
import os
from typing import NamedTuple

import tensorflow as tf

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.errors import UserError, reason
from bert_tf.tasks.numbers import Number


class Settings(NamedTuple):
    """Labels in the order of their ids, lengths and casing, a `BertConfig`, a vocabulary's path.

    `task_type` is a key of `kinds.KINDS`. A regression has no labels. `numbers` are those
    beside the text, `numeric_as` is "vector" or "text".
    """

    labels: tuple
    max_seq_length: int
    do_lower_case: bool
    config: BertConfig
    vocab_file: str
    task_type: str = "classification"
    numbers: tuple = ()
    numeric_as: str = "vector"

    @property
    def num_outputs(self):
        """The number of the model's logits: one for each label, one for a score."""
        return len(self.labels) or 1

    @property
    def vector(self):
        """The numbers that the model takes as such, and not as words."""
        return self.numbers if self.numeric_as == "vector" else ()


# What an error can show.
_SHOWN = ("task_type", "labels", "do_lower_case", "numbers", "numeric_as")


def settle(output_dir, settings, write):
    """Sees that a run goes on with the settings that it began with.

    Args:
      output_dir: the run's folder.
      settings: the `Settings` of the flags and the data.
      write: whether to write them where there are none yet.

    Raises:
      UserError: if the folder has others.
    """
    before = load_settings(output_dir)
    if before is None:
        if write:
            _save_settings(output_dir, settings)
        return
    for name in (*_SHOWN, "config", "vocab_file"):
        old, new = getattr(before, name), getattr(settings, name)
        what = name
        if name == "numbers":
            what, old, new = "numeric_columns", _names(old), _names(new)
        if name == "vocab_file":
            old, new = files.read_text(old), files.read_text(new)
        if old != new:
            shown = f": {_text(old)} there, {_text(new)} now" if name in _SHOWN else ""
            raise UserError(
                f"--output_dir: {output_dir} holds a run with other {what}{shown}; give the same "
                "again, or another --output_dir"
            )


def _text(value):
    return ", ".join(value) or "none" if isinstance(value, (list, tuple)) else value


def as_begun(output_dir, settings):
    """The settings with the numbers normalised as the run in the folder does, if there is one."""
    before = load_settings(output_dir)
    if before is None or _names(before.numbers) != _names(settings.numbers):
        return settings
    return settings._replace(numbers=before.numbers)


def _names(numbers):
    return [number.name for number in numbers]


def _save_settings(output_dir, settings):
    values = {
        "task_type": settings.task_type,
        "labels": list(settings.labels),
        "max_seq_length": settings.max_seq_length,
        "do_lower_case": settings.do_lower_case,
    }
    if settings.numbers:
        values["numeric_as"] = settings.numeric_as
        values["numbers"] = [number._asdict() for number in settings.numbers]
    files.write_text(os.path.join(output_dir, files.CONFIG), settings.config.to_json_string())
    text = files.read_text(settings.vocab_file)
    files.write_text(os.path.join(output_dir, files.VOCABULARY), text)
    text = json.dumps(values, indent=2, ensure_ascii=False) + "\n"
    files.write_text(os.path.join(output_dir, files.CLASSIFIER), text)


def load_settings(output_dir):
    """Reads the `Settings` of the run in a folder; None if it has none."""
    path = os.path.join(output_dir, files.CLASSIFIER)
    if not tf.io.gfile.exists(path):
        return None
    try:
        values = json.loads(files.read_text(path))
        return Settings(
            tuple(values["labels"]),
            values["max_seq_length"],
            values["do_lower_case"],
            BertConfig.from_json_file(os.path.join(output_dir, files.CONFIG)),
            os.path.join(output_dir, files.VOCABULARY),
            # A run of an earlier version could only classify.
            values.get("task_type", "classification"),
            tuple(Number(**number) for number in values.get("numbers", ())),
            values.get("numeric_as", "vector"),
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the settings of a classifier ({reason(error)})") from None
