"""What a token classifier is besides its weights."""

import dataclasses

from bert_tf.errors import UserError
from bert_tf.io.json_files import TEXT, array, integer, optional, record
from bert_tf.modeling import layers_of
from bert_tf.tasks.token_classification import SPEC
from bert_tf.tasks.token_classification.features import Tags, WindowConfig
from bert_tf.tasks.token_classification.schemes import infer_scheme
from bert_tf.training.task_config import TaskConfig, check_labels

_DEFAULT_LAYERS = "concat_last_four"


@dataclasses.dataclass(frozen=True)
class FeatureBasedConfig:
    """A BiLSTM on the features of a frozen encoder instead of fine-tuning (paper, section 5.3).

    Attributes:
      layer_combination: one of `modeling.LAYER_COMBINATIONS`.
      lstm_size: units of each direction of the BiLSTM, None for the hidden size.
    """

    layer_combination: str = _DEFAULT_LAYERS
    lstm_size: int | None = None


@dataclasses.dataclass(frozen=True)
class TokenClassificationConfig(TaskConfig):
    """The configuration of a token classifier, in `tagger.json`.

    Attributes:
      doc_stride, document_context: see `WindowConfig`.
      tags: the `Tags`.
      feature_based: a `FeatureBasedConfig`, None for a fine-tuned encoder.
    """

    FILE = SPEC.side_file
    FIXED = ("scheme", "labels", "feature_based")
    OPTIONS = ("max_seq_length", "doc_stride", "document_context", "do_lower_case")

    # Names are written with capitals (paper, section 5.3), so models are cased.
    do_lower_case: bool = False
    doc_stride: int | None = None
    document_context: bool = False
    tags: Tags | None = None
    feature_based: FeatureBasedConfig | None = None

    @property
    def labels(self):
        return self.tags.names

    @property
    def scheme(self):
        """The tag scheme that the model learns."""
        return self.tags.scheme

    @property
    def window_config(self):
        """The `WindowConfig` of long sentences."""
        return WindowConfig(self.max_seq_length, self.doc_stride, self.document_context)

    @classmethod
    def default_options(cls):
        return {**super().default_options(), "features_only": False}

    def recorded_options(self):
        options = {**super().recorded_options(), "features_only": self.feature_based is not None}
        if self.feature_based:
            options["layer_combination"] = self.feature_based.layer_combination
            options["feature_lstm_size"] = self.feature_based.lstm_size
        return options

    def to_json(self):
        features = self.feature_based
        if features:
            # "way" is the key of version 0.1.
            features = {"way": features.layer_combination, "lstm_size": features.lstm_size}
        return {**self.tags._asdict(), **super().recorded_options(), "on_features": features}

    @classmethod
    def json_fields(cls):
        features = record({"way": TEXT, "lstm_size": optional(integer(1))})
        return {
            **super().json_fields(),
            "names": array(TEXT),
            "scheme": TEXT,
            "data_scheme": TEXT,
            "on_features": optional(features),
        }

    @classmethod
    def from_json(cls, values, bert_config, vocab_file):
        features = values["on_features"]
        if features:
            features = FeatureBasedConfig(features["way"], features["lstm_size"])
        tags = Tags(tuple(values["names"]), values["scheme"], values["data_scheme"])
        config = super().from_json(values, bert_config, vocab_file)
        return dataclasses.replace(config, tags=tags, feature_based=features)

    @classmethod
    def of_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
        labels = check_labels(labels)
        try:
            scheme = infer_scheme([[label] for label in labels])
        except UserError:
            raise UserError(
                f"`labels`: the tags of the model follow BILOU ({', '.join(labels)}), which is not "
                "supported; name them as iobes in the same order, with E for L and S for U"
            ) from None
        scheme = scheme if scheme == "none" else "iob2"
        return super().of_pretrained(
            bert_config, vocab_file, do_lower_case, tags=Tags(labels, scheme, scheme), **options
        )


def feature_based_config(options, bert_config):
    """Return the `FeatureBasedConfig` of the options, None without `features_only`."""
    if not options.features_only:
        return None
    layer_combination = options.layer_combination or _DEFAULT_LAYERS
    layers_of(layer_combination, bert_config.num_hidden_layers)  # raises for too few layers
    return FeatureBasedConfig(layer_combination, options.feature_lstm_size)
