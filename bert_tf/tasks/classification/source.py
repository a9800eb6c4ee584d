"""Sources of examples: files, tensorflow-datasets and processors; their splits and labels."""

import dataclasses
import os

import numpy as np

from bert_tf import console
from bert_tf.configs.task import SPLITS, base_split
from bert_tf.data.columns import (
    Layout,
    RowErrors,
    are_numbers,
    find_columns,
    find_file,
    trained_header,
)
from bert_tf.data.features import digest
from bert_tf.data.labels import Labels
from bert_tf.data.tables import Table, TableFormat, open_table
from bert_tf.data.tfds import TfdsDataset
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files
from bert_tf.tasks.classification.examples import examples_of, hold_out, measure_numbers
from bert_tf.tasks.classification.glue import custom_dataset, find_dataset
from bert_tf.tasks.classification.options import DevSplit
from bert_tf.tasks.classification.processor import ProcessorSource

_DO_FLAGS = {"train": "do_train", "dev": "do_eval", "test": "do_predict"}


class FileSource:
    """The files of a dataset.

    Attributes:
      dataset: the `DatasetSpec`.
      files: the files of the splits read so far.
      training_columns: the `Columns` of the training set, for custom files that have been read.
    """

    def __init__(self, dataset, data_dir=None, paths=None):
        """Create a source; `paths` is a dict of files for "train", "dev" or "test", or None."""
        self.dataset, self._data_dir = dataset, data_dir
        self.files, self.training_columns = [], None
        self._paths = {base: path for base, path in (paths or {}).items() if path}

    def splits(self, base):
        """Return all splits of "train", "dev" or "test"; raise UserError if none exists."""
        splits = [split for split in self.dataset.files if base_split(split) == base]
        if not splits:
            found = f"this task has no {base} split, only {', '.join(self.dataset.files)}"
            raise UserError(f"`{_DO_FLAGS[base]}`: {found}")
        existing = []
        for split in splits[:1] if base in self._paths else splits:
            file, path = self.dataset.files[split], self._paths.get(base)
            usual = os.path.join(self._data_dir or "", file.names[0])
            if file.optional and not path and not files.exists(usual):
                console.info("%s does not exist: this split is skipped", usual)
            elif find_file(split, file.names, self._data_dir, path):
                existing.append(split)
        return existing

    def read(self, split, bad=None):
        """Return the list of `Example` of a split; `bad`, a `RowErrors`, collects invalid rows."""
        path = self._paths.get(base_split(split))
        file, layout = self.dataset.files[split], self.dataset.layout
        path = find_file(split, file.names, self._data_dir, path)
        self.files.append(path)
        delimiters = (layout.delimiter, layout.saved_delimiter) if layout else (None, "tab")
        table = open_table(path, *delimiters)
        examples, columns = examples_of(table, self.dataset, split, bad, file.columns)
        if split == "train" and layout:
            self.training_columns = columns
            self.dataset = dataclasses.replace(self.dataset, layout=layout.after_training(columns))
        return examples


class TfdsSource:
    """A dataset of tensorflow-datasets, with the interface of `FileSource`."""

    files, training_columns = (), None  # each command finds the features again

    def __init__(self, name, data_dir=None, task_type=None, labels=None, layout=None, splits=None):
        """Find the dataset, such as "glue/mrpc", and prepare it if necessary.

        Without `task_type`, a float label is a regression and a sequence of labels is multi-label.
        `layout` names features; the supervised keys are the default. `splits` is as in
        `TfdsDataset`.
        """
        self._data = TfdsDataset(name, data_dir, splits)
        layout = layout or Layout()
        family, _, config = name.partition("/")
        is_glue = family == "glue" and not (layout.text or layout.label or layout.numbers)
        dataset = find_dataset(config.partition(":")[0]) if is_glue else None
        if dataset and task_type not in (None, dataset.task_type):
            raise UserError(f"`task_type={task_type}`: expected {dataset.task_type} for {name}")
        text, label = ((x,) if isinstance(x, str) else () for x in self._data.supervised_keys)
        text, label = layout.text or text, layout.label or label
        features = self._data.features
        text = dataset.features if dataset else text
        wanted = dataclasses.replace(layout, text=text, label=label)
        table = Table(name, TableFormat("tfds"), iter(()))
        self._columns = find_columns(table, list(features), wanted, "train")
        if not dataset:
            label = self._columns.name(self._columns.labels[0])
            feature = features[label]
            if task_type is None and hasattr(feature, "feature"):
                task_type = "multi_label"
            elif task_type is None and np.issubdtype(feature.np_dtype, np.floating):
                task_type = "regression"
            if task_type != "regression" and not labels and len(layout.label) < 2:
                labels = self._data.label_names.get(label)
            dataset = custom_dataset(task_type, labels, layout)
        self.dataset = dataset

    def splits(self, base):
        """Return the splits of "train", "dev" or "test"; raise UserError if none exists."""
        names = self.dataset.files
        splits = [x for x in names if base_split(x) == base and self._data.find_split(x)]
        if not splits:
            raise self._data.missing_split(base)
        return splits

    def read(self, split, bad=None):
        """Read the examples of one of `splits`; see `FileSource.read`."""
        return examples_of(self._data.table(split), self.dataset, split, bad, self._columns)[0]


