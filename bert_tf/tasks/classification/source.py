"""Where the examples of classification come from: options to a source, splits and labels."""

import dataclasses
import os

from bert_tf import console
from bert_tf.data.rows import BadRows
from bert_tf.errors import UserError
from bert_tf.tasks.classification.columns import Layout
from bert_tf.tasks.classification.examples import (
    find_labels,
    hold_out,
    measure,
    with_known_labels,
)
from bert_tf.tasks.classification.glue import custom_task, find_task
from bert_tf.tasks.classification.reading import FileSource
from bert_tf.tasks.classification.tfds_source import TfdsSource

# Options of columns that a run remembers, and their fields in `Layout`.
_REMEMBERED = {
    "text_columns": "text", "label_column": "label", "id_column": "id", "header": "header",
    "delimiter": "delimiter", "label_separator": "separator",
}  # fmt: skip

# Options that only custom files have.
_CUSTOM_ONLY = ("task_type", "text_columns", "label_column", "id_column", "labels", "header",
                "delimiter", "label_separator", "numeric_columns", "numeric_as")  # fmt: skip


def make_source(options, stored=None, remembered=()):
    """Return the `FileSource` or `TfdsSource` that a `ClassificationConfig` names.

    `stored` is the `ClassificationConfig` of a trained model, for options that are not given, and
    `remembered` has the names of the options that are its own; see `with_remembered_columns`.

    Raises:
      UserError: if options cannot be combined, or the data do not exist.
    """
    numeric_columns = options.numeric_columns or (stored.numeric_columns if stored else ())
    layout = Layout(
        tuple(options.text_columns),
        tuple(options.label_column),
        options.id_column,
        options.header,
        options.label_separator,
        tuple(numeric_columns),
        options.numeric_as or (stored.numeric_as if stored else "vector"),
        options.delimiter,
        tuple(_REMEMBERED[name] for name in remembered),
    )
    if len(set(layout.numbers)) < len(layout.numbers):
        raise UserError(f"`numeric_columns`: a column occurs twice in {', '.join(layout.numbers)}")
    labels = tuple(options.labels) or None
    task_type = options.task_type or (stored and stored.task_type)
    options.check_source(
        ("task_name", "data_dir", "train_file", "dev_file", "test_file", "header", "delimiter")
    )
    if options.numeric_as and not layout.numbers:
        raise UserError("`numeric_as` requires `numeric_columns`")
    if options.tfds_name:
        return TfdsSource(
            options.tfds_name, options.tfds_data_dir, task_type, labels, layout,
            options.split_names(),
        )  # fmt: skip
    paths = {"train": options.train_file, "dev": options.dev_file, "test": options.test_file}
    if not (options.task_name or any(paths.values())):
        raise UserError(
            "nothing to read: `task_name`, `tfds_name` or a file (`train_file`, `dev_file`, "
            "`test_file`) must be given"
        )
    task = find_task(options.task_name or "tsv", options.xnli_language)
    if task.layout is not None:
        task = custom_task(task_type, labels, layout)
    elif given := [name for name in _CUSTOM_ONLY if options.is_given(name)]:
        raise UserError(
            f"`{given[0]}` is for custom files; the columns of "
            f"`task_name={options.task_name}` are known"
        )
    return FileSource(task, options.data_dir, paths)


def with_remembered_columns(options, stored):
    """Return the options with the columns of a trained model where none are given, and log them.

    Returns:
      (the config, tuple of the names of the options that were not given)
    """
    is_custom = not options.tfds_name and find_task(options.task_name or "tsv").layout is not None
    columns = stored.columns if stored and is_custom else {}
    taken = {name: value for name, value in columns.items() if not options.is_given(name)}
    for name, value in columns.items():
        if name not in taken and getattr(options, name) != value:
            console.info(
                "`%s`: %s as given; the model was trained with %s",
                name, _as_text(getattr(options, name)), _as_text(value),
            )  # fmt: skip
    if taken:
        values = (f"`{name}={_as_text(value)}`" for name, value in taken.items())
        console.info("columns of the trained model: %s", ", ".join(values))
    return dataclasses.replace(options, **taken), tuple(taken)


