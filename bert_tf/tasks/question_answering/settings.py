"""What a model that finds answers is besides its weights; it lies in the run's folder."""

import dataclasses
from typing import NamedTuple

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.tasks import kept_settings
from bert_tf.tasks.question_answering.decoding import DecodingConfig
from bert_tf.tasks.question_answering.features import WindowConfig


class SpanSettings(NamedTuple):
    """How texts are cut and answers chosen, casing, a `BertConfig`, a vocabulary's path."""

    cut: WindowConfig
    choice: DecodingConfig
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
    if before:
        kept_settings.check_same(output_dir, before, settings)
    if write and settings != before:
        save_spans(output_dir, settings)


def save_spans(output_dir, settings):
    """Writes `SpanSettings` into a folder."""
    kept_settings.save(output_dir, files.SPANS, settings, settings.flags())


def load_spans(output_dir):
    """Reads the `SpanSettings` of the run in a folder; None if it has none."""

    def make(values, config, vocab_file):
        def of(kind):
            return kind(**{field.name: values[field.name] for field in dataclasses.fields(kind)})

        return SpanSettings(
            of(WindowConfig), of(DecodingConfig), values["do_lower_case"], config, vocab_file
        )

    return kept_settings.load(output_dir, files.SPANS, make)
