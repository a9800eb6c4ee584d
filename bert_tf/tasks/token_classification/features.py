"""Sentences to windows of tokens with the tags of their words.

The first WordPiece of a word carries its tag (BERT paper, section 5.3). What does not fit into one
sequence is read in windows that overlap, and each word is tagged in the one where it has the most
context around it.
"""

import dataclasses
from typing import NamedTuple

from bert_tf.errors import UserError
from bert_tf.tasks.token_classification.schemes import (
    check_goes,
    converted,
    find_scheme,
    spans_of,
    tags_with,
    wrong_tag,
)
from bert_tf.tasks.windows import Windows

CLS, SEP, UNKNOWN = "[CLS]", "[SEP]", "[UNK]"

# Values of `word_starts`: no word that is tagged here; one; one that begins a sentence.
NOTHING, WORD, SENTENCE = 0, 1, 2

# [CLS] and [SEP] around each window.
AROUND = 2

# To be raised when the same data make other features.
_VERSION = 1


@dataclasses.dataclass(frozen=True)
class WindowConfig:
    """How sentences become sequences; names are those of the flags.

    `doc_stride` is how many tokens further on the next window begins, None for half of one.
    `document_context` reads documents as a whole and not sentence by sentence.
    """

    max_seq_length: int = 128
    doc_stride: int | None = None
    document_context: bool = False

    @property
    def room(self):
        """The most tokens of a window."""
        return self.max_seq_length - AROUND

    @property
    def stride(self):
        """How many tokens further on the next window begins."""
        return self.doc_stride or max(1, self.room // 2)

    def windows(self, num_tokens):
        """The `Windows` of a text of so many tokens."""
        return Windows(num_tokens, self.room, self.stride)


class Tags(NamedTuple):
    """What the model's outputs mean.

    `names` are the tags in the order of their ids, of the scheme that the model learns; `scheme`
    is that one, `data_scheme` that of the data.
    """

    names: tuple
    scheme: str
    data_scheme: str

    def converted(self, sentence):
        """The sentence's tags as the model's; UserError says which is none of them."""
        wrong = wrong_tag(sentence.tags, self.data_scheme)
        if wrong is not None:
            raise UserError(
                f"{sentence.place(wrong)}: {sentence.tags[wrong]} cannot stand there in "
                f"{self.data_scheme}; `tag_scheme` says what the data hold"
            )
        tags = converted(sentence.tags, self.data_scheme, self.scheme)
        for i, tag in enumerate(tags):
            if tag not in self.names:
                raise UserError(
                    f"{sentence.place(i)}: the model does not know the tag {sentence.tags[i]}, "
                    f"only {', '.join(self.names)}"
                )
        return tags


def find_tags(sentences, data_scheme=None, scheme=None):
    """The `Tags` of a training set: all that its labels need, the labels in order of the alphabet.

    Args:
      sentences: list of `Sentence`.
      data_scheme: one of `SCHEMES`; None to find it.
      scheme: the one to learn; None for iob2, or "none" if the data have that.
    """
    found = data_scheme or find_scheme([sentence.tags for sentence in sentences])
    scheme = scheme or ("none" if found == "none" else "iob2")
    check_goes("learn_scheme", scheme, found)
    # A tag that cannot stand where it does is no label: `usable` names it.
    fit = [s.tags for s in sentences if wrong_tag(s.tags, found) is None]
    labels = {span.label for tags in fit for span in spans_of(tags, found)}
    return Tags(tags_with(sorted(labels), scheme), scheme, found)


def usable(sentences, tags, bad):
    """The sentences whose tags are those of the model; `bad` is a `BadRows` for the others."""
    kept, opening = [], ()
    for sentence in sentences:
        # A document begins with the first of its sentences that is kept.
        opening += sentence.opening
        try:
            if sentence.tags is not None:
                tags.converted(sentence)
        except UserError as error:
            bad(str(error))
        else:
            kept.append(dataclasses.replace(sentence, opening=opening))
            opening = ()
    return kept


def texts_of(sentences, document_context):
    """What is read together: lists of sentences, each a document, or each alone."""
    if not document_context:
        return [[sentence] for sentence in sentences]
    texts = []
    for sentence in sentences:
        if sentence.opening or not texts:
            texts.append([])
        texts[-1].append(sentence)
    return texts


def features(sentences, tags, tokenizer, cut):
    """Turns sentences into the values of records.

    Args:
      sentences: list of `Sentence`; those without tags get the first one's id.
      tags: `Tags`.
      tokenizer: a `FullTokenizer`.
      cut: a `WindowConfig`.

    Yields:
      Dicts for `records.TAGGING`: `[CLS] window [SEP]`, padded with 0. Row after row, the tokens
      with a `word_starts` other than 0 are the words of all sentences in their order.
    """
    size, vocab = cut.max_seq_length, tokenizer.vocab
    numbers = {name: number for number, name in enumerate(tags.names)}
    for text in texts_of(sentences, cut.document_context):
        ids, tag_ids, starts = [], [], []
        for sentence in text:
            wanted = tags.converted(sentence) if sentence.tags is not None else None
            for i, pieces in enumerate(tokenizer.encode_batch(sentence.words)):
                # A word of nothing but what is left out of texts still has a tag.
                pieces = pieces or [vocab[UNKNOWN]]
                more = len(pieces) - 1
                ids += pieces
                tag_ids += [numbers[wanted[i]] if wanted else 0] + [0] * more
                starts += [WORD if i else SENTENCE] + [NOTHING] * more
        windows = cut.windows(len(ids))
        for index, (first, length) in enumerate(windows.spans):
            here = range(first, first + length)
            padding = [0] * (size - length - AROUND)
            mine = [starts[i] if windows.is_max_context(index, i) else NOTHING for i in here]
            yield {
                "input_ids": [vocab[CLS], *(ids[i] for i in here), vocab[SEP], *padding],
                "input_mask": [1] * (length + AROUND) + padding,
                "segment_ids": [0] * size,
                "tag_ids": [0, *(tag_ids[i] if mine[i - first] else 0 for i in here), 0, *padding],
                "word_starts": [0, *mine, 0, *padding],
            }
