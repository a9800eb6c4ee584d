"""Fine-tune and apply a question answering model: questions and contexts in, answers out."""

import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints import PretrainedFiles
from bert_tf.data.rows import BadRows
from bert_tf.errors import UserError
from bert_tf.pipelines.arguments import (
    check_list,
    check_same_length,
    check_texts,
    split_columns,
)
from bert_tf.pipelines.keras_training import BATCH_SIZE, EPOCHS, ragged
from bert_tf.pipelines.table_arguments import with_columns
from bert_tf.pipelines.task_pipeline import TaskPipeline
from bert_tf.tasks.question_answering import SPEC, QuestionAnsweringConfig
from bert_tf.tasks.question_answering.features import FeatureConverter
from bert_tf.tasks.question_answering.reading import Answer, Paragraph, Question
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.special_tokens import CLS, SEP

_ARGUMENTS = ("questions", "contexts", "answers")

# Names of the columns of a table.
_TABLE = {"questions": ("question",), "contexts": ("context",), "answers": ("answers", "answer")}


class QuestionAnswering(TaskPipeline):
    """Answers questions with a part of a context: fine-tuning and prediction on strings.

    >>> qa = bert_tf.QuestionAnswering.from_preset("uncased_L-4_H-256_A-4")
    >>> context = "The inn was built in 1821 by a miller."
    >>> history = qa.fit(["When was it built?"], [context], ["1821"], epochs=1, verbose=0)
    >>> sorted(qa.predict("Who built it?", context))
    ['answer', 'end', 'score', 'start']

    `model` is a Keras model, a `BertSpanLabeler` on token ids. To train on several devices, create
    the pipeline in the scope of a strategy.

    Attributes:
      model: the `BertSpanLabeler`.
      config: its `tasks.QuestionAnsweringConfig`.
      tokenizer: the `BertTokenizer`.
    """

    spec = SPEC
    _reads_padding = True
    config: QuestionAnsweringConfig

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike | PretrainedFiles,
        version_2_with_negative: bool | None = None,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool = True,
        **options: Any,
    ) -> "QuestionAnswering":
        """Create the pipeline from a pre-trained or a fine-tuned model.

        The settings of a model that `run_squad.py` or `save_to_preset` saved are read from its
        files; the head of any other model may be new.

        Args:
          preset: a folder or checkpoint of the release or of a training run; a Hugging Face folder;
            or the name of a published model (`checkpoints.MODELS`) or "hf://OWNER/NAME", downloaded
            if it is not in the cache.
          version_2_with_negative: whether a question may have no answer, as in SQuAD 2.0; None for
            the setting in the files of the model, else False.
          max_seq_length: longest sequence in tokens; longer contexts are read in overlapping
            windows. None for that in the files of the model, else 384.
          do_lower_case: whether the model is uncased; None for the casing in the files of the
            model.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False they are random.
          **options: other attributes of `tasks.QuestionAnsweringConfig`, such as `doc_stride`,
            `max_query_length`, `max_answer_length` and `n_best_size`.

        Raises:
          UserError: if there is no such model, or an argument does not fit it.
        """
        known = QuestionAnsweringConfig.saved_options()
        if unknown := [name for name in options if name not in known]:
            raise UserError(f"`{unknown[0]}`: expected one of {', '.join(known)}")
        pipeline = cls._from_preset(
            preset,
            dtype,
            load_weights,
            version_2_with_negative=version_2_with_negative,
            max_seq_length=max_seq_length,
            do_lower_case=do_lower_case,
            **options,
        )
        pipeline.config.check_lengths()
        return pipeline

    @with_columns(**_TABLE)
    def fit(
        self,
        questions: Any,
        contexts: Any,
        answers: Any,
        validation_data: Any = None,
        validation_split: float = 0.0,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        learning_rate: float | None = None,
        callbacks: Any = None,
        shuffle: bool = True,
        **options: Any,
    ) -> keras.callbacks.History:
        """Train the model, with `keras.Model.fit`.

        The optimizer is that of the release, with 10 % warm-up and linear decay over the steps of
        this call, unless `compile` was called with another one. A question whose answer is not in
        its context is skipped, and a warning reports their number.

        Args:
          questions: list of str.
          contexts: list of str, the context of each question.
          answers: list with an answer for each question: a str, of which the first occurrence in
            the context counts; (text, start), where start is the offset of its first character; a
            dict with "text" and "answer_start" as in SQuAD; or None for no answer.
          validation_data: (questions, contexts, answers).
          validation_split: share of the questions, from the end, to validate on instead.
          epochs: number of passes over the questions.
          batch_size: number of windows in a step, over all devices.
          learning_rate: the peak rate, by default 5e-5.
          callbacks: list of Keras callbacks.
          shuffle: whether to shuffle the windows, anew for each epoch.
          **options: further arguments of `keras.Model.fit`, such as `verbose`.

        Returns:
          The `keras.callbacks.History`.

        Raises:
          UserError: if an argument is not valid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle,
        )  # fmt: skip
        data = (questions, contexts, answers)
        if validation_split:
            data, validation_data = split_columns(data, validation_split, validation_data)
        dataset = self._dataset(data, _ARGUMENTS, batch_size, shuffle)
        if validation_data is not None:
            if not isinstance(validation_data, (tuple, list)) or len(validation_data) != 3:
                raise UserError("`validation_data`: expected (questions, contexts, answers)")
            validation_data = self._dataset(validation_data, ["validation_data"] * 3, batch_size)
        return self._fit(dataset, validation_data, config, callbacks, options)

    @with_columns(**_TABLE)
    def evaluate(
        self,
        questions: Any,
        contexts: Any,
        answers: Any,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> dict[str, float]:
        """Return the loss and the accuracies of start and end of all windows, by name."""
        dataset = self._dataset((questions, contexts, answers), _ARGUMENTS, batch_size)
        return self._evaluate(dataset, options)

    @with_columns(**_TABLE)
    def predict(self, questions: Any, contexts: Any, batch_size: int = 8) -> Any:
        """Answer questions.

        Args:
          questions: a str, or a list of str.
          contexts: the context of all questions as a str, or a list with that of each.
          batch_size: number of questions whose contexts are read at a time.

        Returns:
          For each question a dict, or only the dict if `questions` is a str: "answer", "" for no
          answer; "start" and "end", the offsets of its first character and after its last one in
          the context, -1 for no answer; "score", its probability among the best answers; and with
          `version_2_with_negative` also "null_odds", the score of no answer minus that of the best.

        Raises:
          UserError: if an argument is not valid.
        """
        is_single = isinstance(questions, str)
        questions = check_texts([questions] if is_single else questions, "questions")
        if isinstance(contexts, str):
            contexts = [contexts] * len(questions)
        contexts = check_texts(contexts, "contexts")
        check_same_length("questions", questions, "contexts", contexts)
        rows = [
            {"question": question, "context": context}
            for question, context in zip(questions, contexts, strict=True)
        ]
        answers = self._answers(rows, batch_size)
        return answers[0] if is_single else answers

    def _default_compile_arguments(self):
        outputs = ("start_logits", "end_logits")
        loss = keras.losses.SparseCategoricalCrossentropy
        accuracy = keras.metrics.SparseCategoricalAccuracy
        return {
            "loss": {name: loss(from_logits=True) for name in outputs},
            "loss_weights": dict.fromkeys(outputs, 0.5),
            "metrics": {name: [accuracy("accuracy")] for name in outputs},
        }

    def _dataset(self, columns, arguments, batch_size, shuffle=False):
        """Return a dataset of batches of inputs and positions, of all windows."""
        cls_id, sep_id = self.tokenizer.vocab[CLS], self.tokenizer.vocab[SEP]
        ids, segment_ids, positions = [], [], []
        for window in self._windows(columns, arguments):
            tokens = window.context.ids[window.first : window.first + window.length]
            query = [cls_id, *window.query, sep_id]
            ids.append([*query, *tokens, sep_id])
            segment_ids.append([0] * len(query) + [1] * (len(tokens) + 1))
            positions.append((window.start_position, window.end_position))
        if not ids:
            raise UserError(f"`{arguments[2]}`: no answer is in its context")

        def encode(ids, segment_ids, positions):
            inputs = {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": segment_ids}
            inputs = self._pad({name: x.to_tensor() for name, x in inputs.items()})
            return inputs, {"start_logits": positions[:, 0], "end_logits": positions[:, 1]}

        rows = (ragged(ids), ragged(segment_ids), tf.constant(positions))
        return self._batches(rows, encode, batch_size, shuffle)

    def _windows(self, columns, arguments):
        """Yield each `Window` of all questions, as run_squad.py trains on them."""
        questions, contexts = (
            check_texts(column, argument)
            for column, argument in zip(columns[:2], arguments[:2], strict=True)
        )
        answers = check_list(columns[2], arguments[2], "a list of answers")
        if not questions:
            raise UserError(f"`{arguments[0]}` is empty")
        check_same_length(arguments[0], questions, arguments[1], contexts)
        check_same_length(arguments[0], questions, arguments[2], answers)
        tokenizer = FullTokenizer(self.config.vocab, **self.config.tokenizer_settings)
        converter = FeatureConverter(tokenizer, self.config, is_training=True)
        skipped = BadRows(skip=True)
        rows = zip(questions, contexts, answers, strict=True)
        for i, (text, context, answer) in enumerate(rows):
            where = f"`{arguments[2]}`: item {i}"
            found = _read_answer(answer, context, where)
            if not found and not self.config.version_2_with_negative:
                raise UserError(
                    f"{where} is no answer; create the pipeline with `version_2_with_negative=True`"
                )
            question = Question(where, str(i), text, found, not found)
            ((_, windows, _),) = converter(Paragraph(where, context, (question,)))
            if not windows:
                skipped(f"{where} is {answer!r:.50}")
            yield from windows
        skipped.report("questions skipped because their answer is not in the context")


def _read_answer(answer, context, where):
    """Return a tuple with the `Answer` that a user gave, an empty one for no answer.

    Raises:
      UserError: if it has another form; it names `where`.
    """
    text, start = answer, None
    if isinstance(answer, Mapping):
        text, start = answer.get("text"), answer.get("answer_start")
        if isinstance(text, (list, tuple)):
            text, start = (text[0], start[0]) if text and start else (None, None)
    elif isinstance(answer, (list, tuple)) and len(answer) == 2:
        text, start = answer
    if not text:
        return ()
    if not isinstance(text, str) or not isinstance(start, (int, np.integer, type(None))):
        raise UserError(f"{where} is {answer!r:.50}, expected a text, (text, start) or None")
    if start is None:
        start = context.find(text)
        # The length of the context is never the start of an answer.
        start = len(context) if start < 0 else start
    return (Answer(text, int(start)),)
