"""A SavedModel that finds answers: question and context in, both as text, the answer out.

Letters: B questions, W windows of all their contexts, S positions, L tokens of the longest answer,
K spans of a window, T tokens of all contexts.
"""

import tensorflow as tf

from bert_tf.serving.buckets import Buckets
from bert_tf.serving.exporting import Servable, prepared, texts, tokens
from bert_tf.serving.windows import Windows, parts
from bert_tf.tasks.question_answering.decoding import MAX_NULL_ODDS
from bert_tf.tasks.question_answering.features import NUM_SPECIAL_TOKENS
from bert_tf.tokenization.graph import GraphTokenizer

# Windows that the model reads at a time: a context of any length needs the memory of these.
_WINDOWS_AT_A_TIME = 32

_NONE = tf.float32.min
_TEXTS = tf.TensorSpec((None,), tf.string)


class Answerer(tf.Module):
    """Answers questions, cutting contexts and choosing spans as run_squad.py does.

    It answers with the best span of all. run_squad.py looks for it among the `n_best_size` best
    starts and ends of a window, as the release does, so it may pass over one where neither is.
    """

    def __init__(self, model, settings, buckets=None):
        """Takes a `BertSpanLabeler` or what stands for it, its `SpanSettings`, and `Buckets`."""
        super().__init__()
        self._model = model
        self._buckets = buckets or Buckets((), settings.max_seq_length)
        self.tokenizer = GraphTokenizer(settings.vocab_file, settings.do_lower_case)
        self._cut, self._choice = settings.window_config, settings.decoding_config

    @tf.function(input_signature=[_TEXTS, _TEXTS])
    def __call__(self, questions, contexts):
        """Finds the answers.

        Args:
          questions: string (B,), UTF-8; cut to `max_query_length` tokens.
          contexts: string (B,), UTF-8, of any length.

        Returns:
          Dict: `answer` string (B,), "" where there is none; `start` and `end` int32 (B,), its
          first character in the context and the one behind it, -1 where there is none; `score`
          float32 (B,), the probability among the `n_best_size` best spans; with SQuAD 2.0 also
          `null_odds` float32 (B,), how much "no answer" scores above the best answer.
        """
        ids, starts, ends = self.tokenizer.tokenize_with_offsets(contexts)
        queries = self.tokenizer.tokenize(questions)[:, : self._cut.max_query_length]
        windows = _Windows(queries, ids, self._cut)
        scores, firsts, lengths, null = self._read(windows)

        # Of each question the spans of all its windows, in one row.
        def in_rows(values, missing):
            ragged = tf.RaggedTensor.from_row_lengths(values, windows.counts, validate=False)
            dense = ragged.to_tensor(missing)
            dense = tf.reshape(dense, (tf.size(windows.counts), -1))
            # Something to choose from where no context has a token.
            return tf.pad(dense, [[0, 0], [0, self._size]], constant_values=missing)

        scores, order = tf.math.top_k(in_rows(scores, _NONE), self._size)
        first = tf.gather(in_rows(firsts, 0), order[:, 0], batch_dims=1)
        last = first + tf.gather(in_rows(lengths, 0), order[:, 0], batch_dims=1)
        best = scores[:, 0]
        is_answered, chosen = best > _NONE, best
        results = {}
        if self._choice.version_2_with_negative:
            null = tf.math.segment_min(null, windows.texts)
            null = tf.pad(null, [[0, tf.size(best) - tf.size(null)]])
            odds = tf.where(is_answered, null - best, MAX_NULL_ODDS)
            is_answered &= odds <= self._choice.null_score_diff_threshold
            scores = tf.concat([scores, null[:, None]], 1)
            chosen = tf.where(is_answered, best, null)
            results["null_odds"] = odds
        probability = tf.exp(chosen - tf.reduce_logsumexp(scores, 1))

        def character(places, tokens):
            # Marks change places when they are put in order, so the last may begin before.
            return tf.gather(tf.concat([places.values, [0]], 0), tokens)

        start = tf.minimum(character(starts, first), character(starts, last))
        end = tf.maximum(character(ends, first), character(ends, last))
        # Where there is no answer the place is another context's, and may lie behind this one.
        begin = tf.where(is_answered, start, 0)
        return {
            "answer": parts(
                contexts,
                tf.range(tf.size(contexts)),
                begin,
                begin + tf.where(is_answered, end - start, 0),
            ),
            "score": tf.where(best > _NONE, probability, 0.0),
            "start": tf.where(is_answered, start, -1),
            "end": tf.where(is_answered, end, -1),
            **results,
        }

    @property
    def _size(self):
        return self._choice.n_best_size

    def _read(self, windows):
        """What the model finds in all windows, some at a time.

        Returns:
          (scores (W, K), the spans' first tokens among T, how many tokens come behind it (W, K),
          score of "no answer" (W,))
        """
        longest = self._choice.max_answer_length
        count = tf.size(windows.texts)
        steps = (count + _WINDOWS_AT_A_TIME - 1) // _WINDOWS_AT_A_TIME

        def array(dtype, *shape):
            return tf.TensorArray(
                dtype, steps, infer_shape=False, element_shape=tf.TensorShape((None, *shape))
            )

        found = [
            array(tf.float32, self._size),
            array(tf.int32, self._size),
            array(tf.int32, self._size),
            array(tf.float32),
        ]
        for step in tf.range(steps):
            rows = tf.range(
                step * _WINDOWS_AT_A_TIME, tf.minimum(count, (step + 1) * _WINDOWS_AT_A_TIME)
            )
            inputs, may_begin, may_end, token = windows.inputs(
                rows,
                self.tokenizer.vocab["[CLS]"],
                self.tokenizer.vocab["[SEP]"],
                self._buckets,
            )
            outputs = self._model(inputs, training=False)
            begin, end = outputs["start_logits"], outputs["end_logits"]
            null = begin[:, 0] + end[:, 0]
            begin = tf.where(may_begin, begin, _NONE)
            end = tf.pad(
                tf.where(may_end, end, _NONE), [[0, 0], [0, longest]], constant_values=_NONE
            )
            size = tf.shape(begin)[1]
            # (S, L): from each position so many tokens on.
            spans = tf.stack([begin + end[:, i : i + size] for i in range(longest)], 2)
            spans = tf.maximum(spans, _NONE)
            spans = tf.reshape(spans, (-1, size * longest))
            spans = tf.pad(spans, [[0, 0], [0, self._size]], constant_values=_NONE)
            values, places = tf.math.top_k(spans, self._size)
            firsts = tf.gather(token, tf.minimum(places // longest, size - 1), batch_dims=1)
            made = (values, firsts, places % longest, null)
            found = [array.write(step, value) for array, value in zip(found, made, strict=True)]
        return [array.concat() for array in found]


class _Windows(Windows):
    """Windows of contexts and questions, laid out as in `tasks.question_answering.features`."""

    def __init__(self, queries, contexts, cut):
        """Lays the windows of ids (B, None) beside questions (B, None)."""
        self._queries, self._contexts = queries, contexts
        query, total = (tf.cast(x.row_lengths(), tf.int32) for x in (queries, contexts))
        super().__init__(total, cut.max_seq_length - query - NUM_SPECIAL_TOKENS, cut.doc_stride)
        self._query = tf.gather(query, self.texts)

    def inputs(self, rows, cls_id, sep_id, buckets):
        """The model's inputs for some of the windows, padded as `buckets` says.

        Returns:
          (dict of int32 (R, S), where an answer may begin: bool (R, S), where it may end, the token
          among T of each position: int32 (R, S))
        """
        query, first, length = (
            tf.gather(x, rows)[:, None] for x in (self._query, self.first, self.length)
        )
        questions = tf.gather(self.texts, rows)
        used = query + length + NUM_SPECIAL_TOKENS
        position = tf.range(buckets(tf.reduce_max(used)))[None, :]
        place = position - query - 2
        is_text = (place >= 0) & (place < length)
        starts = tf.cast(tf.gather(self._contexts.row_starts(), questions), tf.int32)[:, None]
        token = tf.where(is_text, starts + first + place, 0)
        is_asked = (position >= 1) & (position <= query)
        asked = tf.cast(tf.gather(self._queries.row_starts(), questions), tf.int32)[:, None]
        asked = tf.where(is_asked, asked + position - 1, 0)
        ids = tf.where(is_text, tf.gather(tf.concat([self._contexts.values, [0]], 0), token), 0)
        ids = tf.where(is_asked, tf.gather(tf.concat([self._queries.values, [0]], 0), asked), ids)
        ids = tf.where((position == query + 1) | (position == used - 1), sep_id, ids)
        ids = tf.where(position == 0, cls_id, ids)
        inputs = {
            "input_ids": ids,
            "input_mask": tf.cast(position < used, tf.int32),
            "segment_ids": tf.cast((position > query + 1) & (position < used), tf.int32),
        }
        return inputs, is_text & self.is_max_context(rows, place), is_text, token


def answerer(model, settings, options):
    """A `BertSpanLabeler` as a `Servable`: texts as `Answerer` takes them; ids to both logits.

    Args:
      model: the model.
      settings: its `SpanSettings`.
      options: `exporting.Options`.
    """
    model, buckets = prepared(model, options, settings.max_seq_length)
    module = Answerer(model, settings, buckets)

    def ids(inputs):
        outputs = model(inputs, training=False)
        return {name: outputs[name] for name in ("start_logits", "end_logits")}

    return Servable(
        "answers",
        (model, module),
        module.tokenizer,
        settings.max_seq_length,
        lambda inputs: module(inputs["question"], inputs["context"]),
        texts("question", "context"),
        # Two texts have a separator more.
        lambda filler: {"question": "", "context": filler.partition(" ")[2]},
        ids,
        tokens(),
        {},
        options,
    )
