"""Servable for token classification on strings.

Shapes: B texts, N words of all texts, E maximum number of entities in a text.
"""

import functools
import sys

import numpy as np
import tensorflow as tf

from bert_tf.serving.exporting import Servable
from bert_tf.serving.prepared_model import prepare_model, substrings
from bert_tf.tasks.token_classification.schemes import split_tag
from bert_tf.tokenization.graph_normalization import look_up, paged_table, rows_of_values
from bert_tf.tokenization.normalization import IDEOGRAPHS, RUNS, normalize_char
from bert_tf.tokenization.packing_graph import Windows, pack
from bert_tf.tokenization.wordpiece import BasicTokenizer


def find_entities(prepared, config, texts):
    """Find the entities in texts (B,); if the tags do not mark spans, every word is an entity.

    The windows are as in run_ner.py.

    Returns:
      Dict of tensors (B, E):
        `entity`: string, padded with "".
        `label`: string.
        `start`, `end`: int32, its character offsets (end exclusive), not counting invalid
          UTF-8; padded with -1.
        `score`: float32, the mean probability of its words.
    """
    tag_table = _TagTable(config.tags)
    ids, starts, ends = prepared.tokenizer.tokenize_with_offsets(texts)
    is_start = find_word_starts(config.tokenizer_settings, texts, ids, starts)
    tags, probabilities = _classify_words(prepared, config, ids, is_start)
    word_indices = tf.cumsum(tf.cast(is_start, tf.int32)) - 1
    num_words = tf.size(tags)
    word_texts = tf.boolean_mask(rows_of_values(ids), is_start)
    # Unicode normalization may reorder combining marks, so the last token may start first.
    word_starts = tf.math.unsorted_segment_min(starts.values, word_indices, num_words)
    word_ends = tf.math.unsorted_segment_max(ends.values, word_indices, num_words)

    begins = tag_table.begins(tags, word_texts)
    entities = tf.cumsum(tf.cast(begins, tf.int32)) - 1
    is_inside = tf.gather(tag_table.labels, tags) > 0
    entities = tf.where(is_inside, entities, -1)  # segment operations ignore -1
    num_entities = tf.reduce_sum(tf.cast(begins, tf.int32))
    first = tf.math.unsorted_segment_min(word_starts, entities, num_entities)
    last = tf.math.unsorted_segment_max(word_ends, entities, num_entities)
    score = tf.math.unsorted_segment_mean(probabilities, entities, num_entities)
    entity_texts = tf.boolean_mask(word_texts, begins)
    labels = tf.gather(tag_table.names, tf.boolean_mask(tags, begins))

    def by_text(values, default):
        rows, count = tf.cast(entity_texts, tf.int64), tf.size(texts, tf.int64)
        ragged = tf.RaggedTensor.from_value_rowids(values, rows, count, validate=False)
        return ragged.to_tensor(default)

    return {
        "entity": by_text(substrings(texts, entity_texts, first, last), ""),
        "label": by_text(labels, ""),
        "start": by_text(first, -1),
        "end": by_text(last, -1),
        "score": by_text(score, 0.0),
    }


def _classify_words(prepared, config, ids, is_start):
    """Return the tags of all words, int32 (N,), and their probabilities, float32 (N,)."""
    windows = Windows(ids, config.window_size, config.stride)
    # A dummy entry keeps the gather from reading an empty tensor.
    is_start = tf.concat([is_start, [False]], 0)

    def predict_windows(rows):
        segment = windows.segment(rows)
        inputs = pack(prepared.tokenizer.vocab, prepared.buckets, segment)
        position = tf.range(tf.shape(inputs["input_ids"])[1])[None, :] - 1
        is_text, token_indices = segment.find(position)
        scores = tf.nn.softmax(prepared.call(inputs, of_windows=True)["logits"])
        # Each word is read from the window with its maximum context, which keeps the order.
        is_read = is_text & tf.gather(is_start, token_indices)
        is_read &= windows.is_max_context(rows, position)
        scores = tf.boolean_mask(scores, is_read)
        return tf.argmax(scores, -1, output_type=tf.int32), tf.reduce_max(scores, -1)

    return windows.map(predict_windows, [(tf.int32, (None,)), (tf.float32, (None,))])


class _TagTable:
    """The tags as constants of the graph; `labels` are the ids of their labels, 0 for "O"."""

    def __init__(self, tags):
        prefixes, labels = zip(*(split_tag(tag, tags.scheme) for tag in tags.names), strict=True)
        unique = sorted({label for label in labels if label})
        self.names = tf.constant(labels)
        self.labels = tf.constant([unique.index(x) + 1 if x else 0 for x in labels])
        self._opens = tf.constant([prefix in ("B", "S") for prefix in prefixes])
        self._closes = tf.constant([prefix in ("E", "S") for prefix in prefixes])

    def begins(self, tags, texts):
        """Return whether an entity begins at each word, bool (N,), as in `spans_from_tags`."""
        labels = tf.gather(self.labels, tags)
        previous = tf.concat([[0], labels[:-1]], 0)
        closed = tf.concat([[False], tf.gather(self._closes, tags)[:-1]], 0)
        is_first = tf.concat([tf.ones_like(texts[:1], tf.bool), texts[1:] != texts[:-1]], 0)
        begins = tf.gather(self._opens, tags) | closed | is_first | (labels != previous)
        return begins & (labels > 0)


