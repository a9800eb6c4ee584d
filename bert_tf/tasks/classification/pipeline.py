"""Fine-tune and apply a text classifier: strings in, labels or scores out."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.checkpoints import PretrainedFiles, open_checkpoint, read_metadata, resolve
from bert_tf.checkpoints.hugging_face import PROBLEM_TYPES
from bert_tf.data.input_pipeline import group_size
from bert_tf.errors import UserError
from bert_tf.pipelines.labelled_texts import (
    LabelEncoder,
    check_list,
    check_same_length,
    texts_and_pairs,
)
from bert_tf.pipelines.task_pipeline import TaskPipeline
from bert_tf.tasks import TASK_CLASSES, ClassificationConfig
from bert_tf.training.task_config import check_labels, check_length

# Defaults of run_classifier.py.
_LEARNING_RATE, _EPOCHS, _BATCH_SIZE = 5e-5, 3, 32


class TextClassifier(TaskPipeline):
    """Classifies or scores texts or pairs of texts: fine-tuning and prediction on strings.

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

    A model may choose one of several labels (`task_type="classification"`), any number of them
    ("multi_label"), or give a score ("regression"). `model` is a Keras model, a `BertClassifier`
    on token ids: freeze its layers, save it as a `.keras` file, or train it in any other way that
    Keras has. To train on several devices, create the classifier in the scope of a strategy.

    Attributes:
      model: the `BertClassifier`.
      config: its `tasks.ClassificationConfig`.
      tokenizer: the `BertTokenizer`.
    """

    task_name = "classification"
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
    ) -> "TextClassifier":
        """Create a classifier from a pre-trained or a fine-tuned model.

        The settings of a model that `run_classifier.py`, `save_to_preset` or Hugging Face saved
        are read from its files. The head of any other model, or for other labels, is new.

        Args:
          preset: the name of a published model (`checkpoints.MODELS`), downloaded if it is not in
            the cache; a folder or checkpoint of the release or of a training run; or a Hugging Face
            folder.
          labels: the labels in the order of their ids; None for those in the files of the model.
          task_type: "classification", "multi_label" or "regression"; None for that in the files of
            the model, else "classification".
          max_seq_length: longest sequence in tokens; None for that in the files of the model, else
            128.
          do_lower_case: whether the model is uncased; None for the casing in the files of the
            model.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False they are random.

        Raises:
          UserError: if there is no such model, or an argument does not fit it.
        """
        model_files = resolve(preset, do_lower_case=do_lower_case)
        stored = ClassificationConfig.load(model_files.folder)
        if stored and stored.numeric_inputs:
            raise UserError(
                f"`preset`: {model_files.checkpoint} takes the numbers "
                f"{', '.join(stored.numeric_columns)} besides text, which `TextClassifier` does "
                "not; export it, and use `bert_tf.serving.Predictor`"
            )
        if stored and stored.windows:
            raise UserError(
                f"`preset`: {model_files.checkpoint} reads long texts in windows, which "
                "`TextClassifier` does not; export it, and use `bert_tf.serving.Predictor`"
            )
        if task_type is None:
            task_type = stored.task_type if stored else _recorded_task_type(model_files.checkpoint)
        if task_type not in TASK_CLASSES:
            raise UserError(f"`task_type={task_type}`: expected one of {', '.join(TASK_CLASSES)}")
        names = _choose_labels(labels, task_type, stored, model_files.checkpoint)
        bert_config = model_files.bert_config
        if max_seq_length is None:
            limit = min(ClassificationConfig.max_seq_length, bert_config.max_position_embeddings)
            max_seq_length = stored.max_seq_length if stored else limit
        check_length(max_seq_length, bert_config)
        config = ClassificationConfig(
            bert_config,
            model_files.vocab_file,
            max_seq_length=max_seq_length,
            labels=names,
            task_type=task_type,
            numeric_features=stored.numeric_features if stored else (),
            numeric_as=stored.numeric_as if stored else "vector",
            num_texts=stored.num_texts if stored else 1,
            **model_files.tokenizer_settings,
        )
        return cls._load(model_files, config, dtype, load_weights)

    def fit(
        self,
        texts: Any,
        labels: Any = None,
        validation_data: Any = None,
        validation_split: float = 0.0,
        epochs: int = _EPOCHS,
        batch_size: int = _BATCH_SIZE,
        learning_rate: float | None = None,
        callbacks: Any = None,
        class_weight: Mapping[Any, float] | None = None,
        sample_weight: Any = None,
        shuffle: bool = True,
        bucket_by_length: bool = False,
        **options: Any,
    ) -> keras.callbacks.History:
        """Train the model, with `keras.Model.fit`.

        The optimizer is that of the release, with 10 % warm-up and linear decay over the steps of
        this call, unless `compile` was called with another one.

        Args:
          texts: list of texts, or of pairs (text_a, text_b); or a `tf.data.Dataset` of batches
            (texts, labels) or (texts, labels, sample weights), in which texts are strings (B,) or a
            pair of them.
          labels: the label of each text: one of the labels of the model, or its index; for
            "multi_label" a list of labels, or a row of 0 and 1; for "regression" a number.
          validation_data: (texts, labels), (texts, labels, sample weights), or a dataset.
          validation_split: share of the texts, from the end of the list, to validate on instead.
          epochs: number of passes over the texts.
          batch_size: number of texts in a step, over all devices.
          learning_rate: the peak rate, by default 5e-5.
          callbacks: list of Keras callbacks.
          class_weight: dict from labels, or their indices, to the weight of their texts in the
            loss; 1 for the others.
          sample_weight: weight of each text in the loss.
          shuffle: whether to shuffle the texts, anew for each epoch.
          bucket_by_length: whether a batch of shuffled texts has texts of similar length: faster,
            because they need less padding, but the batches are less random.
          **options: further arguments of `keras.Model.fit`, such as `verbose`.

        Returns:
          The `keras.callbacks.History`.

        Raises:
          UserError: if an argument is not valid.
        """
        if bucket_by_length and not shuffle:
            raise UserError("`bucket_by_length` requires `shuffle`")
        weights = self._encoder().label_weights(class_weight)
        if isinstance(texts, tf.data.Dataset):
            given = {"labels": labels, "sample_weight": sample_weight,
                     "validation_split": validation_split or None,
                     "bucket_by_length": bucket_by_length or None}  # fmt: skip
            if names := [name for name, value in given.items() if value is not None]:
                raise UserError(f"`{names[0]}` cannot be combined with a dataset as `texts`")
            dataset = self._convert(texts, "texts", weights)
            is_pair = isinstance(texts.element_spec[0], tuple)
            validation = self._validation(validation_data, batch_size)
        else:
            columns = self._columns(texts, labels, sample_weight)
            is_pair = any(columns["text_b"])
            if validation_split:
                columns, held_out = _split(columns, validation_split, validation_data)
                validation = self._batches(held_out, batch_size)
            else:
                validation = self._validation(validation_data, batch_size)
            dataset = self._batches(columns, batch_size, shuffle, weights, bucket_by_length)
        if is_pair:
            self.config = dataclasses.replace(self.config, num_texts=2)
        options["callbacks"] = callbacks
        return self._fit(dataset, validation, learning_rate, _LEARNING_RATE, epochs, options)

    def evaluate(
        self,
        texts: Any,
        labels: Any = None,
        batch_size: int = _BATCH_SIZE,
        sample_weight: Any = None,
        **options: Any,
    ) -> dict[str, float]:
        """Return loss and metrics by name, with `keras.Model.evaluate`; arguments as for `fit`."""
        if isinstance(texts, tf.data.Dataset):
            dataset = self._convert(texts, "texts")
        else:
            dataset = self._batches(self._columns(texts, labels, sample_weight), batch_size)
        return self._evaluate(dataset, options)

    def predict(self, texts: Any, batch_size: int | None = None) -> list[dict[str, Any]]:
        """Return the answers of the model to texts.

        Args:
          texts: list of texts, or of pairs (text_a, text_b).
          batch_size: number of texts that the model reads at a time; None for 32 long
            texts to 256 short ones.

        Returns:
          For each text a dict, as `bert_tf.serving.Predictor` returns it: "label", or "labels" for
          "multi_label", and "probabilities" by label; "score" and "logits" for "regression".

        Raises:
          UserError: if `texts` is not such a list.
        """
        rows = texts_and_pairs(texts, "texts")
        return self._answers([{"text_a": a, "text_b": b} for a, b in rows], batch_size)

    def _prediction_config(self):
        # A text without a second one gives the same answer in a model of pairs.
        return dataclasses.replace(self.config, num_texts=2)

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

    def _columns(self, texts, labels, sample_weight=None, arguments=None):
        """Return texts and labels as a dict of lists and arrays of the same length.

        `arguments` are the names of the three arguments in messages.
        """
        names = arguments or ("texts", "labels", "sample_weight")
        pairs = texts_and_pairs(texts, names[0])
        if not pairs:
            raise UserError(f"`{names[0]}` is empty")
        if labels is None:
            raise UserError(f"`{names[1]}` must be given, unless `{names[0]}` is a dataset")
        targets = self._encoder().encode(labels, names[1])
        check_same_length(names[0], pairs, names[1], targets)
        text_a, text_b = zip(*pairs, strict=True)
        columns = {"text_a": list(text_a), "text_b": list(text_b), "targets": targets}
        if sample_weight is not None:
            weights = LabelEncoder("regression", ()).encode(sample_weight, names[2])
            check_same_length(names[0], pairs, names[2], weights)
            columns["weights"] = weights
        return columns

    @tf.autograph.experimental.do_not_convert
    def _batches(self, columns, batch_size, shuffle=False, label_weights=None, bucket=False):
        """Return a dataset of batches of inputs, targets and, if there are any, weights."""
        count = len(columns["targets"])
        dataset = tf.data.Dataset.from_tensor_slices(columns)
        if shuffle:
            dataset = dataset.shuffle(count)
        size = group_size(count, batch_size) if shuffle and bucket else 1
        if size > 1:
            groups = dataset.batch(size * batch_size).map(_sort_by_length)
            dataset = groups.unbatch().apply(tf.data.experimental.assert_cardinality(count))
        batches = dataset.batch(batch_size)
        if size > 1:
            batches = batches.shuffle(size)
        has_pairs = any(columns["text_b"])

        def encode(batch):
            inputs = self._encode(batch["text_a"], batch["text_b"] if has_pairs else None)
            return _weighted(inputs, batch["targets"], batch.get("weights"), label_weights)

        return batches.map(encode, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    @tf.autograph.experimental.do_not_convert
    def _convert(self, dataset, argument, label_weights=None):
        """Return a dataset of batches of strings and labels as one of model inputs and targets."""
        encoder, spec = self._encoder(), dataset.element_spec
        if not isinstance(spec, tuple) or len(spec) not in (2, 3):
            raise UserError(f"`{argument}`: expected a dataset of (texts, labels)")
        texts = spec[0] if isinstance(spec[0], tuple) else (spec[0],)
        if len(texts) > 2 or not all(isinstance(x, tf.TensorSpec) and x.dtype == tf.string
                                     for x in texts):  # fmt: skip
            raise UserError(
                f"`{argument}`: the texts of the dataset must be strings, or pairs of strings"
            )
        if any(x.shape.rank == 0 for x in texts):
            raise UserError(
                f"`{argument}`: expected batches of texts; call `.batch({_BATCH_SIZE})`"
            )
        encoder.check_spec(spec[1], argument)

        def encode(texts, labels, weights=None):
            texts = texts if isinstance(texts, tuple) else (texts,)
            inputs = self._encode(*(tf.reshape(x, (-1,)) for x in texts))
            targets = encoder.encode_tensor(labels, argument)
            return _weighted(inputs, targets, weights, label_weights)

        return dataset.map(encode, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)

    def _validation(self, data, batch_size):
        """Return `validation_data` as a dataset of model inputs and targets, or None."""
        if data is None:
            return None
        if isinstance(data, tf.data.Dataset):
            return self._convert(data, "validation_data")
        if not isinstance(data, (tuple, list)) or len(data) not in (2, 3):
            raise UserError("`validation_data`: expected (texts, labels) or a dataset")
        return self._batches(self._columns(*data, arguments=["validation_data"] * 3), batch_size)


def _sort_by_length(rows):
    """Sort rows, a dict of tensors (B,) or (B, L), by the length of their texts."""
    num_bytes = tf.strings.length(rows["text_a"]) + tf.strings.length(rows["text_b"])
    order = tf.argsort(num_bytes, stable=True)
    return {name: tf.gather(values, order) for name, values in rows.items()}


def _weighted(inputs, targets, weights, label_weights):
    """Return (inputs, targets), or with weights if there are any of the texts or the labels."""
    if label_weights is not None:
        by_label = tf.gather(tf.constant(label_weights), targets)
        weights = by_label if weights is None else by_label * tf.cast(weights, tf.float32)
    return (inputs, targets) if weights is None else (inputs, targets, weights)


def _split(columns, share, validation_data):
    """Split columns at the end, and return those for training and those for validation."""
    if validation_data is not None:
        raise UserError("`validation_split` cannot be combined with `validation_data`")
    size = len(columns["targets"])
    first = size - int(size * share)
    if not 0 < share < 1 or first == size:
        raise UserError(
            f"`validation_split={share}`: a share of the {size} texts was expected, 0 to 1"
        )
    return tuple(
        {name: column[part] for name, column in columns.items()}
        for part in (slice(0, first), slice(first, None))
    )


def _recorded_task_type(checkpoint):
    """Return the task type of a Hugging Face folder, "classification" if it has none."""
    task_types = {problem_type: name for name, problem_type in PROBLEM_TYPES.items()}
    return task_types.get(read_metadata(checkpoint).get("problem_type"), "classification")


def _choose_labels(labels, task_type, stored, checkpoint):
    """Return the labels as a tuple of str: those given, or those in the files of the model."""
    if task_type == "regression":
        if labels is not None:
            raise UserError("`labels` cannot be combined with `task_type=regression`")
        return ()
    if labels is not None:
        labels = [str(label) for label in check_list(labels, "labels", "a list of labels")]
    elif stored:
        labels = stored.labels
    else:
        # Only labels of a head: every config of Hugging Face may have names for two labels.
        rows = open_checkpoint(checkpoint).shapes.get("output_weights", (0,))[0]
        id2label = read_metadata(checkpoint).get("id2label") or {}
        labels = [id2label.get(str(i), f"LABEL_{i}") for i in range(rows)]
    if not labels:
        raise UserError(f"`labels` must be given: {checkpoint} has no classifier")
    if task_type == "classification" and len(labels) < 2:
        raise UserError(f"`labels`: expected at least two, found {', '.join(labels)}")
    return check_labels(labels)
