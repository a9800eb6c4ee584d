"""Servable for token classification on strings.

Shapes: B texts, N words of all texts, E maximum number of entities in a text.
"""

import tensorflow as tf

from bert_tf.serving.exporting import Servable
from bert_tf.serving.prepared_model import prepare_model, substrings
from bert_tf.tasks.token_classification.examples import WordTable
from bert_tf.tasks.token_classification.schemes import split_tag
from bert_tf.tokenization.graph_normalization import rows_of_values
from bert_tf.tokenization.packing_graph import Windows, pack


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
    tokenizer, tag_table = prepared.tokenizer, _TagTable(config.tags)
    *rules, _ = config.tokenizer_settings.values()
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    is_start = WordTable(*rules).starts(texts, ids, starts)
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
        ragged = tf.RaggedTensor.from_value_rowids(
            values, tf.cast(entity_texts, tf.int64), tf.size(texts, tf.int64), validate=False
        )
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
