"""`MultipleChoice`: fine-tuning and prediction on contexts and their endings."""

import os
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints import PretrainedFiles
from bert_tf.errors import UserError
from bert_tf.pipelines.arguments import (
    check_list,
    check_same_length,
    check_texts,
    split_columns,
)
from bert_tf.pipelines.keras_training import BATCH_SIZE, EPOCHS
from bert_tf.pipelines.table_arguments import with_columns
from bert_tf.pipelines.task_pipeline import TaskPipeline
from bert_tf.tasks.multiple_choice.config import MultipleChoiceConfig
from bert_tf.tasks.multiple_choice.data import read
from bert_tf.tasks.multiple_choice.reading import CONTEXT, LABEL
from bert_tf.tasks.multiple_choice.servable import MultipleChoiceAnswers, multiple_choice_servable
from bert_tf.tasks.multiple_choice.task import make_model
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="multiple_choice",
    config_class=MultipleChoiceConfig,
    read=read,
    make_model=make_model,
    make_servable=multiple_choice_servable,
    served={"multiple_choice": ServedTask(MultipleChoiceAnswers)},
)

_ARGUMENTS = ("contexts", "endings", "labels")

_TABLE = {
    "contexts": CONTEXT,
    "endings": [("endings", "ending0"), *((f"ending{i}",) for i in range(1, 10))],
    "labels": LABEL,
}


class MultipleChoice(TaskPipeline):
    """Chooses the best of several endings of a text.

    >>> choice = bert_tf.MultipleChoice.from_preset("uncased_L-4_H-256_A-4")
    >>> contexts, endings = ["She opened the door and"], [["went in.", "the sky."]]
    >>> history = choice.fit(contexts, endings, [0], epochs=1, verbose=0)
    >>> choice.predict(contexts, endings)
    [{'choice': ..., 'probabilities': [...]}]

    To train on several devices, create the pipeline in the scope of a strategy.

    Attributes:
      model: a `BertMultipleChoice`, a Keras model on token ids.
      config: the `MultipleChoiceConfig`.
      tokenizer: the `BertTokenizer`.
    """

    spec = SPEC
    config: MultipleChoiceConfig

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike | PretrainedFiles,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool = True,
    ) -> "MultipleChoice":
        """Create the pipeline from a pre-trained or fine-tuned model.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "hf://OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          max_seq_length: maximum sequence length, in tokens; longer contexts and endings are
            truncated. None for the saved setting, else 128.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        return cls._from_preset(
            preset, dtype, load_weights, max_seq_length=max_seq_length, do_lower_case=do_lower_case
        )

    @with_columns(**_TABLE)
    def fit(
        self,
        contexts: Any,
        endings: Any,
        labels: Any,
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

        Args:
          contexts: list of N texts; or, as the only data, a table with the columns "context",
            "endings" (or "ending0", "ending1", ...) and "label": a dict of lists, a DataFrame, a
            `datasets.Dataset` or a `tf.data.Dataset` of dicts.
          endings: list of C texts for each context, or an array (N, C).
          labels: index or text of the correct ending for each context.
          validation_data: (contexts, endings, labels), or a table.
          validation_split: fraction of the contexts to validate on, from the end of the list.
          epochs: number of passes over the contexts.
          batch_size: number of contexts per step, over all devices.
          learning_rate: the peak learning rate, None for 5e-5; see `compile` for the schedule.
          callbacks: list of Keras callbacks.
          shuffle: whether to reshuffle the contexts in each epoch.
          **options: other arguments of `keras.Model.fit`, such as `verbose`.

        Raises:
          UserError: if an argument is invalid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle,
        )  # fmt: skip
        data = (contexts, endings, labels)
        data, validation_data = split_columns(data, _ARGUMENTS, validation_split, validation_data)
        dataset = self._dataset(data, _ARGUMENTS, batch_size, shuffle)
        if validation_data is not None:
            validation_data = self._dataset(validation_data, ["validation_data"] * 3, batch_size)
        return self._fit(dataset, validation_data, config, callbacks, options)

    @with_columns(**_TABLE)
    def evaluate(
        self,
        contexts: Any,
        endings: Any,
        labels: Any,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> dict[str, float]:
        """Return a dict of the loss and the accuracy; see `fit` for the arguments."""
        dataset = self._dataset((contexts, endings, labels), _ARGUMENTS, batch_size)
        return self._evaluate(dataset, options)

    @with_columns(**_TABLE)
    def predict(self, contexts: Any, endings: Any, batch_size: int = 32) -> list[dict[str, Any]]:
        """Choose the best ending for each context.

        Args:
          contexts: list of N texts.
          endings: list of two or more texts for each context.
          batch_size: number of contexts per step.

        Returns:
          A list of dicts, one per context: "choice", the index of the best ending, and
          "probabilities", a list with the probability of each ending.

        Raises:
          UserError: if an argument is invalid.
        """
        contexts, endings = self._check_texts(contexts, endings, _ARGUMENTS)
        rows = [
            {"context": context, "endings": row}
            for context, row in zip(contexts, endings, strict=True)
        ]
        return self._answers(rows, batch_size)

    def _default_compile_arguments(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {"loss": loss, "metrics": [keras.metrics.SparseCategoricalAccuracy("accuracy")]}

    @staticmethod
    def _check_texts(contexts, endings, arguments):
        """Return contexts as a list of str, and endings as a list of lists of two or more str."""
        contexts = check_texts(contexts, arguments[0])
        endings = check_list(endings, arguments[1], "a list of lists of texts")
        check_same_length(arguments[0], contexts, arguments[1], endings)
        for i, row in enumerate(endings):
            endings[i] = check_texts(row, f"{arguments[1]}[{i}]")
            if len(endings[i]) < 2:
                raise UserError(
                    f"`{arguments[1]}`: item {i} is {row!r:.50}, expected two or more endings"
                )
        return contexts, endings

    def _dataset(self, data, arguments, batch_size, shuffle=False):
        """Return a dataset of batches of inputs (B, C, S) and labels (B,)."""
        contexts, endings = self._check_texts(*data[:2], arguments)
        labels = check_list(data[2], arguments[2], "a list")
        check_same_length(arguments[0], contexts, arguments[2], labels)
        if not contexts:
            raise UserError(f"`{arguments[0]}` is empty")
        num_choices = len(endings[0])
        for i, (label, row) in enumerate(zip(labels, endings, strict=True)):
            if len(row) != num_choices:
                raise UserError(
                    f"`{arguments[1]}`: item {i} has {len(row)} endings, expected {num_choices} as "
                    "in the first item"
                )
            if isinstance(label, str) and label in row:
                labels[i] = row.index(label)
            elif not isinstance(label, (int, np.integer)) or not 0 <= label < num_choices:
                raise UserError(
                    f"`{arguments[2]}`: item {i} is {label!r:.50}, expected one of the endings or "
                    f"a number from 0 to {num_choices - 1}"
                )

        def encode(contexts, endings, labels):
            batch = self.tokenizer(tf.repeat(contexts, num_choices), tf.reshape(endings, (-1,)))
            batch = self._pad(batch)
            size = tf.shape(batch["input_ids"])[1]
            inputs = {name: tf.reshape(x, (-1, num_choices, size)) for name, x in batch.items()}
            return inputs, labels

        columns = (tf.constant(contexts), tf.constant(endings), tf.constant(labels, tf.int32))
        return self._batches(columns, encode, batch_size, shuffle)
