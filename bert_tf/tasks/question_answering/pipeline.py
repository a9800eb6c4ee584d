"""`QuestionAnswering`: fine-tuning and prediction of answers, on strings."""

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
from bert_tf.tasks.question_answering.config import QuestionAnsweringConfig
from bert_tf.tasks.question_answering.data import make_model, read
from bert_tf.tasks.question_answering.features import FeatureConverter
from bert_tf.tasks.question_answering.reading import Answer, Paragraph, Question
from bert_tf.tasks.question_answering.servable import question_answering_servable
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.special_tokens import CLS, SEP
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="question_answering",
    config_class=QuestionAnsweringConfig,
    read=read,
    make_model=make_model,
    make_servable=question_answering_servable,
    served={"question_answering": ServedTask(options=("version_2_with_negative",))},
)

_ARGUMENTS = ("questions", "contexts", "answers")

_TABLE = {"questions": ("question",), "contexts": ("context",), "answers": ("answers", "answer")}


class QuestionAnswering(TaskPipeline):
    """Extractive question answering: answers are spans of a context.

    >>> qa = bert_tf.QuestionAnswering.from_preset("uncased_L-4_H-256_A-4")
    >>> context = "The inn was built in 1821 by a miller."
    >>> history = qa.fit(["When was it built?"], [context], ["1821"], epochs=1, verbose=0)
    >>> sorted(qa.predict("Who built it?", context))
    ['answer', 'end', 'score', 'start']

    To train on several devices, create the pipeline in the scope of a strategy.

    Attributes:
      model: the `BertSpanLabeler`, a Keras model on token ids.
      config: the `QuestionAnsweringConfig`.
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
        """Create the pipeline from a pre-trained or fine-tuned model.

        If the model has no head for question answering, a new one is initialized.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "hf://OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          version_2_with_negative: whether a question may have no answer, as in SQuAD 2.0; None for
            the saved setting, else False.
          max_seq_length: maximum sequence length, in tokens; longer contexts are split into
            overlapping windows. None for the saved setting, else 384.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random.
          **options: other attributes of `QuestionAnsweringConfig`, such as `doc_stride`,
            `max_query_length`, `max_answer_length` and `n_best_size`.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        return cls._from_preset(
            preset, dtype, load_weights, version_2_with_negative=version_2_with_negative,
            max_seq_length=max_seq_length, do_lower_case=do_lower_case, **options,
        )  # fmt: skip

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
        """Train the model with `keras.Model.fit`.

        Questions whose answer is not in the context are skipped; a warning reports their number.

        Args:
          questions: list of str; or, as the only data, a table with the columns "question",
            "context" and "answers" or "answer": a dict of lists, a DataFrame, a
            `datasets.Dataset` or a `tf.data.Dataset` of dicts.
          contexts: list of str, the context of each question.
          answers: list with one answer per question: a str, located by its first occurrence in the
            context; (text, start), where start is the offset of its first character; a dict with
            "text" and "answer_start" as in SQuAD; or None for no answer.
          validation_data: (questions, contexts, answers), or a table.
          validation_split: fraction of the questions to validate on, from the end of the list.
          epochs: number of passes over the questions.
          batch_size: number of windows per step, over all devices.
          learning_rate: the peak learning rate, None for 5e-5; see `compile` for the schedule.
          callbacks: list of Keras callbacks.
          shuffle: whether to reshuffle the windows in each epoch.
          **options: other arguments of `keras.Model.fit`, such as `verbose`.

        Raises:
          UserError: if an argument is invalid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle,
        )  # fmt: skip
        data = (questions, contexts, answers)
        data, validation_data = split_columns(data, _ARGUMENTS, validation_split, validation_data)
        dataset = self._dataset(data, _ARGUMENTS, batch_size, shuffle)
        if validation_data is not None:
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
        """Return a dict of the loss and the start and end accuracies of all windows; see `fit`."""
        dataset = self._dataset((questions, contexts, answers), _ARGUMENTS, batch_size)
        return self._evaluate(dataset, options)

    @with_columns(**_TABLE)
    def predict(self, questions: Any, contexts: Any, batch_size: int = 8) -> Any:
        """Answer questions.

        Args:
          questions: a str, or a list of str.
          contexts: a str for all questions, or a list with one context per question.
          batch_size: number of questions per batch.

        Returns:
          A list of dicts, or one dict if `questions` is a str:
            "answer": the text, "" for no answer;
            "start" and "end": its character offsets in the context (end exclusive), -1 for no
              answer;
            "score": its probability among the best answers;
            "null_odds": with `version_2_with_negative`, the score of "no answer" minus the score of
              the best answer.

        Raises:
          UserError: if an argument is invalid.
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
        """Return a dataset of batches of inputs and positions for all windows."""
        cls_id, sep_id = self.tokenizer.vocab[CLS], self.tokenizer.vocab[SEP]
        ids, segment_ids, positions = [], [], []
        for window in self._windows(columns, arguments):
            tokens = window.context.ids[window.first : window.first + window.length]
            query = [cls_id, *window.query, sep_id]
            ids.append([*query, *tokens, sep_id])
            segment_ids.append([0] * len(query) + [1] * (len(tokens) + 1))
            positions.append((window.start_position, window.end_position))
        if not ids:
            raise UserError(f"`{arguments[2]}`: found no answer in its context")

        def encode(ids, segment_ids, positions):
            inputs = {"input_ids": ids, "input_mask": tf.ones_like(ids), "segment_ids": segment_ids}
            inputs = self._pad({name: x.to_tensor() for name, x in inputs.items()})
            return inputs, {"start_logits": positions[:, 0], "end_logits": positions[:, 1]}

        rows = (ragged(ids), ragged(segment_ids), tf.constant(positions))
        return self._batches(rows, encode, batch_size, shuffle)

    def _windows(self, columns, arguments):
        """Yield the training `Window`s of all questions, as in run_squad.py."""
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
            parsed = _read_answer(answer, context, where)
            if not parsed and not self.config.version_2_with_negative:
                raise UserError(
                    f"{where} is empty; create the pipeline with `version_2_with_negative=True` to "
                    "allow questions without an answer"
                )
            question = Question(where, str(i), text, parsed, not parsed)
            ((_, windows, _),) = converter(Paragraph(where, context, (question,)))
            if not windows:
                skipped(f"{where} is {answer!r:.50}")
            yield from windows
        skipped.report("questions skipped because their answer is not in the context")


def _read_answer(answer, context, where):
    """Convert an item of `answers` to a tuple with one `Answer`, or none for "no answer"."""
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
        # No text is found at the end of the context, so the question is skipped.
        start = len(context) if start < 0 else start
    return (Answer(text, int(start)),)
