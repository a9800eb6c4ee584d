"""Encode the targets of `TokenClassification.fit` as `features.encode_words` does."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError, counted
from bert_tf.tasks.token_classification.features import (
    NOT_WORD_START,
    SENTENCE_START,
    WORD_START,
    encode_words,
)
from bert_tf.tasks.token_classification.reading import Sentence
from bert_tf.tasks.token_classification.schemes import (
    OUTSIDE,
    Span,
    infer_scheme,
    split_tag,
    tags_from_spans,
)
from bert_tf.tasks.token_classification.servable import WordTable
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.graph import GraphTokenizer

# Number of texts that are tokenized at a time.
_CHUNK_SIZE = 1000


def encode_tags(sentences, labels, sentences_argument, labels_argument, config):
    """Encode lists of words with one tag per word, in any scheme; without labels, all ids are 0."""
    tags, rows = config.tags, [None] * len(sentences)
    for i, words in enumerate(sentences):
        # The characters of a string would count as words.
        if isinstance(words, str) or not len(words):
            raise UserError(f"`{sentences_argument}`: item {i} is {words!r:.50}, expected words")
    if labels is not None:
        rows = [
            _tag_names(row, words, tags.names, f"`{labels_argument}`: item {i}")
            for i, (row, words) in enumerate(zip(labels, sentences, strict=True))
        ]
        tags = tags._replace(data_scheme=infer_scheme(rows))
    tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)
    for i, (words, row) in enumerate(zip(sentences, rows, strict=True)):
        sentence = Sentence(f"`{labels_argument}`: item {i}", words, row)
        yield encode_words([sentence], tags, tokenizer)


def _tag_names(row, words, names, where):
    """Return the tags of words as a tuple of names, given names or indices."""
    if len(row) != len(words):
        raise UserError(
            f"{where}: found {counted(len(row), 'tag')}, expected one for each of {len(words)} "
            "words"
        )
    row = list(row)
    for i, tag in enumerate(row):
        if not isinstance(tag, str):
            # Negative ones, such as -100 of transformers, would count from the end.
            if not 0 <= tag < len(names):
                raise UserError(f"{where}: the tag is {tag}, expected 0 to {len(names) - 1}")
            row[i] = names[tag]
    return tuple(row)


def encode_entities(texts, labels, argument, config):
    """Encode texts with their entities, split into words as in the exported model."""
    if config.tags.scheme == "none":
        raise UserError("found strings, expected lists of words, because this model tags words")
    tokenizer = GraphTokenizer(config.vocab, **config.tokenizer_settings)
    *rules, _ = config.tokenizer_settings.values()
    words = WordTable(*rules)
    tag_to_id = {name: number for number, name in enumerate(config.tags.names)}
    num_cut = 0
    for first in range(0, len(texts), _CHUNK_SIZE):
        chunk = tf.constant(texts[first : first + _CHUNK_SIZE])
        ids, starts, ends = tokenizer.tokenize_with_offsets(chunk)
        is_start = ids.with_values(words.starts(chunk, ids, starts))
        rows = zip(*(x.to_list() for x in (ids, starts, ends, is_start)), strict=True)
        for i, (tokens, *offsets, starts_word) in enumerate(rows, first):
            where = f"`{argument}`: item {i}"
            word_tokens = np.flatnonzero(starts_word)
            # Unicode normalization may reorder combining marks, so the last token may start first.
            edges = [
                reduce.reduceat(x, word_tokens) if len(word_tokens) else np.zeros(0, int)
                for reduce, x in zip((np.minimum, np.maximum), offsets, strict=True)
            ]
            spans, cut = _locate(_read_entities(labels[i], where), texts[i], *edges, where)
            num_cut += cut
            tag_ids, word_starts = [0] * len(tokens), [NOT_WORD_START] * len(tokens)
            tags = tags_from_spans(spans, len(word_tokens), config.tags.scheme)
            for j, (token, tag) in enumerate(zip(word_tokens, tags, strict=True)):
                if tag not in tag_to_id:
                    known = {split_tag(name)[1] for name in tag_to_id if name != OUTSIDE}
                    raise UserError(
                        f"{where}: the label is {split_tag(tag)[1]}, expected one of "
                        f"{', '.join(sorted(known))}"
                    )
                tag_ids[token] = tag_to_id[tag]
                word_starts[token] = WORD_START if j else SENTENCE_START
            yield tokens, tag_ids, word_starts
    if num_cut:
        console.warning("%d entities start or end inside a word; expanded to whole words", num_cut)


def _read_entities(entities, where):
    """Return a sorted list of (start, end, label) for the entities of a text."""
    try:
        if isinstance(entities, Mapping):
            entities = entities["entities"]
        parsed = []
        for entity in entities:
            if isinstance(entity, Mapping):
                entity = [entity[name] for name in ("start", "end", "label")]
            start, end, label = entity
            parsed.append((start, end, label))
        return sorted(parsed)
    except (KeyError, TypeError, ValueError):
        raise UserError(
            f"{where} is {entities!r:.80}, expected entities with start, end and label"
        ) from None


def _locate(entities, text, word_starts, word_ends, where):
    """Return the word `Span`s of sorted entities, and the number of entities that cut a word."""
    spans: list[Span] = []
    num_cut = 0
    for start, end, label in entities:
        covered = np.flatnonzero((word_starts < end) & (word_ends > start))
        if not 0 <= start < end <= len(text) or not len(covered):
            raise UserError(
                f"{where}: the entity {label} from {start} to {end} contains no word of the text "
                f"({len(text)} characters)"
            )
        first, last = int(covered[0]), int(covered[-1])
        if spans and first < spans[-1].end:
            raise UserError(
                f"{where}: the entity {label} from {start} to {end} overlaps the one before it"
            )
        num_cut += bool(word_starts[first] < start or word_ends[last] > end)
        spans.append(Span(label, first, last + 1))
    return spans, num_cut
