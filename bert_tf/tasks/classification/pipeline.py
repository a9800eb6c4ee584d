"""`TextClassifier`: fine-tuning and prediction of labels or scores, on strings."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.checkpoints import PretrainedFiles, open_checkpoint, read_metadata
from bert_tf.checkpoints.hugging_face import PROBLEM_TYPES
from bert_tf.configs.task import check_labels
from bert_tf.data.columns import ANY_LABEL, ANY_TEXT, TEXT_B
from bert_tf.errors import UserError
from bert_tf.pipelines.arguments import (
    as_dataset,
    check_list,
    check_pairs,
    check_same_length,
    is_examples,
    read_dataset,
    split_columns,
    with_keras_names,
)
from bert_tf.pipelines.keras_training import BATCH_SIZE, EPOCHS
from bert_tf.pipelines.table_arguments import with_columns
from bert_tf.pipelines.task_pipeline import TaskPipeline
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.data import make_model, read
from bert_tf.tasks.classification.labels import LabelEncoder
from bert_tf.tasks.classification.servable import (
    ClassificationAnswers,
    MultiLabelAnswers,
    RegressionAnswers,
    classification_servable,
)
from bert_tf.tasks.classification.task import TASK_CLASSES, start_at_mean
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="classification",
    config_class=ClassificationConfig,
    read=read,
    make_model=make_model,
    make_servable=classification_servable,
    served={
        task_type: ServedTask(answers, {"task_type": task_type}, options)
        for task_type, answers, options in (
            ("classification", ClassificationAnswers, ("labels", "num_texts")),
            ("multi_label", MultiLabelAnswers, ("labels", "num_texts")),
            ("regression", RegressionAnswers, ("num_texts",)),
        )
    },
)

_ARGUMENTS = ("texts", "labels", "sample_weight")

_TABLE = {"texts": [ANY_TEXT, TEXT_B], "labels": ANY_LABEL}


class TextClassifier(TaskPipeline):
    """Classifies or scores texts or pairs of texts.

    >>> classifier = bert_tf.TextClassifier.from_preset(
    ...     "uncased_L-4_H-256_A-4", labels=["negative", "positive"]
    ... )
    >>> texts, labels = ["A delight.", "Too long."], ["positive", "negative"]
    >>> history = classifier.fit(texts, labels, epochs=1, verbose=0)
    >>> answer, = classifier.predict(["A delight."])
    >>> sorted(answer), sorted(answer["probabilities"])
    (['label', 'probabilities'], ['negative', 'positive'])
    >>> classifier.save_to_preset("sentiment")
    >>> classifier = bert_tf.TextClassifier.from_preset("sentiment")

    The answer is one label (`task_type="classification"`), any number of labels ("multi_label") or
    a score ("regression"). To train on several devices, create the classifier in the scope of a
    strategy.

    Attributes:
      model: the `BertClassifier`, a Keras model on token ids.
      config: the `ClassificationConfig`.
      tokenizer: the `BertTokenizer`.
    """

    spec = SPEC
    config: ClassificationConfig

    @classmethod
    def from_preset(
        cls,
        preset: str | os.PathLike | PretrainedFiles,
        labels: Sequence[Any] | None = None,
        task_type: str | None = None,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool = True,
        num_classes: int | None = None,
    ) -> "TextClassifier":
        """Create a classifier from a pre-trained or fine-tuned model.

        If the model has no head for the labels, a new one is initialized.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "hf://OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          labels: the labels in the order of their ids; None for the saved ones.
          task_type: "classification", "multi_label" or "regression". None for the saved type, else
            "regression" for a head with one output, else "classification".
          max_seq_length: maximum sequence length, in tokens; longer texts are truncated. None for
            the saved setting, else 128.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random.
          num_classes: number of labels, named "0", "1" and so on, instead of `labels`.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        if num_classes is not None:
            if labels is not None:
                raise UserError("`labels` cannot be combined with `num_classes`")
            labels = list(range(num_classes))
        return cls._from_preset(
            preset, dtype, load_weights, labels=labels, task_type=task_type,
            max_seq_length=max_seq_length, do_lower_case=do_lower_case,
        )  # fmt: skip

    @classmethod
    def _config_values(cls, checkpoint, stored, values):
        if stored and (stored.numeric_inputs or stored.windows):
            raise UserError(
                f"`preset`: `TextClassifier` does not support the "
                f"{'numeric columns' if stored.numeric_inputs else 'windows of long texts'} of "
                f"{checkpoint}; export it and use `bert_tf.serving.Predictor`"
            )
        task_type = values.get("task_type") or (stored.task_type if stored else None)
        if task_type is None:
            task_type = _recorded_task_type(checkpoint)
        if task_type not in TASK_CLASSES:
            raise UserError(f"`task_type={task_type}`: expected one of {', '.join(TASK_CLASSES)}")
        labels = _choose_labels(values.get("labels"), task_type, stored, checkpoint)
        values = {**values, "task_type": task_type, "labels": labels}
        if not stored:
            return {**values, "num_texts": 1}
        # These describe the old training data.
        return {**values, "columns": {}, "dev_split": None}

    @with_keras_names(x="texts", y="labels")
    @with_columns(**_TABLE)
    def fit(
        self,
        texts: Any,
        labels: Any = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        epochs: int = EPOCHS,
        batch_size: int = BATCH_SIZE,
        learning_rate: float | None = None,
        callbacks: Any = None,
        class_weight: Mapping[Any, float] | str | None = None,
        sample_weight: Any = None,
        shuffle: bool = True,
        bucket_by_length: bool = False,
        **options: Any,
    ) -> keras.callbacks.History:
        """Train the model with `keras.Model.fit`.

        Args:
          texts: a list of texts or of pairs (text_a, text_b), or a tuple of two lists;
            a table of texts and labels, with columns such as "text" and "label": a dict of lists, a
            DataFrame, a `datasets.Dataset` or a `tf.data.Dataset` of dicts;
            a list of `InputExample`, with their labels; or
            a `tf.data.Dataset` or `keras.utils.PyDataset` of batches (texts, labels) or (texts,
            labels, sample weights), where texts are strings (B,) or a pair of them.
          labels: a label for each text: its name, its index or a one-hot row. For "multi_label" a
            list of labels or a row of 0 and 1; for "regression" a number. None if `texts` contains
            the labels.
          validation_data: (texts, labels), (texts, labels, sample weights), or like `texts` with
            labels.
          validation_split: fraction of the texts to validate on, from the end of the list.
          epochs: number of passes over the texts.
          batch_size: number of texts per step, over all devices.
          learning_rate: the peak learning rate, None for 5e-5; see `compile` for the schedule.
          callbacks: list of Keras callbacks.
          class_weight: dict from labels, or their indices, to the loss weights of their texts, 1 if
            missing; or "balanced", which gives each label the same total weight.
          sample_weight: loss weight of each text.
          shuffle: whether to reshuffle the texts in each epoch.
          bucket_by_length: whether to batch texts of similar length: faster, because there is less
            padding, but less random.
          **options: other arguments of `keras.Model.fit`, such as `verbose`.

        Raises:
          UserError: if an argument is invalid.
        """
        config = self._check_fit(
            options, epochs=epochs, batch_size=batch_size, learning_rate=learning_rate,
            validation_split=validation_split, shuffle=shuffle, bucket_by_length=bucket_by_length,
        )  # fmt: skip
        only_lists = {"validation_split": validation_split, "bucket_by_length": bucket_by_length}
        data = self._to_tensors((texts, labels, sample_weight), **only_lists)
        if validation_split:
            columns = tf.nest.flatten(data), ("texts", "labels")
            parts = split_columns(*columns, validation_split, validation_data)
            data, validation_data = (tf.nest.pack_sequence_as(data, x) for x in parts)
        elif validation_data is not None:
            datasets = (tf.data.Dataset, keras.utils.PyDataset)
            is_tuple = isinstance(validation_data, (tuple, list)) and len(validation_data) in (2, 3)
            if isinstance(validation_data, datasets) or is_examples(validation_data):
                validation_data = (validation_data, None)
            elif not is_tuple:
                raise UserError("`validation_data`: expected (texts, labels) or a dataset")
            validation_data = self._to_tensors(validation_data, ["validation_data"] * 3)
        targets = None
        if not isinstance(data, tf.data.Dataset):
            targets = data[1]
            self._log_truncated("texts", data[0])
            if self._is_random and self.config.task_type == "regression":
                start_at_mean(self.model, targets)
        label_weights = self._encoder().label_weights(class_weight, targets)
        dataset = self._dataset(
            data, batch_size, "texts", label_weights, shuffle=shuffle, bucket=bucket_by_length
        )
        if validation_data is not None:
            validation_data = self._dataset(validation_data, batch_size, "validation_data")
        spec = data.element_spec if isinstance(data, tf.data.Dataset) else data
        if isinstance(spec[0], tuple) and len(spec[0]) == 2:
            pair_config = dataclasses.replace(self.config, num_texts=2)
            self.config = pair_config.keep_vocabulary(self.config)
        return self._fit(dataset, validation_data, config, callbacks, options)

    @with_keras_names(x="texts", y="labels")
    @with_columns(**_TABLE)
    def evaluate(
        self,
        texts: Any,
        labels: Any = None,
        batch_size: int = BATCH_SIZE,
        sample_weight: Any = None,
        **options: Any,
    ) -> dict[str, float]:
        """Return a dict of the loss and metrics; see `fit` for the arguments."""
        data = self._to_tensors((texts, labels, sample_weight))
        return self._evaluate(self._dataset(data, batch_size, "texts"), options)

    @with_keras_names(x="texts")
    @with_columns(**_TABLE)
    def predict(self, texts: Any, batch_size: int | None = None, verbose: Any = "auto") -> Any:
        """Predict labels or scores.

        Args:
          texts: a text, or texts as in `fit`; the labels of a dataset are ignored.
          batch_size: number of texts per step; None for 32 (long texts) to 256 (short texts).
          verbose: ignored; accepted for compatibility with Keras.

        Returns:
          A list of dicts, one per text, or a single dict if `texts` is a str: "label", or "labels"
          for "multi_label", and "probabilities" by label; "score" and "logits" for "regression".

        Raises:
          UserError: if `texts` is invalid.
        """
        if isinstance(texts, str):
            return self.predict([texts], batch_size)[0]
        pairs = check_pairs(read_dataset(texts), "texts")
        bert_config: Any = self.config.bert_config
        if any(text_b for _, text_b in pairs):
            bert_config.check_num_texts(2)
        if bert_config.type_vocab_size < 2:
            return self._answers([text_a for text_a, _ in pairs], batch_size, num_texts=1)
        # With an empty second text, a model of pairs gives the same answer as for a single text.
        rows = [{"text_a": text_a, "text_b": text_b} for text_a, text_b in pairs]
        return self._answers(rows, batch_size, num_texts=2)

    def _default_compile_arguments(self):
        if self.config.task_type == "regression":
            return {"loss": "mean_squared_error", "metrics": ["mean_absolute_error"]}
        if self.config.task_type == "multi_label":
            # A logit of 0 is a probability of 0.5.
            accuracy = keras.metrics.BinaryAccuracy("accuracy", threshold=0.0)
            loss = keras.losses.BinaryCrossentropy(from_logits=True)
        else:
            accuracy = keras.metrics.SparseCategoricalAccuracy("accuracy")
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        return {"loss": loss, "metrics": [accuracy]}

    def _encoder(self):
        return LabelEncoder(self.config.task_type, self.config.labels)

    def _to_tensors(self, data, arguments=_ARGUMENTS, **only_lists):
        """Convert (texts, labels) or (texts, labels, weights) to tensors; return datasets as is."""
        texts, labels, sample_weight = (as_dataset(data[0]), *data[1:], None)[:3]
        if isinstance(texts, tf.data.Dataset):
            given = {"labels": labels, "sample_weight": sample_weight,
                     **{name: value or None for name, value in only_lists.items()}}  # fmt: skip
            if names := [name for name, value in given.items() if value is not None]:
                raise UserError(f"`{names[0]}` cannot be combined with a dataset as `texts`")
            return texts
        if labels is None and is_examples(texts):
            labels = [example.label for example in texts]
        pairs = check_pairs(texts, arguments[0])
        if not pairs:
            raise UserError(f"`{arguments[0]}` is empty")
        if labels is None:
            raise UserError(
                f"`{arguments[1]}` must be given, unless `{arguments[0]}` is a dataset or a table "
                "with columns for texts and labels, such as text and label"
            )
        text_a, text_b = zip(*pairs, strict=True)
        columns = [(text_a, text_b) if any(text_b) else (text_a,)]
        columns.append(self._encoder().encode(labels, arguments[1]))
        if sample_weight is not None:
            columns.append(LabelEncoder("regression", ()).encode(sample_weight, arguments[2]))
        for argument, column in zip(arguments[1:], columns[1:], strict=False):
            check_same_length(arguments[0], pairs, argument, column)
        return (tuple(map(tf.constant, columns[0])), *map(tf.constant, columns[1:]))

    def _dataset(self, data, batch_size, argument, label_weights=None, shuffle=False, bucket=False):
        encoder, is_dataset = self._encoder(), isinstance(data, tf.data.Dataset)

        def encode(texts, labels, weights=None):
            texts = texts if isinstance(texts, tuple) else (texts,)
            self.config.bert_config.check_num_texts(len(texts))
            inputs = self._pad(self.tokenizer(*(tf.reshape(x, (-1,)) for x in texts)))
            targets = encoder.encode_tensor(labels, argument) if is_dataset else labels
            if weights is not None:
                weights = tf.reshape(tf.cast(weights, tf.float32), (-1,))
            if label_weights is not None:
                by_label = tf.gather(tf.constant(label_weights), targets)
                weights = by_label if weights is None else by_label * weights
            return (inputs, targets) if weights is None else (inputs, targets, weights)

        if is_dataset:
            encoder.check_dataset(data, argument)
            return self._encode_batches(data, encode)
        lengths = tf.add_n([tf.strings.length(x) for x in data[0]]) if bucket else None
        return self._batches(data, encode, batch_size, shuffle, lengths)


