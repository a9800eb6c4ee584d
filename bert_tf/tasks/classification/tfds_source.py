"""Read text classification examples from tensorflow-datasets, which is imported on use."""

import dataclasses

import numpy as np

from bert_tf.data.columns import ID, LABEL, TEXT_A, TEXT_B, Layout
from bert_tf.data.rows import TfdsRows, base_split
from bert_tf.errors import UserError
from bert_tf.tasks.classification.examples import make_example
from bert_tf.tasks.classification.glue import custom_dataset, find_task
from bert_tf.tasks.classification.reading import collect_examples

# Possible names of the splits in tensorflow-datasets.
_SPLITS = {
    "train": ("train",),
    "dev": ("validation", "validation_matched", "dev", "valid"),
    "dev_mismatched": ("validation_mismatched",),
    "test": ("test", "test_matched"),
    "test_mismatched": ("test_mismatched",),
    "test_ax": ("test",),
}


class TfdsSource:
    """A dataset of tensorflow-datasets, with the interface of `reading.FileSource`."""

    def __init__(self, name, data_dir=None, task_type=None, labels=None, layout=None, splits=None):
        """Find the dataset, such as "glue/mrpc", and prepare it if necessary.

        Without `task_type`, a float label is a regression and a sequence of labels is multi-label.
        `layout` names features. `splits` is a dict from "train", "dev" and "test" to splits in the
        notation of tensorflow-datasets, such as "train[:90%]".
        """
        self._rows, self._given = TfdsRows(name, data_dir), splits or {}
        self.columns = {}  # nothing to save: each command finds the features again
        layout = layout or Layout()
        family, _, config = name.partition("/")
        is_glue = family == "glue" and not (layout.text or layout.label or layout.numbers)
        dataset = find_task(config.partition(":")[0]) if is_glue else None
        if dataset and task_type not in (None, dataset.task_type):
            raise UserError(f"`task_type={task_type}`: expected {dataset.task_type} for {name}")
        self._texts, self._label, self._id = self._find_features(dataset, layout)
        # The feature of a single label.
        feature = self._rows.features[self._label]
        self._label_feature = getattr(feature, "feature", feature)
        if not dataset:
            if task_type is None and self._label_feature is not feature:
                task_type = "multi_label"
            elif task_type is None and np.issubdtype(feature.np_dtype, np.floating):
                task_type = "regression"
            if task_type != "regression" and not labels:
                labels = tuple(getattr(self._label_feature, "names", ())) or None
            # `Layout.label` is for several columns; here one feature has all labels.
            dataset = custom_dataset(task_type, labels, dataclasses.replace(layout, label=()))
        self.dataset = dataset

    def _find_features(self, dataset, layout):
        find = self._rows.find_feature
        text, target = self._rows.supervised_keys
        if dataset:
            texts = dataset.features
        elif layout.text:
            texts = [find([name], "text_columns") for name in layout.text]
        elif isinstance(text, str):
            texts = [text]
        else:
            texts = [find(TEXT_A, "text_columns"), find(TEXT_B)]
        for name in layout.numbers:
            find([name], "numeric_columns")
        if len(layout.label) > 1:
            raise UserError(f"`label_column`: found {len(layout.label)} features, expected one")
        names = [name for name in (target, *LABEL) if isinstance(name, str)]
        label = find(layout.label or names, "label_column")
        row_id = find([layout.id], "id_column") if layout.id else find(ID)
        return tuple(filter(None, texts)), label, row_id

    def splits(self, base):
        """Return the splits of "train", "dev" or "test"; raise UserError if there are none."""
        splits = [x for x in self.dataset.files if base_split(x) == base and self._tfds_split(x)]
        if not splits:
            raise self._rows.missing_split(base)
        return splits

    def _tfds_split(self, split):
        return self._given.get(split) or self._rows.find_split(_SPLITS[split])

    def read(self, split, bad=None):
        """Read the examples of one of `splits`; see `FileSource.read`."""
        layout, name = self.dataset.layout, self._tfds_split(split)

        def make(where, index, row):
            texts = [row[name].decode("utf-8") for name in self._texts]
            row_id = index if self._id is None else row[self._id]
            row_id = row_id.decode("utf-8") if isinstance(row_id, bytes) else str(row_id)
            label = self._read_label(row[self._label]) if base_split(split) != "test" else None
            cells = [str(row[name]) for name in layout.numbers] if layout else []
            return make_example(where, texts, label, row_id, layout, cells)

        error = f"{self._rows.name}, {name}: the split has no examples"
        return collect_examples(self.dataset, self._rows.read(name), make, bad, error)

    def _read_label(self, value):
        if self.dataset.task_type == "regression":
            if not np.isfinite(value):
                raise ValueError(f"the score is {value}, expected a finite number")
            return float(value)
        if self.dataset.task_type == "multi_label":
            return tuple(map(self._label_name, value))
        return self._label_name(value)

    def _label_name(self, value):
        """Return a label as text; its index if the names differ from the spec's, as in GLUE."""
        if isinstance(value, bytes):
            return value.decode("utf-8")
        names = getattr(self._label_feature, "names", None)
        if not names:
            return str(value)
        if not 0 <= value < len(names):
            raise ValueError(f"the label is {value}, expected an index less than {len(names)}")
        labels = self.dataset.labels
        return names[value] if labels is None or names[value] in labels else str(value)