# Options that name columns, and their fields in `Layout`. `TrainedOn.columns` saves all except the
# numeric columns.
_LAYOUT = {
    "text_columns": "text",
    "label_column": "label",
    "id_column": "id",
    "header": "header",
    "delimiter": "delimiter",
    "label_separator": "separator",
    "numeric_columns": "numbers",
}
_SAVED_COLUMNS = [name for name in _LAYOUT if name != "numeric_columns"]
_FILES = ("task_name", "tfds_name", "train_file", "dev_file", "test_file")


def make_source(data_options, config, trained=None, restored=()):
    """Create the `FileSource`, `TfdsSource` or `ProcessorSource` of a `ClassificationData`.

    `config` is a `ClassificationConfig`. `restored` names the options of the data that have the
    values of the `trained` model.
    """
    layout = {field: getattr(data_options, name) for name, field in _LAYOUT.items()}
    layout["numbers"] = layout["numbers"] or config.numeric_names
    if "delimiter" in restored:
        layout["saved_delimiter"] = layout.pop("delimiter")
    layout = Layout(
        **layout,
        numeric_as=config.numeric_as,
        num_texts=trained and trained.num_texts,
        trained_header=trained_header(trained.trained_on.columns) if trained else None,
    )
    labels = config.labels or None
    task_type = config.task_type if trained or config.is_given("task_type") else None
    custom_only = [x for x in ("task_type", "labels", "numeric_as") if config.is_given(x)]
    custom_only += filter(data_options.is_given, _LAYOUT)
    if data_options.processor:
        if conflicting := [*filter(data_options.is_given, _FILES), *custom_only]:
            raise UserError(f"`{conflicting[0]}` cannot be combined with `processor`")
        return ProcessorSource(data_options.processor, data_options.data_dir)
    if config.is_given("numeric_as") and not layout.numbers:
        raise UserError("`numeric_as` requires `numeric_columns`")
    if data_options.tfds_name:
        data_set = data_options.tfds_name, data_options.tfds_data_dir
        return TfdsSource(*data_set, task_type, labels, layout, data_options.split_names())
    paths = {split: getattr(data_options, f"{split}_file") for split in SPLITS}
    if not (data_options.task_name or any(paths.values())):
        raise UserError(
            "`processor`, `task_name`, `tfds_name` or a file (`train_file`, `dev_file`, "
            "`test_file`) must be given"
        )
    dataset = find_dataset(data_options.task_name or "tsv", data_options.xnli_language)
    if dataset.layout is not None:
        dataset = custom_dataset(task_type, labels, layout)
    elif custom_only:
        other = f"`task_name={data_options.task_name}`, which has fixed columns"
        raise UserError(f"`{custom_only[0]}` cannot be combined with {other}")
    return FileSource(dataset, data_options.data_dir, paths)


def with_restored_columns(data_options, trained):
    """Return the options of the data with the columns of the trained model, and their names."""
    has_files = not (data_options.tfds_name or data_options.processor)
    is_custom = has_files and find_dataset(data_options.task_name or "tsv").layout is not None
    columns = trained.trained_on.columns if trained and is_custom else {}
    taken = {name: value for name, value in columns.items() if not data_options.is_given(name)}
    if data_options.header == "no":  # columns by name require a header
        for name in ("text_columns", "label_column", "id_column"):
            value = taken.get(name) or ()
            if not are_numbers([value] if isinstance(value, str) else value):
                del taken[name]
    if taken.get("header") == "no" or data_options.is_given("text_columns"):
        taken.pop("header", None)  # `Layout.trained_header` has it
    for name, value in columns.items():
        if data_options.is_given(name) and getattr(data_options, name) != value:
            used, value = _flag_text(getattr(data_options, name)), _flag_text(value)
            console.info("using `%s=%s`, although the model was trained with %s", name, used, value)
    if taken:
        values = (f"`{name}={_flag_text(value)}`" for name, value in taken.items())
        console.info("columns of the trained model: %s", ", ".join(values))
    return dataclasses.replace(data_options, **taken), tuple(taken)


