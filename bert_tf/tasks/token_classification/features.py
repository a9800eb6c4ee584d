"""Convert tagged sentences to windows of tokens.

The tag of a word is predicted at its first WordPiece (BERT paper, section 5.3). A sentence that
does not fit into one sequence is split into overlapping windows, and each word is tagged in the
window with the most context around it.
"""

import dataclasses

from bert_tf.data import records
from bert_tf.data.features import Features
from bert_tf.errors import UserError
from bert_tf.tasks.token_classification.options import Tags
from bert_tf.tasks.token_classification.schemes import (
    check_compatible,
    first_invalid_tag,
    infer_scheme,
    spans_from_tags,
    tag_names,
)
from bert_tf.tokenization.packing import SlidingWindows, pack_pair
from bert_tf.tokenization.settings import UNK

# Values of `word_starts` for a token: no word to tag starts here; a word starts; a sentence starts.
NOT_WORD_START, WORD_START, SENTENCE_START = 0, 1, 2


def infer_tags(sentences, data_scheme=None, scheme=None):
    """Return the `Tags` of a training set, with the labels in alphabetical order."""
    data_scheme = data_scheme or infer_scheme([sentence.tags for sentence in sentences])
    scheme = scheme or ("none" if data_scheme == "none" else "iob2")
    check_compatible("learn_scheme", scheme, data_scheme)
    # An invalid tag adds no label; `valid_sentences` reports it.
    valid = [s.tags for s in sentences if first_invalid_tag(s.tags, data_scheme) is None]
    if data_scheme == "none":  # with "O", if it is one of the labels
        labels = {tag for tags in valid for tag in tags}
    else:
        labels = {span.label for tags in valid for span in spans_from_tags(tags, data_scheme)}
    return Tags(tag_names(sorted(labels), scheme), scheme, data_scheme)


def valid_sentences(sentences, tags, bad):
    """Return the sentences with valid tags; report the others to `bad`."""
    valid, leading_lines = [], ()
    for sentence in sentences:
        # If the first sentence of a document is skipped, the next one starts the document.
        leading_lines += sentence.leading_lines
        try:
            if sentence.tags is not None:
                tags.convert(sentence)
        except UserError as error:
            bad(str(error))
        else:
            valid.append(dataclasses.replace(sentence, leading_lines=leading_lines))
            leading_lines = ()
    return valid


def make_features(sentences, tokenizer, config):
    """Return the `Features` of `Sentence`s."""
    documents = []
    for sentence in sentences:
        if not config.document_context or sentence.leading_lines or not documents:
            documents.append([])
        documents[-1].append(sentence)
    tags = config.tags
    return Features.of_examples(
        documents, records.TAGGING, convert_documents, tokenizer, config,
        ([s.words, s.tags, bool(s.leading_lines)] for s in sentences),
        {"S": config.max_seq_length},
        num_labels=len(tags.names),
        options={"config": config},
        fingerprint={
            "tags": list(tags.names),
            "learn_scheme": tags.scheme,
            "tag_scheme": tags.data_scheme,
            "doc_stride": config.doc_stride,
            "document_context": config.document_context,
        },
    )  # fmt: skip


def encode_words(document, tags, tokenizer):
    """Tokenize a document; return lists of token ids, tag ids and `word_starts`."""
    tag_to_id = {name: number for number, name in enumerate(tags.names)}
    ids, tag_ids, starts = [], [], []
    for sentence in document:
        sentence_tags = tags.convert(sentence) if sentence.tags is not None else None
        for i, pieces in enumerate(tokenizer.encode_batch(sentence.words)):
            # A word needs a tag even if the tokenizer removes all of its characters.
            pieces = pieces or [tokenizer.vocab[UNK]]
            more = len(pieces) - 1
            ids += pieces
            tag_ids += [tag_to_id[sentence_tags[i]] if sentence_tags else 0] + [0] * more
            starts += [WORD_START if i else SENTENCE_START] + [NOT_WORD_START] * more
    return ids, tag_ids, starts


def convert_documents(documents, tokenizer, config, lengths):
    """Yield each window as a dict for `records.TAGGING`; a word is tagged in only one window."""
    for document in documents:
        ids, tag_ids, starts = encode_words(document, config.tags, tokenizer)
        windows = SlidingWindows(len(ids), config.window_size, config.stride)
        for index, (first, length) in enumerate(windows.spans):
            tokens = range(first, first + length)
            padding = [0] * (config.window_size - length)
            word_starts = [
                starts[i] if windows.is_max_context(index, i) else NOT_WORD_START for i in tokens
            ]
            window_tags = (tag_ids[i] if word_starts[i - first] else 0 for i in tokens)
            packed = pack_pair(ids[first : first + length], [], tokenizer, config.max_seq_length)
            yield {
                **packed,
                "tag_ids": [0, *window_tags, 0, *padding],
                "word_starts": [0, *word_starts, 0, *padding],
            }
