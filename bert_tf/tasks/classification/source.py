"""Choose the source of the examples from the options, and read splits and labels."""

import dataclasses
import os

from bert_tf import console
from bert_tf.configs.data_files import SPLITS
from bert_tf.data.columns import Layout
from bert_tf.data.rows import BadRows
from bert_tf.errors import UserError
from bert_tf.tasks.classification.examples import (
    find_labels,
    hold_out,
    measure_numbers,
    with_known_labels,
)
from bert_tf.tasks.classification.glue import custom_dataset, find_task
from bert_tf.tasks.classification.processor import ProcessorSource
from bert_tf.tasks.classification.reading import FileSource
from bert_tf.tasks.classification.tfds_source import TfdsSource

# Options that name columns, and their fields in `Layout`. `ClassificationConfig.columns` saves all
# except the numeric columns.
_LAYOUT = {
    "text_columns": "text", "label_column": "label", "id_column": "id", "header": "header",
    "delimiter": "delimiter", "label_separator": "separator", "numeric_columns": "numbers",
    "numeric_as": "numeric_as",
}  # fmt: skip
_SAVED_COLUMNS = [name for name in _LAYOUT if not name.startswith("numeric_")]

_CUSTOM_ONLY = ("task_type", "labels", *_LAYOUT)
_NOT_FOR_PROCESSORS = ("task_name", "tfds_name", "train_file", "dev_file", "test_file",
                      *_CUSTOM_ONLY)  # fmt: skip


def make_source(task_config, stored=None, restored=()):
    """Create the `FileSource`, `TfdsSource` or `ProcessorSource` of a `ClassificationConfig`."""
    layout = {field: getattr(task_config, name) for name, field in _LAYOUT.items()}
    layout["numbers"] = layout["numbers"] or (stored.numeric_columns if stored else ())
    layout["numeric_as"] = layout["numeric_as"] or (stored.numeric_as if stored else "vector")
    layout = Layout(**layout, restored=tuple(_LAYOUT[name] for name in restored))
    labels = task_config.labels or None
    task_type = task_config.task_type or (stored and stored.task_type)
    task_config.check_source(
        ("task_name", "data_dir", "train_file", "dev_file", "test_file", "header", "delimiter")
    )
    if task_config.processor:
        if given := [name for name in _NOT_FOR_PROCESSORS if task_config.is_given(name)]:
            raise UserError(f"`{given[0]}` cannot be combined with `processor`")
        return ProcessorSource(task_config.processor, task_config.data_dir)
    if task_config.numeric_as and not layout.numbers:
        raise UserError("`numeric_as` requires `numeric_columns`")
    if task_config.tfds_name:
        data_set = task_config.tfds_name, task_config.tfds_data_dir
        return TfdsSource(*data_set, task_type, labels, layout, task_config.split_names())
    paths = {split: getattr(task_config, f"{split}_file") for split in SPLITS}
    if not (task_config.task_name or any(paths.values())):
        raise UserError(
            "`processor`, `task_name`, `tfds_name` or a file (`train_file`, `dev_file`, "
            "`test_file`) must be given"
        )
    dataset = find_task(task_config.task_name or "tsv", task_config.xnli_language)
    if dataset.layout is not None:
        dataset = custom_dataset(task_type, labels, layout)
    elif given := [name for name in _CUSTOM_ONLY if task_config.is_given(name)]:
        raise UserError(
            f"`{given[0]}` cannot be combined with `task_name={task_config.task_name}`, which has "
            "fixed columns"
        )
    return FileSource(dataset, task_config.data_dir, paths)


