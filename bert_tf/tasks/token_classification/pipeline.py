"""`TokenClassification`: fine-tuning and prediction, on strings or lists of words."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.checkpoints import PretrainedFiles, read_metadata
from bert_tf.errors import UserError
from bert_tf.pipelines.arguments import (
    check_list,
    check_same_length,
    check_texts,
    split_columns,
)
from bert_tf.pipelines.keras_training import BATCH_SIZE, EPOCHS, AddScores, ragged
from bert_tf.pipelines.table_arguments import with_columns
from bert_tf.pipelines.task_pipeline import TaskPipeline
from bert_tf.tasks.classification.labels import LabelEncoder
from bert_tf.tasks.token_classification.config import TokenClassificationConfig
from bert_tf.tasks.token_classification.data import read
from bert_tf.tasks.token_classification.features import NOT_WORD_START, convert_windows
from bert_tf.tasks.token_classification.schemes import OUTSIDE, tag_names
from bert_tf.tasks.token_classification.servable import (
    TokenClassificationAnswers,
    token_classification_servable,
)
from bert_tf.tasks.token_classification.targets import encode_entities, encode_tags
from bert_tf.tasks.token_classification.task import TokenClassificationTask, make_model
from bert_tf.training.jax_devices import predict_on_batch
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="token_classification",
    config_class=TokenClassificationConfig,
    read=read,
    make_model=make_model,
    make_servable=token_classification_servable,
    served={"token_classification": ServedTask(TokenClassificationAnswers, options=("labels",))},
)

_ARCHITECTURE = "BertForTokenClassification"
_COLUMNS = ("input_ids", "tag_ids", "word_starts")

_TABLE = {
    "texts": ("tokens", "words", "text"),
    "labels": ("ner_tags", "tags", "labels", "entities"),
}


class TokenClassification(TaskPipeline):
    """Finds entities in texts, or tags words.

    >>> ner = bert_tf.TokenClassification.from_preset(
    ...     "uncased_L-4_H-256_A-4", labels=["PER", "LOC"]
    ... )
    >>> spans = [{"start": 0, "end": 10, "label": "PER"}, {"start": 23, "end": 33, "label": "LOC"}]
    >>> history = ner.fit(["Jim Henson was born in Greenville."], [spans], epochs=1, verbose=0)
    >>> ner.predict(["Jim Henson was born in Greenville."])
    [{'entities': [...]}]

    To train on several devices, create the pipeline in the scope of a strategy.

    Attributes:
      model: a `BertTokenClassifier`, a Keras model on token ids.
      config: the `TokenClassificationConfig`.
      tokenizer: the `BertTokenizer`.
    """

    spec = SPEC
    config: TokenClassificationConfig

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike | PretrainedFiles,
        labels: Sequence[str] | None = None,
        scheme: str | None = None,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool = True,
    ) -> "TokenClassification":
        """Create the pipeline from a pre-trained or fine-tuned model.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "hf://OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          labels: the labels of a new head: either entity labels, such as "PER", or all tags in the
            order of their ids, such as "O", "B-PER", "I-PER". None to load the saved head.
          scheme: the tagging scheme of a new head: "iob2", "iobes", or "none" if each word has one
            of the `labels`, such as its part of speech. None for "iob2".
          max_seq_length: maximum sequence length, in tokens; longer texts are split into
            overlapping windows. None for the saved setting, else 128.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        if labels is not None:
            labels = check_texts(labels, "labels")
            if scheme not in (None, "iob2", "iobes", "none"):
                raise UserError(f"`scheme={scheme}`: expected iob2, iobes or none")
            if OUTSIDE not in labels:
                labels = tag_names(labels, scheme or "iob2")
        elif scheme is not None:
            raise UserError("`scheme` requires `labels`")
        return cls._from_preset(
            preset, dtype, load_weights,
            labels=labels, max_seq_length=max_seq_length, do_lower_case=do_lower_case,
        )  # fmt: skip

    @classmethod
    def _config_values(cls, checkpoint, stored, values):
        if stored:
            if values:
                raise UserError(
                    f"`{next(iter(values))}` cannot be combined with the settings in {checkpoint}"
                )
            return values
        if "labels" not in values:
            metadata = read_metadata(checkpoint)
            if _ARCHITECTURE not in metadata.get("architectures", ()):
                raise UserError(
                    f"`labels` must be given: {checkpoint} has no token classifier; for example "
                    'labels=["PER", "ORG"]'
                )
            values = {**values, "labels": metadata.get("labels", ())}
        return values

    @with_columns(**_TABLE)
    def fit(
        self,
        texts: Any,
        labels: Any,
        validation_data: Any = None,
        validation_split: float = 0.0,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        learning_rate: float | None = None,
        callbacks: Any = None,
        class_weight: Mapping[Any, float] | None = None,
        shuffle: bool = True,
        **options: Any,
    ) -> keras.callbacks.History:
        """Train the model with `keras.Model.fit`; the loss is the mean over words.

        Args:
          texts: list of str, or list of sentences, which are lists of words; or, as the only data,
            a table with the columns "tokens" and "ner_tags", or "text" and "entities": a dict of
            lists, a DataFrame, a `datasets.Dataset` or a `tf.data.Dataset` of dicts.
          labels: for str, a list of entities per text: dicts with "start", "end" and "label", as
            `predict` returns them, or tuples (start, end, label). For sentences, a list of tags or
            tag indices per sentence, one for each word.
          validation_data: (texts, labels), or a table. Each epoch adds the results of `evaluate` on
            them to the history and the logs of the callbacks, such as "val_f1".
          validation_split: fraction of the texts to validate on, from the end of the list.
          epochs: number of passes over the texts.
          batch_size: number of windows per step, over all devices.
          learning_rate: the peak learning rate, None for 5e-5; see `compile` for the schedule.
          callbacks: list of Keras callbacks.
          class_weight: dict from tags, or their indices, to the loss weights of their words, 1 if
            missing.
          shuffle: whether to reshuffle the windows in each epoch.
          **options: other arguments of `keras.Model.fit`, such as `verbose`.

        Raises:
          UserError: if an argument is invalid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle,
        )  # fmt: skip
        for name in ("validation_steps", "validation_freq", "validation_batch_size"):
            if name in options:
                raise UserError(
                    f"`{name}` is not supported: each epoch ends with `evaluate` on all of "
                    "`validation_data`"
                )
        tags: Any = self.config.tags
        encoder = LabelEncoder("classification", tags.names)
        tag_weights = encoder.label_weights(class_weight)
        data, validation_data = split_columns(
            (texts, labels), ("texts", "labels"), validation_split, validation_data
        )

        def encode(batch):
            tags = batch.pop("tag_ids")
            weights = tf.cast(batch.pop("word_starts") != NOT_WORD_START, tf.float32)
            if tag_weights is not None:
                weights *= tf.gather(tf.constant(tag_weights), tags)
            # Keras divides the sum by the number of tokens. These weights turn it into the mean
            # over the words of the whole batch, even across devices.
            total = tf.reduce_sum(weights)
            weights *= tf.math.divide_no_nan(tf.cast(tf.size(weights), tf.float32), total)
            return batch, tags, weights

        dataset = self._dataset(data, ("texts", "labels"), batch_size, encode, shuffle)
        callbacks = keras.tree.flatten(callbacks or [])
        if validation_data is not None:
            names = ["validation_data"] * 2
            validation = self._dataset(validation_data, names, batch_size)
            callbacks.insert(0, AddScores(lambda: self._scores(validation)))
        return self._fit(dataset, None, config, callbacks, options)

    @with_columns(**_TABLE)
    def evaluate(self, texts: Any, labels: Any, batch_size: int = BATCH_SIZE) -> dict[str, float]:
        """Return a dict of the metrics of `run_ner.py`; see `fit` for the arguments.

        "loss" is the mean over words, and "accuracy" the fraction of words with the correct tag. If
        the tags mark entities, "precision", "recall" and "f1" of whole entities are as in
        conlleval.
        """
        dataset = self._dataset((texts, labels), ("texts", "labels"), batch_size)
        return self._scores(dataset)

    @with_columns(**_TABLE)
    def predict(self, texts: Any, batch_size: int = 32) -> Any:
        """Find the entities in texts, or tag words.

        Args:
          texts: a str, a list of str, or a list of lists of words; of any length.
          batch_size: number of texts per batch.

        Returns:
          For a list of str, a list of dicts {"entities": list}; for a str, a single dict. Each
          entity is a dict:
            "entity": its text;
            "label": its label;
            "start" and "end": its character offsets (end exclusive);
            "score": the mean probability of its words.
          For lists of words, a list of lists of tags.

        Raises:
          UserError: if `texts` is invalid.
        """
        if isinstance(texts, str):
            return self.predict([texts], batch_size)[0]
        texts = check_list(texts, "texts", "a list of texts or of lists of words")
        if not texts or isinstance(texts[0], str):
            rows = [{"text": text} for text in check_texts(texts, "texts")]
            return self._answers(rows, batch_size)
        self._warn_if_random("the tags")
        dataset = self._dataset((texts, None), ("texts", ""), batch_size)
        task = TokenClassificationTask(self.config, model=self.model)
        return task.tags(self._predictions(dataset, task))

    def _default_compile_arguments(self):
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
        return {"loss": loss, "weighted_metrics": [accuracy]}

    def _scores(self, dataset):
        task = TokenClassificationTask(self.config, model=self.model)
        scores = task.metrics(self._predictions(dataset, task))
        return {name.removeprefix("eval_"): value for name, value in scores.items()}

    def _predictions(self, dataset, task):
        """Return the `predictions` of the task for all windows, a dict of arrays (N, ...)."""
        batches = []
        with self._running_keras():
            for batch in dataset:
                inputs = {name: x for name, x in batch.items() if name not in _COLUMNS[1:]}
                outputs = predict_on_batch(self.model, inputs)
                batches.append(task.predictions(outputs, batch))
        return {name: np.concatenate([x[name] for x in batches]) for name in batches[0]}

    def _dataset(self, data, arguments, batch_size, encode=None, shuffle=False):
        """Return a dataset of window batches, each a dict to which `encode` is applied."""
        rows: list[list] = [[] for _ in _COLUMNS]
        for words in self._encode(*data, *arguments):
            for window in convert_windows(*words, self.tokenizer, self.config, pad=False):
                for name, column in zip(_COLUMNS, rows, strict=True):
                    column.append(window[name])
        if not rows[0]:
            raise UserError(f"`{arguments[0]}`: found no words")

        def unpack(*columns):
            batch = dict(zip(_COLUMNS, (x.to_tensor() for x in columns), strict=True))
            ids = batch["input_ids"]
            mask = tf.sequence_mask(columns[0].row_lengths(), tf.shape(ids)[1], tf.int32)
            batch |= {"input_mask": mask, "segment_ids": tf.zeros_like(ids)}
            batch = self._pad(batch)
            return encode(batch) if encode else batch

        return self._batches(tuple(map(ragged, rows)), unpack, batch_size, shuffle)

    def _encode(self, texts, labels, texts_argument, labels_argument):
        """Yield the lists of `encode_words` for each text; without labels, all tag ids are 0."""
        texts = check_list(texts, texts_argument, "a list of texts or of lists of words")
        if labels is not None:
            labels = check_list(labels, labels_argument, "a list")
            check_same_length(texts_argument, texts, labels_argument, labels)
        if texts and isinstance(texts[0], str):
            return encode_entities(
                check_texts(texts, texts_argument), labels, labels_argument, self.config
            )
        return encode_tags(texts, labels, texts_argument, labels_argument, self.config)
