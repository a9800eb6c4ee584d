"""A SavedModel from texts to the entities in them, with their places.

Letters of shapes: B texts, T tokens of all texts, N words of all texts, W windows, R some of these,
S positions of a window, E entities of the text that has the most.
"""

import numpy as np
import tensorflow as tf

from bert_tf.serving.buckets import Buckets
from bert_tf.serving.exporting import Servable, prepared, texts, tokens
from bert_tf.serving.windows import Windows, parts
from bert_tf.tasks.token_classification.features import NUM_SPECIAL_TOKENS
from bert_tf.tasks.token_classification.schemes import split_tag
from bert_tf.tokenization.graph import GraphTokenizer
from bert_tf.tokenization.wordpiece import BasicTokenizer

# Windows that the model reads at a time: texts of any length need the memory of these.
_WINDOWS_AT_A_TIME = 32

_TEXTS = tf.TensorSpec((None,), tf.string)


class TextTagger(tf.Module):
    """Finds entities in texts, in words and windows as run_ner.py was trained on."""

    def __init__(self, model, settings, buckets=None):
        """Takes a token classifier (or its quantized stand-in), `TagSettings` and `Buckets`."""
        super().__init__()
        self._model, self._cut = model, settings.window_config
        self._buckets = buckets or Buckets((), settings.max_seq_length)
        self.tokenizer = GraphTokenizer(settings.vocab_file, settings.do_lower_case)
        self._tags = _TagTable(settings.tags)
        self._words = _WordTable(self.tokenizer.vocab, settings.do_lower_case)

    @tf.function(input_signature=[_TEXTS])
    def __call__(self, texts):
        """Finds the entities.

        Args:
          texts: string (B,), UTF-8, of any length.

        Returns:
          Dict of (B, E): `entity` string, "" behind the last one of a text; `label` string; `start`
          and `end` int32, its first character and the one behind it, -1 where there is none,
          counted in the text without bytes that are not UTF-8;
          `score` float32, the mean of its words' probabilities. Of tags without spans every word is
          an entity.
        """
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(texts)
        is_start = self._words.starts(ids, starts, ends)
        tags, probabilities = self._read(ids, is_start)
        word_of = tf.cumsum(tf.cast(is_start, tf.int32)) - 1
        count = tf.size(tags)
        text_of = tf.boolean_mask(tf.cast(ids.value_rowids(), tf.int32), is_start)
        # Marks change places when they are put in order, so the last token may begin before.
        word_starts = tf.math.unsorted_segment_min(starts.values, word_of, count)
        word_ends = tf.math.unsorted_segment_max(ends.values, word_of, count)

        begins = self._tags.begins(tags, text_of)
        entity_of = tf.cumsum(tf.cast(begins, tf.int32)) - 1
        is_inside = tf.gather(self._tags.labels, tags) > 0
        entity_of = tf.where(is_inside, entity_of, -1)  # which belongs to no segment
        count = tf.reduce_sum(tf.cast(begins, tf.int32))
        first = tf.math.unsorted_segment_min(word_starts, entity_of, count)
        last = tf.math.unsorted_segment_max(word_ends, entity_of, count)
        score = tf.math.unsorted_segment_mean(probabilities, entity_of, count)
        text = tf.boolean_mask(text_of, begins)
        names = tf.gather(self._tags.names, tf.boolean_mask(tags, begins))
        entity = parts(texts, text, first, last)

        def in_rows(values, missing):
            ragged = tf.RaggedTensor.from_value_rowids(
                values, tf.cast(text, tf.int64), tf.size(texts, tf.int64), validate=False
            )
            return ragged.to_tensor(missing)

        return {
            "entity": in_rows(entity, ""),
            "label": in_rows(names, ""),
            "start": in_rows(first, -1),
            "end": in_rows(last, -1),
            "score": in_rows(score, 0.0),
        }

    def _read(self, ids, is_start):
        """What the model says of all words: their tags int32 (N,), its probabilities (N,)."""
        totals = tf.cast(ids.row_lengths(), tf.int32)
        rooms = tf.fill(tf.shape(totals), self._cut.window_size)
        windows = Windows(totals, rooms, self._cut.stride)
        row_starts = tf.cast(ids.row_starts(), tf.int32)
        flat = tf.concat([ids.values, [0]], 0)
        is_start = tf.concat([is_start, [False]], 0)
        cls_id, sep_id = (self.tokenizer.vocab[name] for name in ("[CLS]", "[SEP]"))
        count = tf.size(windows.texts)
        steps = (count + _WINDOWS_AT_A_TIME - 1) // _WINDOWS_AT_A_TIME
        tags, probabilities = (
            tf.TensorArray(dtype, steps, infer_shape=False, element_shape=(None,))
            for dtype in (tf.int32, tf.float32)
        )
        for step in tf.range(steps):
            begin = step * _WINDOWS_AT_A_TIME
            rows = tf.range(begin, tf.minimum(count, begin + _WINDOWS_AT_A_TIME))
            first, length = (tf.gather(x, rows)[:, None] for x in (windows.first, windows.length))
            size = self._buckets(tf.reduce_max(length) + NUM_SPECIAL_TOKENS)
            place = tf.range(size)[None, :] - 1
            is_text = (place >= 0) & (place < length)
            start = tf.gather(row_starts, tf.gather(windows.texts, rows))[:, None]
            token = tf.where(is_text, start + first + place, tf.size(ids.values))
            input_ids = tf.gather(flat, token)
            input_ids = tf.where(place == length, sep_id, input_ids)
            inputs = {
                "input_ids": tf.where(place < 0, cls_id, input_ids),
                "input_mask": tf.cast(place <= length, tf.int32),
                "segment_ids": tf.zeros_like(input_ids),
            }
            chances = tf.nn.softmax(self._model(inputs, training=False)["logits"])
            # Window after window these are the words in their order.
            wanted = tf.gather(is_start, token) & windows.is_max_context(rows, place)
            chances = tf.boolean_mask(chances, wanted)
            tags = tags.write(step, tf.argmax(chances, -1, output_type=tf.int32))
            probabilities = probabilities.write(step, tf.reduce_max(chances, -1))
        return tags.concat(), probabilities.concat()


