"""What a tagger is besides its weights; it lies in the run's folder."""

import dataclasses
from typing import NamedTuple

from bert_tf import files
from bert_tf.config import BertConfig
from bert_tf.tasks import kept_settings
from bert_tf.tasks.token_classification.features import Tags, WindowConfig


class TagSettings(NamedTuple):
    """How sentences are cut, what is tagged, casing, a `BertConfig`, a vocabulary's path.

    `on_features` is None, or `way` and `lstm_size` of a `BertFeatureTokenClassifier`.
    """

    cut: WindowConfig
    tags: Tags
    do_lower_case: bool
    config: BertConfig
    vocab_file: str
    on_features: dict | None = None

    @property
    def learn_scheme(self):
        """The scheme of these tags: iob1 and iob2 have the same ones."""
        return self.tags.scheme

    @property
    def tag_names(self):
        """The tags in the order of their ids."""
        return self.tags.names

    def flags(self):
        """The values of flags of run_ner.py."""
        names = {"way": "layer_combination", "lstm_size": "feature_lstm_size"}
        more = {names[name]: value for name, value in (self.on_features or {}).items()}
        return {
            **dataclasses.asdict(self.cut),
            "do_lower_case": self.do_lower_case,
            "features_only": bool(self.on_features),
            **more,
        }


def settle_tags(output_dir, settings, write):
    """Sees that a run goes on with the model, the vocabulary and the tags that it began with.

    Args:
      output_dir: the run's folder.
      settings: the `TagSettings` of the flags and the data.
      write: whether to keep them there. How sentences are cut may change, and the last one stays.

    Raises:
      UserError: if the folder has others.
    """
    before = load_tags(output_dir)
    if before:
        shown = ("learn_scheme", "tag_names", "on_features")
        kept_settings.check_same(output_dir, before, settings, shown)
    if write and settings != before:
        values = {
            **settings.tags._asdict(),
            **dataclasses.asdict(settings.cut),
            "do_lower_case": settings.do_lower_case,
            "on_features": settings.on_features,
        }
        kept_settings.save(output_dir, files.TAGGER, settings, values)


def load_tags(output_dir):
    """Reads the `TagSettings` of the run in a folder; None if it has none."""

    def make(values, config, vocab_file):
        return TagSettings(
            WindowConfig(
                **{field.name: values[field.name] for field in dataclasses.fields(WindowConfig)}
            ),
            Tags(tuple(values["names"]), values["scheme"], values["data_scheme"]),
            values["do_lower_case"],
            config,
            vocab_file,
            values["on_features"],
        )

    return kept_settings.load(output_dir, files.TAGGER, make)
