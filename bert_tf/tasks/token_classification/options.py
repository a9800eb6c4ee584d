"""The options of token classification."""

import dataclasses
from typing import NamedTuple

from bert_tf import console
from bert_tf.configs.base import option, to_json_value
from bert_tf.configs.task import FileOptions, TaskConfig, TfdsOptions, check_labels
from bert_tf.errors import UserError
from bert_tf.io.json_files import Positive
from bert_tf.tasks.token_classification import schemes

# [CLS] window [SEP]
NUM_SPECIAL_TOKENS = 2


class Tags(NamedTuple):
    """Tags in the order of their ids, and the tagging schemes of the model and the data.

    `data_scheme` is the default of `output_scheme`. Data in IOB1 are read like "iob2"; it is "iob1"
    if training requested this output, and in folders of version 0.3 and earlier.
    """

    names: tuple[str, ...]
    scheme: str
    data_scheme: str

    def convert(self, sentence):
        """Convert a `Sentence`'s tags to the model's scheme; raise UserError if one is unknown."""
        spans = schemes.spans_from_tags(sentence.tags, self.data_scheme)
        tags = schemes.tags_from_spans(spans, len(sentence.tags), self.scheme)
        names = {schemes.normalize(name, self.scheme): name for name in self.names}
        for i, (tag, data_tag) in enumerate(zip(tags, sentence.tags, strict=True)):
            is_tag = schemes.is_tag(data_tag, self.data_scheme)
            if not is_tag or tag not in names:
                is_same = not is_tag or tag == data_tag
                found = data_tag if is_same else f"{data_tag}, {tag} in the scheme {self.scheme}"
                option = "scheme" if sentence.where.startswith("`") else "learn_scheme"
                advice = f"; add B-, I-, E- or S- to every tag but O, or use `{option}=none`"
                expected = f"expected one of {', '.join(self.names)}{'' if is_tag else advice}"
                raise UserError(f"{sentence.location(i)}: the tag is {found}, {expected}")
        return [names[tag] for tag in tags]

    def of_data(self, sentences):
        """Return the tags with the `data_scheme` of `sentences`.

        "iob1" is kept for tags with B and I, and any scheme for sentences without entities.
        """
        data_tags = {tag for sentence in sentences for tag in sentence.tags or ()}
        data_scheme = schemes.infer_scheme(data_tags, self.scheme)
        if data_scheme == "io" != self.scheme and schemes.OUTSIDE not in data_tags:
            text = "plain tags without O: neighboring words with the same tag are one entity; %s"
            console.notice(text, "for one label per word, train a model with the scheme none")
        is_iob = (self.data_scheme, data_scheme) == ("iob1", "iob2")
        keep = is_iob or data_tags <= {schemes.OUTSIDE}
        return self if keep else self._replace(data_scheme=data_scheme)

    @classmethod
    def of_labels(cls, labels, scheme=None):
        """Return the tags of a model, given all of them or the labels of entities.

        The labels are all tags if they include "O", without a `scheme` that requires prefixes, or
        if the scheme is "none".
        """
        inferred = schemes.infer_scheme(labels)
        if scheme not in (None, "none", inferred):
            if inferred not in schemes.PLAIN_SCHEMES:
                raise UserError(f"`scheme={scheme}`: the labels are tags in the scheme {inferred}")
            labels = [label for label in labels if label != schemes.OUTSIDE]
            labels = schemes.tag_names(labels, scheme)
        scheme = scheme or inferred
        return cls(check_labels(labels), scheme, scheme)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationData(TfdsOptions, FileOptions):
    """Data of the task: token classification."""

    data_dir: str | None = option(None, "Folder with train.txt, dev.txt and test.txt.")
    word_column: str | None = option(
        None,
        "Index of the word column: 0 is the first, -1 the last. With tfds_name, name of the "
        "feature. Default: 0 or tokens.",
    )
    tag_column: str | None = option(
        None,
        "Index of the tag column, or name of the feature, as for word_column. Default: -1 or, "
        "with tfds_name, ner or tags.",
    )
    learn_scheme: str | None = option(
        None,
        "Tagging scheme of the model; none for tags as they are, such as parts of speech. Default: "
        "iob2, or none for tags without prefixes and O.",
        choices=("iob2", "iobes", "none"),
    )
    output_scheme: str | None = option(
        None,
        "Tagging scheme of the predictions. Default: the scheme of the data, but iob2 for iob1.",
        choices=("iob1", "iob2", "iobes"),
    )
    skip_bad_rows: bool = option(False, "Skip invalid sentences instead of stopping.")
    report: bool = option(False, "Write eval_report.txt with the scores of each label.")


@dataclasses.dataclass(frozen=True)
class TokenClassificationConfig(TaskConfig):
    """Options of the task: token classification, saved in `tagger.json`.

    Attributes:
      tags: the `Tags`; None before the data are read.
    """

    FILE = "tagger.json"

    tags: Tags | None = None
    max_seq_length: Positive = option(
        128,
        "Maximum sequence length, in tokens; longer sentences are split into overlapping windows.",
    )
    doc_stride: Positive | None = option(
        None, "Stride between windows, in tokens. Default: half a window."
    )
    document_context: bool = option(
        False,
        "Use whole documents as context instead of single sentences. A document starts with a "
        "-DOCSTART- line.",
    )
    # Case helps to recognize names (BERT paper, section 5.3), so models are cased by default.
    do_lower_case: bool = option(False, None, fixed=True)

    @property
    def labels(self):
        return self.tags.names if self.tags else ()

    @property
    def window_size(self):
        return self.max_seq_length - NUM_SPECIAL_TOKENS

    @property
    def stride(self):
        return self.doc_stride or max(1, self.window_size // 2)

    def to_json(self):
        return {**to_json_value(self.tags), **super().to_json()}  # the tags first

    def fixed_values(self):
        # First, because a different scheme also changes the labels.
        return {"scheme": self.tags.scheme, **super().fixed_values()}
