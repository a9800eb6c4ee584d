"""The configuration of token classification."""

import dataclasses
from typing import NamedTuple

from bert_tf.configs.data_files import FileOptions, TfdsOptions
from bert_tf.configs.model import LAYER_COMBINATIONS
from bert_tf.configs.options import fact, option
from bert_tf.errors import UserError
from bert_tf.io import json_files
from bert_tf.io.json_files import Positive
from bert_tf.tasks.token_classification import SPEC
from bert_tf.tasks.token_classification.schemes import (
    convert_tags,
    first_invalid_tag,
    infer_scheme,
    split_tag,
)
from bert_tf.training.task_config import TaskConfig, check_labels

# [CLS] window [SEP]
NUM_SPECIAL_TOKENS = 2


class Tags(NamedTuple):
    """The tags that a model predicts.

    Attributes:
      names: The tags in the order of their ids.
      scheme: Their scheme, which the model learns.
      data_scheme: The scheme of the data.
    """

    names: tuple
    scheme: str
    data_scheme: str

    def convert(self, sentence):
        """Convert the tags of a `Sentence` to the scheme of the model.

        Raises:
          UserError: If a tag is not valid or unknown to the model.
        """
        invalid = first_invalid_tag(sentence.tags, self.data_scheme)
        if invalid is not None:
            raise UserError(
                f"{sentence.location(invalid)}: the tag {sentence.tags[invalid]} is not valid here "
                f"in the scheme {self.data_scheme}; `tag_scheme` sets the scheme of the data"
            )
        tags = convert_tags(sentence.tags, self.data_scheme, self.scheme)
        for i, tag in enumerate(tags):
            if tag not in self.names:
                raise UserError(
                    f"{sentence.location(i)}: the model does not know the tag {sentence.tags[i]}; "
                    f"expected one of {', '.join(self.names)}"
                )
        return tags


@dataclasses.dataclass(frozen=True)
class TokenClassificationConfig(FileOptions, TfdsOptions, TaskConfig):
    """The configuration of token classification; that of its model is in `tagger.json`.

    Attributes:
      tags: the `Tags` that the model predicts.
    """

    GROUPS = (
        ("Columns and labels", "word_column tag_column tag_scheme learn_scheme output_scheme"),
        ("Sequences", "document_context"),
        ("Model", "features_only layer_combination feature_lstm_size"),
        ("Evaluation and prediction", "report"),
    )
    FILE = SPEC.side_file

    # Names are written with capitals (paper, section 5.3), so models are cased.
    do_lower_case: bool = fact(False, saved=True, fixed=True)
    max_seq_length: int = option(
        128,
        "Longest sequence in tokens; longer sentences are split into overlapping windows.",
        minimum=1,
        saved=True,
    )
    data_dir: str | None = option(None, "Folder with train.txt, dev.txt and test.txt.")
    word_column: str | None = option(
        None,
        "Column of the words, a number from 0, or -1 for the last; the first if not given. With "
        "tfds_name, the feature: tokens if not given.",
    )
    tag_column: str | None = option(
        None,
        "Column of the tags, like word_column; the last if not given. With tfds_name, the feature: "
        "ner or tags if not given.",
    )
    tag_scheme: str | None = option(
        None,
        "How the data mark the beginning of spans; none for tags without spans, such as parts of "
        "speech. Inferred from the training set if not given.",
        choices=("iob1", "iob2", "iobes", "none"),
    )
    learn_scheme: str | None = option(
        None, "Scheme that the model learns, iob2 if not given.", choices=("iob1", "iob2", "iobes")
    )
    output_scheme: str | None = option(
        None,
        "Scheme of the predictions, that of the data if not given.",
        choices=("iob1", "iob2", "iobes"),
    )
    skip_bad_rows: bool = option(False, "Leave out sentences that cannot be used.")
    doc_stride: int | None = option(
        None,
        "Tokens between the starts of two windows, half a window if not given.",
        minimum=1,
        saved=True,
    )
    document_context: bool = option(
        False,
        "Read whole documents instead of single sentences; the data mark them by -DOCSTART-.",
        saved=True,
    )
    features_only: bool = option(
        False,
        "Freeze BERT and train a two-layer BiLSTM on its features.",
        saved=True,
        fixed=True,
    )
    layer_combination: str = option(
        "concat_last_four",
        "The layers that features_only uses.",
        choices=LAYER_COMBINATIONS,
        saved=True,
        fixed=True,
        requires="features_only",
    )
    feature_lstm_size: int | None = option(
        None,
        "Units of each direction of the BiLSTM, hidden_size if not given.",
        minimum=1,
        saved=True,
        fixed=True,
        requires="features_only",
    )
    report: bool = option(False, "Write eval_report.txt with each label's scores.")
    tags: Tags | None = fact(None)

    def __post_init__(self):
        if isinstance(self.tags, Tags):
            object.__setattr__(self, "labels", self.tags.names)
        super().__post_init__()

    @property
    def window_size(self):
        """The largest number of tokens in a window."""
        return self.max_seq_length - NUM_SPECIAL_TOKENS

    @property
    def stride(self):
        """Number of tokens from the start of one window to the start of the next."""
        return self.doc_stride or max(1, self.window_size // 2)

    def check(self, config, is_resumed):
        if not self.features_only:
            return
        model = config.model
        if config.do_train and not (model.model or model.init_checkpoint or is_resumed):
            raise UserError(
                "`features_only` requires `model` or `init_checkpoint`: the features of random "
                "weights are meaningless"
            )
        for name, options in (
            ("num_frozen_layers", config.train),
            ("layer_decay", config.optimizer),
        ):
            if options.is_given(name):
                raise UserError(f"`{name}`: with `features_only` all layers are frozen")

    def fixed_values(self):
        # First: another scheme also changes the labels.
        return {"scheme": self.tags.scheme, **super().fixed_values()}

    def to_json(self):
        values, features = super().to_json(), None
        if values.pop("features_only"):
            # "way" is the key of version 0.1.
            way, lstm_size = values.pop("layer_combination"), values.pop("feature_lstm_size")
            features = {"way": way, "lstm_size": lstm_size}
        return {**self.tags._asdict(), **values, "on_features": features}

    @classmethod
    def from_json(cls, values, **others):
        features = {"way": str, "lstm_size": Positive | None}
        fields = {"names": list[str], "scheme": str, "data_scheme": str}
        if values.get("on_features", 0) is not None:
            fields["on_features"] = features
        json_files.check(values, fields)
        tags = Tags(tuple(values["names"]), values["scheme"], values["data_scheme"])
        features = values["on_features"]
        values = {**values, "features_only": bool(features)}
        if features:
            values["layer_combination"] = features["way"]
            values["feature_lstm_size"] = features["lstm_size"]
        return super().from_json(values, tags=tags, **others)

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
        if scheme != "none":
            is_iobes = any(split_tag(label)[0] in ("E", "S") for label in labels)
            scheme = "iobes" if is_iobes else "iob2"
        return super().of_pretrained(
            bert_config, vocab_file, do_lower_case, tags=Tags(labels, scheme, scheme), **options
        )