def _flag_text(value):
    return ",".join(value) if isinstance(value, tuple) else value


def columns_to_save(data, source):
    """Return a dict from option to column of the training file, for later commands."""
    columns = source.training_columns
    if columns is None:
        return {}
    options = {name: getattr(data, name) for name in _SAVED_COLUMNS if data.is_given(name)}
    if not columns.names:
        return {**options, "header": "no"}
    named = columns.named()
    if "id_column" in options:
        named["id_column"] = columns.name(columns.id)
    saved = {**options, **named}
    saved.pop("header", None)  # names say that there is a header, except for names such as 1
    if any(map(str.isdecimal, [*named["text_columns"], *named.get("label_column", ())])):
        saved["header"] = "yes"
    return saved


def read_splits(source, splits, trained=None, skip_bad_rows=False, dev_split=None):
    """Read `splits`, a list of "train", "dev" and "test".

    The labels of a `trained` model override the labels of the data. `dev_split` splits the training
    set into "train" and "dev".

    Returns:
      (dict from split to list of `Example`, tuple of labels, tuple of `NumericFeature`)
    """
    dataset = source.dataset
    if trained and trained.task_type != dataset.task_type:
        found = (
            f"its model was trained for {trained.task_type}, the data is for {dataset.task_type}"
        )
        raise UserError(f"`output_dir`: {found}")
    if dev_split:
        splits = dict.fromkeys("train" if split == "dev" else split for split in splits)
    splits = [split for base in splits for split in source.splits(base)]
    labels = dataset.labels
    train = ()
    has_numbers = dataset.layout and dataset.layout.numbers
    if "train" in splits or (not trained and (labels is None or has_numbers)):
        train = source.read("train", RowErrors(skip_bad_rows))
    # Reading the training file replaces numbers of columns by names.
    names = source.dataset.layout.numbers if dataset.layout else ()
    if trained and names != trained.numeric_names:
        found, expected = ",".join(names), ",".join(trained.numeric_names) or "none"
        raise UserError(f"`numeric_columns={found}`: expected {expected}, as in training")
    if labels is None:
        labels = _infer_labels(train, dataset.task_type)
    # The other splits are read with the labels of the training set.
    source.dataset = dataclasses.replace(source.dataset, labels=labels)
    examples = {
        split: train if split == "train" else source.read(split, RowErrors(skip_bad_rows))
        for split in splits
    }
    if dev_split and "train" in examples:
        stratify = dataset.task_type == "classification"
        examples["train"], examples["dev"] = hold_out(examples["train"], dev_split, stratify)
    if trained:
        return examples, tuple(labels), trained.numeric_features
    usable = examples.get("train", ())
    if usable and all(example.label == usable[0].label for example in usable):
        what = "score" if dataset.task_type == "regression" else "label"
        found = f"all {len(usable)} training examples have the {what} {usable[0].label!r}"
        console.warning("%s, so the model has nothing to learn", found)
    return examples, tuple(labels), measure_numbers(names, usable or train) if names else ()


def _infer_labels(train, task_type):
    labels = Labels.find(example.label for example in train)
    path = train[0].where.rpartition(", ")[0]
    if len(labels) == 1 and task_type == "classification":
        raise UserError(
            f"{path}: found only the label {labels[0]!r}, expected at least two; "
            "`task_type=multi_label` learns whether an example has a label"
        )
    console.info("labels found in %s: %s", os.path.basename(path), abbreviate(labels, 20))
    if 2 * len(labels) > len(train) > 20:
        found = f"{len(labels)} labels in {len(train)} examples"
        console.warning("%s; for a score use `task_type=regression`", found)
    return labels


def find_dev_split(data_options, trained):
    """Return the `DevSplit` of the trained model or, for a new model, of the options."""
    fraction, split = data_options.dev_fraction, trained.trained_on.dev_split if trained else None
    if trained and fraction is not None and (split is None or fraction != split.fraction):
        raise UserError(
            f"`dev_fraction={fraction:g}`: the model was trained with "
            f"{split.fraction if split else 'all rows'}, so it would be evaluated on training "
            "rows; use the original value or a `dev_file`"
        )
    if trained:
        return None if data_options.dev_file else split
    return None if fraction is None else DevSplit(fraction, data_options.dev_seed)


def with_digest(dev_split, examples):
    """Add the digest of the rows to a `DevSplit`; raise UserError if training held out others."""
    value = digest([e.text_a, e.text_b, e.label] for e in examples)
    if dev_split.digest not in ("", value):
        raise UserError(
            "`dev_fraction`: the held-out rows are not those of the training run, because the file "
            "or the version of scikit-learn has changed; restore it, or use a `dev_file`"
        )
    return dev_split._replace(digest=value)