def _as_text(value):
    return ",".join(value) if isinstance(value, tuple) else value


def columns_to_remember(options, source):
    """Return the columns of the training file by option, if a later command can use them."""
    columns = source.columns.get("train")
    if source.task.layout is None or columns is None:
        return {}
    given = {name: getattr(options, name) for name in _REMEMBERED if options.is_given(name)}
    return {**(columns.named() if columns.names else {}), **given}


def read_splits(source, parts, stored=None, skip_bad_rows=False, dev_split=None):
    """Read the splits that a run needs.

    Args:
      source: a `FileSource` or a `TfdsSource`.
      parts: list of "train", "dev" and "test".
      stored: the `ClassificationConfig` of a trained model. Its labels take precedence over those
        of the data, because their order gives the ids that it was trained on.
      skip_bad_rows: whether to leave out rows that cannot be used; their number is logged.
      dev_split: a `DevSplit` to make the split "dev" of rows of "train", whichever of them is
        needed; None to read it.

    Returns:
      (dict from split to list of `Example`, tuple of labels, tuple of `NumericFeature`)

    Raises:
      UserError: if a row is bad; names file and line.
    """
    names = source.task.layout.numbers if source.task.layout else ()
    if stored and tuple(names) != stored.numeric_columns:
        raise UserError(
            f"`numeric_columns`: {', '.join(names) or 'none'}, but the trained model has "
            f"{', '.join(stored.numeric_columns) or 'none'}"
        )
    if stored and stored.task_type != source.task.task_type:
        raise UserError(
            f"`output_dir`: its model was trained for {stored.task_type}, not for "
            f"{source.task.task_type}"
        )
    if dev_split:
        parts = dict.fromkeys("train" if part == "dev" else part for part in parts)
    splits = [split for part in parts for split in source.splits(part)]
    bad = {split: BadRows(skip_bad_rows) for split in splits}
    examples = {split: source.read(split, bad[split]) for split in splits}
    labels = source.task.labels
    if labels is None and stored:
        labels = stored.labels
    train = examples.get("train", ())
    if not (train or stored) and (labels is None or names):
        train = source.read("train", BadRows(skip_bad_rows))
    if labels is None:
        labels = _infer_labels(train, source.task.task_type)
    for split in examples:
        known = with_known_labels(examples[split], labels, bad[split])
        bad[split].report()
        if not known:
            raise UserError(f"{bad[split].first}; no row of this split can be used")
        examples[split] = known
    if dev_split and "train" in examples:
        is_classification = source.task.task_type == "classification"
        examples["train"], examples["dev"] = hold_out(
            examples["train"], dev_split, is_classification
        )
    if train and not stored:
        _warn_if_constant(examples.get("train", ()), source.task.task_type)
    numeric_features = stored.numeric_features if stored else ()
    if names and not stored:
        usable = examples.get("train") or with_known_labels(train, labels, BadRows(skip=True))
        numeric_features = measure(names, usable)
    return examples, tuple(labels), numeric_features


def _warn_if_constant(train, task_type):
    """Warn if all training examples have the same label or score, from which nothing is learned."""
    if train and all(example.label == train[0].label for example in train):
        what = "score" if task_type == "regression" else "label"
        console.warning(
            "all %d training examples have the %s %r: there is nothing to learn",
            len(train), what, train[0].label,
        )  # fmt: skip


def _infer_labels(train, task_type):
    labels = find_labels(train)
    path = train[0].where.rpartition(", ")[0]
    if len(labels) == 1 and task_type == "classification":
        raise UserError(
            f"{path}: the only label is {labels[0]!r}, but a classifier needs at least two; "
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