def _recorded_task_type(checkpoint):
    """Return the task type of a Hugging Face model by the rules of transformers."""
    metadata = read_metadata(checkpoint)
    task_types = {problem_type: name for name, problem_type in PROBLEM_TYPES.items()}
    if recorded := task_types.get(metadata.get("problem_type")):
        return recorded
    is_choice = "BertForMultipleChoice" in (metadata.get("architectures") or ())
    is_score = _num_outputs(checkpoint) == 1 and not is_choice
    return "regression" if is_score else "classification"


def _num_outputs(checkpoint):
    return open_checkpoint(checkpoint).shapes.get("output_weights", (0,))[0]


def _choose_labels(labels, task_type, stored, checkpoint):
    """Return the given labels, else the labels saved with the model, as a tuple of str."""
    if task_type == "regression":
        if labels is not None:
            raise UserError("`labels` cannot be combined with `task_type=regression`")
        return ()
    if labels is not None:
        labels = [str(x).strip() for x in check_list(labels, "labels", "a list of labels")]
    elif stored:
        labels = stored.labels
    else:
        # Labels without a head are meaningless: Hugging Face configs have two by default.
        id2label = read_metadata(checkpoint).get("id2label") or {}
        labels = [id2label.get(str(i), f"LABEL_{i}") for i in range(_num_outputs(checkpoint))]
    if not labels:
        raise UserError(
            f"`labels` must be given: {checkpoint} has no classifier head; for example "
            'labels=sorted(set(df["label"])), or `task_type=regression` for scores'
        )
    if task_type == "classification" and len(labels) < 2:
        raise UserError(f"`labels`: found {', '.join(labels)}, expected at least two labels")
    return check_labels(labels)
