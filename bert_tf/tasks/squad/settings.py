"""What a model that finds answers is besides its weights; it lies in the run's folder."""

import dataclasses
import json
import os
from typing import NamedTuple

import tensorflow as tf

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.errors import UserError, reason
from bert_tf.tasks.squad.answers import Choice
from bert_tf.tasks.squad.features import Cut


class SpanSettings(NamedTuple):
    """How texts are cut and answers chosen, casing, a `BertConfig`, a vocabulary's path."""

    cut: Cut
    choice: Choice
    do_lower_case: bool
    config: BertConfig
    vocab_file: str

    def flags(self):
        """The values as the flags of run_squad.py name them."""
        return {
            **dataclasses.asdict(self.cut),
            **dataclasses.asdict(self.choice),
            "do_lower_case": self.do_lower_case,
        }


def settle_spans(output_dir, settings, write):
    """Sees that a run goes on with the model and the vocabulary that it began with.

    Args:
      output_dir: the run's folder.
      settings: the `SpanSettings` of the flags.
      write: whether to keep them there. How texts are cut may change, and the last one stays.

    Raises:
      UserError: if the folder has another model, vocabulary or casing.
    """
    before = load_spans(output_dir)
    for name in ("do_lower_case", "config", "vocab_file") if before else ():
        old, new = getattr(before, name), getattr(settings, name)
        if name == "vocab_file":
            old, new = files.read_text(old), files.read_text(new)
        if old != new:
            shown = f": {old} there, {new} now" if name == "do_lower_case" else ""
            raise UserError(
                f"--output_dir: {output_dir} holds a run with another {name}{shown}; give the same "
                "again, or another --output_dir"
            )
    if write and settings != before:
        save_spans(output_dir, settings)


def save_spans(output_dir, settings):
    """Writes `SpanSettings` into a folder."""
    files.write_text(os.path.join(output_dir, files.CONFIG), settings.config.to_json_string())
    text = files.read_text(settings.vocab_file)
    files.write_text(os.path.join(output_dir, files.VOCABULARY), text)
    text = json.dumps(settings.flags(), indent=2) + "\n"
    files.write_text(os.path.join(output_dir, files.SPANS), text)


def load_spans(output_dir):
    """Reads the `SpanSettings` of the run in a folder; None if it has none."""
    path = os.path.join(output_dir, files.SPANS)
    if not tf.io.gfile.exists(path):
        return None
    try:
        values = json.loads(files.read_text(path))

        def made(kind):
            return kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})

        return SpanSettings(
            made(Cut),
            made(Choice),
            values["do_lower_case"],
            BertConfig.from_json_file(os.path.join(output_dir, files.CONFIG)),
            os.path.join(output_dir, files.VOCABULARY),
        )
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not the settings of run_squad.py ({reason(error)})") from None