def with_restored_columns(task_config, stored):
    """Return the config with the trained model's column options, and the names of these options."""
    has_files = not (task_config.tfds_name or task_config.processor)
    is_custom = has_files and find_task(task_config.task_name or "tsv").layout is not None
    columns = stored.columns if stored and is_custom else {}
    taken = {name: value for name, value in columns.items() if not task_config.is_given(name)}
    for name, value in columns.items():
        if name not in taken and getattr(task_config, name) != value:
            console.info(
                "using `%s=%s`, although the model was trained with %s",
                name, _as_text(getattr(task_config, name)), _as_text(value),
            )  # fmt: skip
    if taken:
        values = (f"`{name}={_as_text(value)}`" for name, value in taken.items())
        console.info("columns of the trained model: %s", ", ".join(values))
    return dataclasses.replace(task_config, **taken), tuple(taken)


def _as_text(value):
    return ",".join(value) if isinstance(value, tuple) else value


def columns_to_save(task_config, source):
    """Return a dict from option to column of the training file, for later commands."""
    columns = source.columns.get("train")
    if source.dataset.layout is None or columns is None:
        return {}
    given = {
        name: getattr(task_config, name) for name in _SAVED_COLUMNS if task_config.is_given(name)
    }
    return {**(columns.named() if columns.names else {}), **given}


def read_splits(source, splits, stored=None, skip_bad_rows=False, dev_split=None):
    """Read `splits`, a list of "train", "dev" and "test".

    The labels of the trained model `stored` override the labels of the data. `dev_split` splits the
    training set into "train" and "dev".

    Returns:
      (dict from split to list of `Example`, tuple of labels, tuple of `NumericFeature`)
    """
    dataset = source.dataset
    names = dataset.layout.numbers if dataset.layout else ()
    if stored and names != stored.numeric_columns:
        raise UserError(
            f"`numeric_columns={','.join(names)}`: expected "
            f"{','.join(stored.numeric_columns) or 'none'}, as in training"
        )
    if stored and stored.task_type != dataset.task_type:
        raise UserError(
            f"`output_dir`: the model was trained for {stored.task_type}, expected "
            f"{dataset.task_type}"
        )
    if dev_split:
        splits = dict.fromkeys("train" if split == "dev" else split for split in splits)
    splits = [split for base in splits for split in source.splits(base)]
    bad = {split: BadRows(skip_bad_rows) for split in splits}
    examples = {split: source.read(split, bad[split]) for split in splits}
    labels = dataset.labels
    if labels is None and stored:
        labels = stored.labels
    train = examples.get("train", ())
    if not (train or stored) and (labels is None or names):
        train = source.read("train", BadRows(skip_bad_rows))
    if labels is None:
        labels = _infer_labels(train, dataset.task_type)
    for split in examples:
        examples[split] = with_known_labels(examples[split], labels, bad[split])
        bad[split].report()
        if not examples[split]:
            raise UserError(f"{bad[split].first}; the split has no valid rows")
    if dev_split and "train" in examples:
        stratify = dataset.task_type == "classification"
        examples["train"], examples["dev"] = hold_out(examples["train"], dev_split, stratify)
    if stored:
        return examples, tuple(labels), stored.numeric_features
    usable = examples.get("train", ())
    if usable and all(example.label == usable[0].label for example in usable):
        console.warning(
            "all %d training examples have the %s %r, so the model has nothing to learn",
            len(usable), "score" if dataset.task_type == "regression" else "label", usable[0].label,
        )  # fmt: skip
    if names:
        usable = usable or with_known_labels(train, labels, BadRows(skip=True))
    return examples, tuple(labels), measure_numbers(names, usable) if names else ()


def _infer_labels(train, task_type):
    labels = find_labels(train)
    path = train[0].where.rpartition(", ")[0]
    if len(labels) == 1 and task_type == "classification":
        raise UserError(
            f"{path}: found only the label {labels[0]!r}, expected at least two; "
            "`task_type=multi_label` learns whether an example has a label"
        )
    place = os.path.basename(path)
    rest = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    console.info("labels found in %s: %s%s", place, ", ".join(labels[:20]), rest)
    if 2 * len(labels) > len(train) > 20:
        console.warning(
            "%d labels in %d examples; for a score use `task_type=regression`",
            len(labels), len(train),
        )  # fmt: skip
    return labels