class _TagTable:
    """The tags as constants: the number of each one's label, 0 for none, and its prefix."""

    def __init__(self, tags):
        is_plain = tags.scheme == "none"
        labels = [tag if is_plain else split_tag(tag)[1] for tag in tags.names]
        known = sorted({label for label in labels if label})
        self.names = tf.constant(labels)
        self.labels = tf.constant([known.index(x) + 1 if x else 0 for x in labels])
        prefixes = ["S" if is_plain else split_tag(tag)[0] for tag in tags.names]
        self._opens = tf.constant([prefix in ("B", "S") for prefix in prefixes])
        self._closes = tf.constant([prefix in ("E", "S") for prefix in prefixes])

    def begins(self, tags, text_of):
        """Where entities begin, as `schemes.starts_span` says: bool (N,)."""
        labels = tf.gather(self.labels, tags)
        before = tf.concat([[0], labels[:-1]], 0)
        closed = tf.concat([[False], tf.gather(self._closes, tags)[:-1]], 0)
        is_first = tf.concat([tf.ones_like(text_of[:1], tf.bool), text_of[1:] != text_of[:-1]], 0)
        begins = tf.gather(self._opens, tags) | closed | is_first | (labels != before)
        return begins & (labels > 0)


class _WordTable:
    """Where words begin in a text that is not cut into words yet.

    As in the data that taggers learn from: white space stands between words, punctuation in front
    of and behind a word is cut off, each mark a word, as is 's; what is inside one ("well-known",
    "3.5") stays. Ideographs are words each.
    """

    def __init__(self, vocab, do_lower_case):
        basic = BasicTokenizer(do_lower_case)
        marks, ideographs = (np.zeros(max(vocab.values()) + 1, bool) for _ in range(2))
        for piece, index in vocab.items():
            if len(piece) == 1 and basic.tokenize(f"a{piece}a") == ["a", piece, "a"]:
                (ideographs if piece.isalpha() else marks)[index] = True
        self._marks, self._ideographs = tf.constant(marks), tf.constant(ideographs)
        apostrophes = [vocab[mark] for mark in "'\u2019" if mark in vocab]
        self._apostrophes = tf.constant(apostrophes, tf.int32, (len(apostrophes),))
        self._s = [vocab.get(letter, -1) for letter in "sS"]

    def starts(self, ids, starts, ends):
        """Where words start: bool (T,), of ragged ids and offsets (B, None)."""
        row, ids = ids.value_rowids(), ids.values
        starts, ends = starts.values, ends.values
        in_front = starts[1:] != ends[:-1]
        in_front |= row[1:] != row[:-1]
        opens = tf.concat([tf.ones_like(ids[:1], tf.bool), in_front], 0)
        chunk = tf.cumsum(tf.cast(opens, tf.int32)) - 1
        is_letter = tf.cast(~tf.gather(self._marks, ids), tf.int32)
        sums = tf.cumsum(is_letter, exclusive=True)
        before = sums - tf.gather(tf.boolean_mask(sums, opens), chunk)
        total = tf.gather(tf.math.segment_sum(is_letter, chunk), chunk)
        is_ideograph = tf.gather(self._ideographs, ids)
        is_end = before == total  # nothing but marks from here on
        found = opens | (before == 0) | is_end | is_ideograph | _behind(is_ideograph)
        ends_here = _ahead(opens, True) | _ahead(is_end, True)
        is_s = tf.reduce_any(ids[:, None] == self._s, 1) & ~opens & ends_here
        is_mark = tf.reduce_any(ids[:, None] == self._apostrophes, 1)
        is_genitive = is_mark & _ahead(is_s, False)
        return (found | is_genitive) & ~_behind(is_genitive)


def _behind(values):
    """For each of bool (T,) the one before it."""
    return tf.concat([tf.zeros_like(values[:1]), values[:-1]], 0)


def _ahead(values, last):
    """For each of bool (T,) the one after it, `last` for the last."""
    return tf.concat([values[1:], tf.fill(tf.shape(values[:1]), last)], 0)


def tagger(model, settings, options):
    """A model of `tasks.token_classification` as a `Servable`: texts as `TextTagger` takes them;
    ids to logits.

    Args:
      model: the model.
      settings: its `TagSettings`.
      options: `exporting.Options`.
    """
    model, buckets = prepared(model, options, settings.max_seq_length)
    module = TextTagger(model, settings, buckets)
    return Servable(
        "tagging",
        (model, module),
        module.tokenizer,
        settings.max_seq_length,
        lambda inputs: module(inputs["text"]),
        texts("text"),
        lambda filler: {"text": filler},
        lambda inputs: {"logits": model(inputs, training=False)["logits"]},
        tokens(),
        {"labels": settings.tags.names},
        options,
    )
