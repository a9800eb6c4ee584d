"""Labels as users of `TextClassifier` give them, and the targets that it is trained on.

Shapes: B texts, L labels.
"""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError, abbreviate
from bert_tf.pipelines.arguments import check_list


class LabelEncoder:
    """Converts labels to the targets of a classifier.

    A label is given by its name or, unless the names are numbers themselves, by its index.
    """

    def __init__(self, task_type, labels):
        """Store the type, a key of `tasks.TASK_CLASSES`, and the names in the order of their ids.

        Args:
          task_type: "classification", "multi_label" or "regression".
          labels: sequence of str.
        """
        self._task_type, self._labels = task_type, tuple(labels)
        self._ids = {label: index for index, label in enumerate(self._labels)}
        self._has_indices = not any(label.lstrip("-").isdecimal() for label in self._labels)

    def encode(self, values, argument):
        """Return the targets of a list of labels as an array.

        Returns:
          int32 (B,) for classification, float32 (B,) for regression, float32 (B, L) for
          multi-label.

        Raises:
          UserError: if a label is not valid; it names `argument`.
        """
        encode = {
            "classification": self._id_of,
            "regression": _to_number,
            "multi_label": self._to_row,
        }[self._task_type]
        targets = []
        for i, value in enumerate(check_list(values, argument, "a list")):
            try:
                targets.append(encode(value))
            except (TypeError, ValueError) as error:
                raise UserError(f"`{argument}`: item {i} is {value!r:.50}, {error}") from None
        return np.array(targets, "int32" if self._task_type == "classification" else "float32")

    def _id_of(self, value):
        name = value.decode() if isinstance(value, bytes) else str(value)
        if name in self._ids:
            return self._ids[name]
        is_index = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if is_index and self._has_indices and 0 <= value < len(self._labels):
            return int(value)
        raise ValueError(f"not one of the labels {abbreviate(self._labels, 9)}")

    def _to_row(self, value):
        """Return the row of 0 and 1 for a list of labels, or for such a row."""
        if isinstance(value, (str, bytes)):
            raise ValueError("expected a list of labels")
        values = list(value)
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        is_numeric = all(isinstance(x, (int, float, np.number)) for x in values)
        if is_array or (values and is_numeric and self._has_indices):
            if len(values) != len(self._labels) or not set(values) <= {0, 1}:
                raise ValueError(f"expected labels, or {len(self._labels)} numbers 0 and 1")
            return [float(x) for x in values]
        row = np.zeros(len(self._labels), "float32")
        for label in values:
            row[self._id_of(label)] = 1.0
        return row

    def check_spec(self, spec, argument, values="labels"):
        """Raise UserError unless a batch of labels of a dataset has a shape and type for `encode`.

        Args:
          spec: its `tf.TensorSpec`.
          argument: the dataset's.
          values: name of the labels in the message.
        """
        rank, is_valid = spec.shape.rank, spec.dtype != tf.string
        has_shape = rank in (None, 1) or (rank == 2 and spec.shape[1] == 1)
        expected = "numbers of the shape (batch size,)"
        if self._task_type == "multi_label":
            has_shape = spec.shape.is_compatible_with((None, len(self._labels)))
            expected = f"0 and 1 of the shape (batch size, {len(self._labels)})"
        elif self._task_type == "classification":
            is_valid = spec.dtype == tf.string or spec.dtype.is_integer
            expected = "names or indices of the shape (batch size,)"
        if not (is_valid and has_shape):
            raise UserError(
                f"`{argument}`: the {values} of the dataset have the shape {spec.shape} and the "
                f"type {spec.dtype.name}, expected {expected}"
            )

    def encode_tensor(self, values, argument):
        """Return the targets of the labels (B,) of a dataset, in TensorFlow operations."""
        if self._task_type == "multi_label":
            return tf.cast(values, tf.float32)
        values = tf.reshape(values, (-1,))
        if self._task_type == "regression":
            return tf.cast(values, tf.float32)
        if values.dtype != tf.string and self._has_indices:
            ids = tf.cast(values, tf.int32)
            is_known = (ids >= 0) & (ids < len(self._labels))
        else:
            values = values if values.dtype == tf.string else tf.strings.as_string(values)
            matches = tf.equal(values[:, None], tf.constant(self._labels))
            ids, is_known = tf.argmax(matches, 1, tf.int32), tf.reduce_any(matches, 1)
        labels = abbreviate(self._labels, 9)
        message = f"`{argument}`: the dataset has a label that is not one of {labels}"
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_known), [message])]):
            return tf.identity(ids)

    def label_weights(self, class_weight):
        """Return the weight of each label, float32 (L,), for a dict from labels; None for None.

        Raises:
          UserError: if the task has no classes, or a label or a weight is not valid.
        """
        if class_weight is None:
            return None
        if self._task_type != "classification":
            raise UserError(f"`class_weight` cannot be combined with `task_type={self._task_type}`")
        weights = np.ones(len(self._labels), "float32")
        for label, weight in dict(class_weight).items():
            try:
                weights[self._id_of(label)] = _to_number(weight)
            except (TypeError, ValueError) as error:
                raise UserError(f"`class_weight`: {label!r}: {weight!r}, {error}") from None
        return weights


def _to_number(value):
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("expected a number") from None
    if not np.isfinite(np.float32(number)):
        raise ValueError("expected a finite number")
    return number
