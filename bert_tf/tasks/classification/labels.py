"""Convert labels to the targets of `TextClassifier`. Shapes: B texts, L labels."""

import numpy as np
import tensorflow as tf

from bert_tf.errors import UserError, abbreviate
from bert_tf.pipelines.arguments import check_list

# Maximum number of labels in a message.
_MAX_LABELS = 20


class LabelEncoder:
    """Converts labels to targets. A label is a name, or an index if the names are not numbers.

    White space around a name is ignored, as in files.
    """

    def __init__(self, task_type, labels):
        self._task_type, self._labels = task_type, tuple(labels)
        self._ids = {label: index for index, label in enumerate(self._labels)}
        self._has_indices = not any(label.lstrip("-").isdecimal() for label in self._labels)

    def encode(self, values, argument):
        """Convert labels to int32 ids (B,), or float32 scores (B,) or multi-label rows (B, L)."""
        encode = {
            "classification": self._label_id,
            "regression": _to_number,
            "multi_label": self._to_row,
        }[self._task_type]
        targets = []
        values = check_list(self._in_order(values, argument), argument, "a list")
        for i, value in enumerate(values):
            try:
                targets.append(encode(value))
            except (TypeError, ValueError) as error:
                hint = self._hint(values) if argument == "labels" else ""
                raise UserError(f"`{argument}`: item {i} is {value!r:.50}, {error}{hint}") from None
        return np.array(targets, "int32" if self._task_type == "classification" else "float32")

    def _hint(self, values):
        """Return advice for labels that do not match those of the model, "" if there is none."""
        if self._task_type != "classification":
            return ""
        values = [x.item() if isinstance(x, np.generic) else x for x in values]
        values = [int(x) if isinstance(x, float) and x.is_integer() else x for x in values]
        if all(isinstance(x, (bool, int, str)) for x in values):
            values = {x.strip() if isinstance(x, str) else x for x in values}
            found = sorted(values, key=str)
            if len(found) <= _MAX_LABELS:
                return f"; found the labels {found}, to pass as `labels` to `from_preset`"
        elif all(isinstance(x, (int, float)) for x in values) and np.isfinite(values).all():
            return "; scores require `task_type=regression`"
        return ""

    def _in_order(self, values, argument):
        """Order the label columns of a DataFrame by label; return other values unchanged."""
        columns = [str(name) for name in getattr(values, "columns", ())]
        if len(columns) < 2:
            return values
        order = list(range(len(columns)))
        if set(columns) & set(self._labels):
            if sorted(columns) != sorted(self._labels):
                raise UserError(
                    f"`{argument}`: found the columns {abbreviate(columns, 9)}, expected one for "
                    f"each of the labels {abbreviate(self._labels, 9)}"
                )
            order = [columns.index(label) for label in self._labels]
        # With columns of different types, `to_numpy` returns objects.
        return np.array(values.to_numpy()[:, order].tolist())

    def _label_id(self, value):
        name = value.decode() if isinstance(value, bytes) else str(value)
        for key in (name, name.strip()):
            if key in self._ids:
                return self._ids[key]
        if isinstance(value, (list, tuple, np.ndarray)):
            return self._id_of_row(np.asarray(value))
        is_number = isinstance(value, (int, float, np.number, np.bool_))
        if is_number and float(value).is_integer():
            if str(int(value)) in self._ids:
                return self._ids[str(int(value))]
            if self._has_indices and value in range(len(self._labels)):
                return int(value)
        raise ValueError(f"expected one of the labels {abbreviate(self._labels, 9)}")

    def _id_of_row(self, row):
        if row.size == 1:
            return self._label_id(row.item())
        is_one_hot = row.shape == (len(self._labels),) and row.dtype.kind in "biuf"
        if not is_one_hot or sorted(row) != [0] * (row.size - 1) + [1]:
            raise ValueError(f"expected a label or a one-hot row of {len(self._labels)} numbers")
        return int(row.argmax())

    def _to_row(self, value):
        if isinstance(value, (str, bytes)):
            raise ValueError("expected a list of labels")
        values = list(value)
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        is_numeric = all(isinstance(x, (int, float, np.number)) for x in values)
        if is_array or (values and is_numeric and self._has_indices):
            if len(values) != len(self._labels) or not set(values) <= {0, 1}:
                raise ValueError(f"expected labels or a row of {len(self._labels)} numbers 0 and 1")
            return [float(x) for x in values]
        row = np.zeros(len(self._labels), "float32")
        for label in values:
            row[self._label_id(label)] = 1.0
        return row

    def check_dataset(self, dataset, argument):
        """Raise UserError unless a dataset has batches of texts or text pairs, and labels."""
        spec = dataset.element_spec
        if not isinstance(spec, tuple) or len(spec) not in (2, 3):
            raise UserError(f"`{argument}`: expected a dataset of (texts, labels)")
        texts = spec[0] if isinstance(spec[0], tuple) else (spec[0],)
        if len(texts) > 2 or not all(isinstance(x, tf.TensorSpec) and x.dtype == tf.string
                                     for x in texts):  # fmt: skip
            raise UserError(
                f"`{argument}`: expected strings or pairs of strings as the texts of the dataset"
            )
        if any(x.shape.rank == 0 for x in texts):
            raise UserError(f"`{argument}`: found single texts, expected batches; call `batch`")
        self.check_spec(spec[1], argument)
        if len(spec) == 3:
            LabelEncoder("regression", ()).check_spec(spec[2], argument, "sample weights")

    def check_spec(self, spec, argument, values="labels"):
        """Raise UserError unless `encode_tensor` accepts a batch with this `tf.TensorSpec`."""
        rank = spec.shape.rank
        is_valid = self._task_type == "classification" or spec.dtype != tf.string
        has_shape = rank in (None, 1) or (rank == 2 and spec.shape[1] == 1)
        is_one_hot = self._is_one_hot(spec)
        expected = "numbers with the shape (batch size,)"
        if self._task_type == "multi_label":
            has_shape = spec.shape.is_compatible_with((None, len(self._labels)))
            expected = f"0 and 1 with the shape (batch size, {len(self._labels)})"
        elif self._task_type == "classification":
            has_shape |= is_one_hot
            expected = "names or indices with the shape (batch size,)"
        if not (is_valid and has_shape):
            raise UserError(
                f"`{argument}`: found {values} with the shape {spec.shape} and the type "
                f"{spec.dtype.name} in the dataset, expected {expected}"
            )

    def encode_tensor(self, values, argument):
        """Convert a batch of a dataset's labels to targets, with TensorFlow operations."""
        if self._task_type == "multi_label":
            return tf.cast(values, tf.float32)
        if self._task_type == "regression":
            return tf.cast(tf.reshape(values, (-1,)), tf.float32)
        if self._is_one_hot(values):
            rows = tf.cast(values, tf.float32)
            ids = tf.argmax(rows, -1, tf.int32)
            is_known = tf.equal(rows, tf.one_hot(ids, len(self._labels)))
        else:
            ids, is_known = self._ids_of_tensor(tf.reshape(values, (-1,)))
        labels = abbreviate(self._labels, 9)
        message = f"`{argument}`: the dataset has a label that is not one of {labels}"
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(is_known), [message])]):
            return tf.identity(ids)

    def _ids_of_tensor(self, values):
        """Return the ids of names or numbers (B,), and whether each is a label, as tensors (B,)."""
        is_integer = True
        if values.dtype != tf.string:
            indices = tf.cast(values, tf.int32)
            is_integer = tf.equal(tf.cast(indices, values.dtype), values)
            if self._has_indices:
                return indices, is_integer & (indices >= 0) & (indices < len(self._labels))
            values = tf.strings.as_string(indices)
        names = tf.stack([values, tf.strings.strip(values)], 1)
        matches = tf.reduce_any(tf.equal(names[:, :, None], tf.constant(self._labels)), 1)
        return tf.argmax(matches, 1, tf.int32), tf.reduce_any(matches, 1) & is_integer

    def _is_one_hot(self, values):
        columns = values.shape[1] if values.shape.rank == 2 else None
        return columns == len(self._labels) > 1 and values.dtype != tf.string

    def label_weights(self, class_weight, targets=None):
        """Return label weights, float32 (L,), or None; "balanced" is as in scikit-learn."""
        if class_weight is None:
            return None
        if self._task_type != "classification":
            raise UserError(f"`class_weight` cannot be combined with `task_type={self._task_type}`")
        weights = np.ones(len(self._labels), "float32")
        if class_weight == "balanced":
            if targets is None:
                raise UserError("`class_weight=balanced` requires lists, because it counts labels")
            ids, counts = np.unique(targets, return_counts=True)
            weights[ids] = counts.sum() / (len(ids) * counts)
            return weights
        for label, weight in class_weight.items():
            try:
                weights[self._label_id(label)] = _to_number(weight)
            except (TypeError, ValueError) as error:
                raise UserError(
                    f"`class_weight`: {label!r} has the weight {weight!r}, {error}"
                ) from None
        return weights


def _to_number(value):
    if np.shape(value) == (1,):
        value = value[0]
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError("expected a number") from None
    if not np.isfinite(np.float32(number)):
        raise ValueError("expected a finite number")
    return number
