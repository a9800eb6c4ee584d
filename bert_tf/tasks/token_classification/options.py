"""The options of token classification."""

import dataclasses
from typing import NamedTuple

from bert_tf.configs.base import REQUIRED, derived, option
from bert_tf.configs.task import FileOptions, TaskConfig, TfdsOptions, check_labels
from bert_tf.errors import UserError
from bert_tf.io import json_files
from bert_tf.io.json_files import Positive
from bert_tf.tasks.token_classification import schemes

# [CLS] window [SEP]
NUM_SPECIAL_TOKENS = 2


class Tags(NamedTuple):
    """Tags in the order of their ids, and the tagging schemes of the model and the data."""

    names: tuple
    scheme: str
    data_scheme: str

    def convert(self, sentence):
        """Convert the tags of a `Sentence` to the model's scheme; UserError if one is invalid."""
        invalid = schemes.first_invalid_tag(sentence.tags, self.data_scheme)
        if invalid is not None:
            advice = "; set `tag_scheme` to the scheme of the data"
            raise UserError(
                f"{sentence.location(invalid)}: the tag {sentence.tags[invalid]} is not valid here "
                f"in the scheme {self.data_scheme}{advice * (not sentence.where.startswith('`'))}"
            )
        tags = schemes.convert_tags(sentence.tags, self.data_scheme, self.scheme)
        names = {schemes.normalize(name, self.scheme): name for name in self.names}
        for i, (tag, given) in enumerate(zip(tags, sentence.tags, strict=True)):
            if tag not in names:
                found = tag if tag == given else f"{given}, {tag} in the scheme {self.scheme}"
                raise UserError(
                    f"{sentence.location(i)}: the tag is {found}, expected one of "
                    f"{', '.join(self.names)}"
                )
        return [names[tag] for tag in tags]

    @classmethod
    def of_labels(cls, labels, scheme=None):
        """Return the tags of a model, given all of them or the labels of entities.

        The labels are all tags if they include "O", without a `scheme` that requires prefixes, or
        if the scheme is "none".
        """
        found = schemes.infer_scheme([[label] for label in labels])
        has_prefixes = found not in schemes.PLAIN_SCHEMES
        if has_prefixes:
            is_iobes = any(schemes.split_tag(label)[0] in ("E", "S") for label in labels)
            found = "iobes" if is_iobes else "iob2"
        if scheme not in (None, "none", found):
            if has_prefixes:
                raise UserError(f"`scheme={scheme}`: the labels are tags in the scheme {found}")
            labels = [label for label in labels if label != schemes.OUTSIDE]
            labels = schemes.tag_names(labels, scheme)
        scheme = scheme or found
        return cls(check_labels(labels), scheme, scheme)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationOptions(FileOptions, TfdsOptions):
    """The options of token classification."""

    max_seq_length: Positive = option(
        128,
        "Maximum sequence length, in tokens; longer sentences are split into overlapping windows.",
        saved=True,
    )
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
    tag_scheme: str | None = option(
        None,
        "Tagging scheme of the data; io for labels without prefixes, none for tags that do not "
        "mark spans, such as parts of speech. Default: inferred from the training set.",
        choices=("iob1", "iob2", "iobes", "io", "none"),
    )
    learn_scheme: str | None = option(
        None, "Tagging scheme of the model. Default: iob2.", choices=("iob1", "iob2", "iobes")
    )
    output_scheme: str | None = option(
        None,
        "Tagging scheme of the predictions. Default: the scheme of the data.",
        choices=("iob1", "iob2", "iobes"),
    )
    skip_bad_rows: bool = option(False, "Skip invalid sentences instead of stopping.")
    doc_stride: Positive | None = option(
        None, "Stride between windows, in tokens. Default: half a window.", saved=True
    )
    document_context: bool = option(
        False,
        "Use whole documents as context instead of single sentences. A document starts with a "
        "-DOCSTART- line.",
        saved=True,
    )
    report: bool = option(False, "Write eval_report.txt with the scores of each label.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenClassificationConfig(TokenClassificationOptions, TaskConfig):
    """The configuration of token classification, saved in `tagger.json`."""

    FILE = "tagger.json"
    OPTIONS = TokenClassificationOptions

    # Case helps to recognize names (BERT paper, section 5.3), so models are cased by default.
    do_lower_case: bool = derived(False, saved=True, fixed=True)
    tags: Tags = derived(REQUIRED)

    @property
    def labels(self):
        return self.tags.names

    @property
    def window_size(self):
        return self.max_seq_length - NUM_SPECIAL_TOKENS

    @property
    def stride(self):
        return self.doc_stride or max(1, self.window_size // 2)

    def fixed_values(self):
        # First, because a different scheme also changes the labels.
        return {"scheme": self.tags.scheme, **super().fixed_values()}

    def to_json(self):
        return {**self.tags._asdict(), **super().to_json()}

    @classmethod
    def from_json(cls, values, **others):
        json_files.check(values, {"names": list[str], "scheme": str, "data_scheme": str})
        tags = Tags(tuple(values["names"]), values["scheme"], values["data_scheme"])
        return super().from_json(values, tags=tags, **others)