# Kinds of characters for splitting into words.
_LETTER, _REMOVED, _SPACE, _MARK, _IDEOGRAPH = range(5)


def find_word_starts(settings, texts, ids, starts):
    """Split texts into words like typical training data; return which tokens start one, bool (T,).

    Whitespace separates words. Each punctuation mark before or after a word is a word of its own,
    as are 's and each ideograph. Punctuation inside a word ("well-known", "3.5") and characters
    that the tokenizer removes do not separate words.

    Args:
      settings: the settings of the tokenizer.
      texts: the texts (B,).
      ids: ragged token ids (B, None).
      starts: ragged offsets of the tokens (B, None).
    """
    *rules, _ = settings.values()
    # The line break separates consecutive texts.
    codes = tf.strings.unicode_decode(tf.strings.join(["\n", texts]), "UTF-8", errors="ignore")
    kinds = look_up(_word_kinds(BasicTokenizer(*rules).rules), codes.values)
    is_kept = kinds != _REMOVED
    is_start = _starts(tf.boolean_mask(codes.values, is_kept), tf.boolean_mask(kinds, is_kept))
    kept_before = tf.cumsum(tf.cast(is_kept, tf.int32), exclusive=True)
    text_start = tf.gather(tf.cast(codes.row_starts(), tf.int32), rows_of_values(ids)) + 1
    word_of_kept = tf.cumsum(tf.cast(is_start, tf.int32))
    word = tf.gather(word_of_kept, tf.gather(kept_before, text_start + starts.values))
    return tf.concat([tf.ones_like(word[:1], tf.bool), word[1:] != word[:-1]], 0)


@functools.cache  # takes half a second
def _word_kinds(rules):
    """Return a `paged_table` with the kind of each code point; cached, do not modify."""
    kinds = np.full(sys.maxunicode + 1, _LETTER, np.uint8)
    for (rule, _, _), codes in RUNS:
        if rule != "k":
            kinds[codes.start : codes.stop] = [_kind(code, rules) for code in codes]
    return paged_table(kinds)


def _kind(code, rules):
    result = normalize_char(code, *rules)
    if not result.startswith(" "):
        return _LETTER if result else _REMOVED
    if result == " ":
        return _SPACE
    is_ideograph = any(first <= code <= last for first, last in IDEOGRAPHS)
    return _IDEOGRAPH if is_ideograph else _MARK


def _starts(codes, kinds):
    """Return which characters start a word, bool (C,), given code points and kinds, int32 (C,)."""
    is_space, is_ideograph = kinds == _SPACE, kinds == _IDEOGRAPH
    # Chunks are separated by whitespace.
    opens = ~is_space & _previous(is_space)
    chunk = tf.cumsum(tf.cast(is_space, tf.int32)) - 1
    is_letter = tf.cast((kinds == _LETTER) | is_ideograph, tf.int32)
    sums = tf.cumsum(is_letter, exclusive=True)
    letters_before = sums - tf.gather(tf.boolean_mask(sums, is_space), chunk)
    letters = tf.gather(tf.math.segment_sum(is_letter, chunk), chunk)
    is_end = letters_before == letters  # only marks follow in the chunk
    is_start = opens | (letters_before == 0) | is_end | is_ideograph | _previous(is_ideograph)
    ends_here = _next(is_space, True) | _next(is_end, True)
    is_s = ((codes == ord("s")) | (codes == ord("S"))) & ~opens & ends_here
    is_apostrophe = (codes == ord("'")) | (codes == ord("\u2019"))
    is_genitive = is_apostrophe & _next(is_s, False)
    return (is_start | is_genitive) & ~_previous(is_genitive)


def _previous(values):
    return tf.concat([tf.zeros_like(values[:1]), values[:-1]], 0)


def _next(values, default):
    return tf.concat([values[1:], tf.fill(tf.shape(values[:1]), default)], 0)


def token_classification_servable(model, config, serving_config):
    """Return the `Servable` for text (`find_entities`) and ids (logits)."""
    prepared = prepare_model(model, config, serving_config)
    return Servable(
        task="token_classification",
        prepared=prepared,
        serve_text=lambda inputs: find_entities(prepared, config, inputs["text"]),
        serve_ids=lambda inputs: {"logits": prepared.call(inputs)["logits"]},
        metadata={"labels": config.tags.names},
        has_variable_width=True,
        add_to_onnx=lambda graph, inputs: {"logits": graph.project(graph.encode(inputs), "")},
        has_windows=True,
    )
