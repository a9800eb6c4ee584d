"""Labeled examples: from tables to examples, and to features, as in the release."""

import dataclasses
import itertools
from collections import Counter

import numpy as np

from bert_tf import console
from bert_tf.data import records, tables
from bert_tf.data.columns import (
    ANY_LABEL,
    RowErrors,
    RowWarnings,
    base_split,
    find_columns,
    required_text,
)
from bert_tf.data.features import Features, encode_batches
from bert_tf.data.labels import Labels, read_number
from bert_tf.errors import UserError, counted
from bert_tf.tasks.classification.options import NumericFeature
from bert_tf.tokenization.packing import pack_pair


@dataclasses.dataclass(frozen=True)
class Example:
    """One or two texts and, except in test sets, a label.

    Attributes:
      where: file and line, for messages.
      label: a result of `Labels.label_of`: a str or a tuple of probabilities; a float for
        regression; a tuple of str for multi-label tasks.
      id: the id in the data, or the row number from 0.
      weight: the factor of the loss, None for 1.
    """

    where: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple | None = None
    id: str | None = None
    numbers: tuple = ()
    weight: float | None = None

    def texts(self):
        """Return a dict from names for messages to the one or two texts."""
        if self.text_b is None:
            return {"text": self.text_a}
        return {"text_a": self.text_a, "text_b": self.text_b}


def hold_out(examples, dev_split, stratify):
    """Return (training, held-out) examples in order; `stratify` keeps the label proportions."""
    from sklearn.model_selection import train_test_split

    stratify = stratify and all(isinstance(example.label, str) for example in examples)
    counts = Counter(example.label for example in examples) if stratify else {}
    indices = [i for i, x in enumerate(examples) if not stratify or counts[x.label] > 1]
    size = round(dev_split.fraction * len(examples))
    if not 0 < size < len(indices):
        found = f"found {len(examples)} training rows, which leaves none for"
        missing = "training" if size else "evaluation"
        raise UserError(f"`dev_fraction={dev_split.fraction:g}`: {found} {missing}")
    labels = [examples[i].label for i in indices] if stratify else None
    if labels and min(size, len(indices) - size) < len(set(labels)):
        console.warning("`dev_fraction`: found too few rows to stratify by label")
        labels = None
    _, held_out = train_test_split(
        indices, test_size=size, random_state=dev_split.seed, stratify=labels
    )
    chosen = set(held_out)
    train = [x for i, x in enumerate(examples) if i not in chosen]
    console.info("%d of %d training rows held out for evaluation", len(chosen), len(examples))
    return train, [examples[i] for i in sorted(chosen)]


def measure_numbers(names, examples):
    """Return a training set's `NumericFeature`s as a tuple, one for each name."""
    # float32 cannot distinguish Unix times that are seconds apart.
    values = np.array([example.numbers for example in examples], "float64")
    # Rounding may give equal numbers a nonzero deviation.
    is_constant = values.min(0) == values.max(0)
    means, deviations = values.mean(0), np.where(is_constant, 0.0, values.std(0))
    for name, value in zip(names, deviations, strict=True):
        if not value:
            console.warning("`numeric_columns`: %s has only one value in the training set", name)
    return tuple(map(NumericFeature, names, means.tolist(), deviations.tolist()))


def scaling(numeric_features):
    """Return the means and scales (F,) of `normalize`."""
    means = np.array([feature.mean for feature in numeric_features])
    return means, np.array([feature.deviation or 1.0 for feature in numeric_features])


def normalize(values, numeric_features):
    """Scale values (..., F) to mean 0 and deviation 1, or only shift them if the deviation is 0."""
    means, scales = scaling(numeric_features)
    return (values - means) / scales


def examples_of(table, dataset, split, bad=None, columns=None):
    """Return the list of `Example` of a table, and its `Columns`, found unless they are given.

    The examples of "test" splits have no labels. `bad`, a `RowErrors`, collects invalid rows.
    """
    first = next(table.rows, (0, [], None))
    number, cells, problem = first
    if not (cells or problem):
        raise UserError(f"{table.name}: found no examples")
    if columns is not None:
        if columns.header:
            _warn_of_example(table, dataset, columns, cells)
    elif problem:
        raise UserError(f"{table.place(number)}: {problem}")
    else:
        columns = _find_columns(table, dataset, split, cells)
    rows = table.rows if columns.header else itertools.chain([first], table.rows)
    surplus, quoted = RowWarnings(), RowWarnings()
    has_quotes = dataset.layout and table.format.delimiter == "\t"
    with_label = base_split(split) != "test"
    names = ()
    if len(columns.labels) == 1:
        names = table.label_names.get(columns.name(columns.labels[0]), ())
    labels = dataset.reader(names) if with_label else None

    def make(where, index, row):
        if columns.width and any(row[columns.width :]):
            count = counted(len(row), "column")
            problem = f"found {count}, expected {columns.width} as in the first line"
            # For example, an unquoted comma moves the values after it to the wrong columns.
            if not columns.ignores_surplus:
                raise ValueError(problem)
            surplus.add(f"{where}: {problem}")
        example = row_example(dataset, where, index, row, columns, labels)
        if has_quotes and any(map(_is_quoted, example.texts().values())):
            quoted.add(where)
        return example

    places = ((table.place(number), problem or row) for number, row, problem in rows)
    name = f"{table.name} in {columns.language[1]}" if columns.language else table.name
    examples = collect_examples(name, dataset, places, make, bad)
    surplus.report("rows with extra columns, which are ignored")
    if dataset.layout:
        quoted.report("texts in quotes (tab-separated files keep quotes; use .csv to remove them)")
        _report(table, columns, examples)
    return examples, columns


def _find_columns(table, dataset, split, names):
    layout, labels = dataset.layout, dataset.labels or ()
    if table.format.has_names and len(labels) > 1 and {*labels} <= {*names}:
        others = {name.lower() for name in names if name not in labels}
        if not (layout.label or others & {*ANY_LABEL}):
            layout = dataclasses.replace(layout, label=tuple(labels))
    separator = layout.separator if dataset.task_type == "multi_label" else None
    return find_columns(table, names, layout, split, separator)


def _warn_of_example(table, dataset, columns, row):
    """Warn if the header, which the release skips, has a label or a numeric id."""
    try:
        if columns.labels:
            cells = [get_cell(row, x, "label") for x in columns.labels]
            dataset.reader().read_cells(cells)
        else:
            cells = [get_cell(row, columns.id, "id")]
            int(cells[0])
    except ValueError:
        return
    console.warning(
        "%s: the first line is skipped as the header, as in the release, but has the %s %s; if it "
        "is an example, write a header before it",
        table.name, "label" if columns.labels else "id", ", ".join(cells),
    )  # fmt: skip


def collect_examples(name, dataset, rows, make, bad):
    """Convert rows to `Example`s, see `RowErrors.examples`.

    A blank text is reported. A blank second text counts as missing, except in GLUE's files.
    """
    empty = RowWarnings()

    def checked(where, index, row):
        example = make(where, index, row)
        if example is None:
            return None
        blank = [name for name, text in example.texts().items() if not text.strip()]
        if blank:
            empty.add(f"{where}: {blank[0]} is empty")
        is_single = "text_b" in blank and dataset.layout
        return dataclasses.replace(example, text_b=None) if is_single else example

    examples = (bad or RowErrors()).examples(name, rows, checked)
    empty.report("rows with an empty text")
    return examples


def _report(table, columns, examples):
    used = [f"{columns.name(i)} ({role})" for i, role in sorted(columns.roles().items())]
    rest = "" if len(used) == columns.width else f" and {columns.width - len(used)} others"
    first = examples[0]
    values = first.texts() if first.label is None else {**first.texts(), "label": first.label}
    # In Python, only what is ignored is worth a message.
    log = console.notice if rest and table.is_argument else console.info
    other = "no header line (give other columns as `text_columns` and `label_column`, from 0), "
    log(
        "%s: %s; %scolumns %s%s; %d examples, the first: %s",
        table.name, table.format, "" if columns.names else other, ", ".join(used), rest,
        len(examples), ", ".join(f"{name} {x!r:.40}" for name, x in values.items()),
    )  # fmt: skip


def _is_quoted(text):
    """Return whether a text is quoted as in CSV files, with doubled quotes in it."""
    return text[:1] == text[-1:] == '"' and '""' in text[1:-1]


def get_cell(row, position, name):
    """Return a cell of a row; raise ValueError, naming the column, if the row is too short."""
    if not -len(row) <= position < len(row):
        found = counted(len(row), "column")
        raise ValueError(f"found {found}, expected {name} in column {position + 1}")
    return row[position]


def row_example(dataset, where, index, row, columns, labels=None):
    """Return the example of a row, None for other languages; raise ValueError if it is invalid."""

    def text(position, what):
        value = get_cell(row, position, what)
        try:
            return tables.as_text(value)
        except ValueError as error:
            raise ValueError(f"{what}: {error}") from None

    if columns.language and get_cell(row, columns.language[0], "language") != columns.language[1]:
        return None
    text_a, *rest = map(text, columns.texts, ("text_a", "text_b"))
    text_b = rest[0] if rest else None
    if text_b == "" and not isinstance(row[columns.texts[1]], str):  # None or NaN
        text_b = None
    row_id = str(index) if columns.id is None else text(columns.id, "id")
    label = None
    if labels:
        label = labels.read_cells([get_cell(row, x, "label") for x in columns.labels])
        if dataset.layout:
            required_text(row[columns.texts[0]], "text" if len(columns.texts) == 1 else "text_a")
    names = columns.numbers
    cells = [text(position, name) for name, position in names.items()]
    if cells and dataset.layout.numeric_as == "text" and text_a.strip():
        # "age: 35, price: 2.5. TEXT": numbers first, because long texts are truncated at the end.
        words = (f"{name}: {cell.strip()}" for name, cell in zip(names, cells, strict=True))
        text_a = f"{', '.join(words)}. {text_a}"
    return Example(where, text_a, text_b, label, row_id, tuple(map(read_number, cells, names)))


# The schema of the records and the name of their label, by task type. Labels of a classification
# may be distributions, with the schema of multi-label records.
_SCHEMAS = {
    "classification": (records.CLASSIFICATION, "label_ids"),
    "regression": (records.REGRESSION, "label_value"),
    "multi_label": (records.MULTI_LABEL, "label_values"),
}


def record_schema(config, is_soft=False, has_weights=False):
    """Return the record schema of a `ClassificationConfig`, and the name of the label."""
    schema, label_name = _SCHEMAS["multi_label" if is_soft else config.task_type]
    return {
        **(records.windowed(schema) if config.windows else schema),
        **(records.NUMBERS if config.numeric_inputs else {}),
        **(records.WEIGHTS if has_weights else {}),
    }, label_name


def convert_examples(examples, tokenizer, config, is_soft=False, lengths=None):
    """Yield a dict for `record_schema` for each example; `lengths` counts the lengths of texts."""
    label_name, windows = record_schema(config, is_soft)[1], config.windows
    labels = Labels(config.labels, config.task_type)
    encode = labels.row if is_soft else labels.encode
    all_a = encode_batches(tokenizer, (example.text_a for example in examples))
    all_b = encode_batches(tokenizer, (example.text_b or "" for example in examples))
    for example, ids_a, ids_b in zip(examples, all_a, all_b, strict=True):
        values = {}
        if config.numeric_inputs:
            values["numbers"] = normalize(example.numbers, config.numeric_inputs)
        if example.weight is not None:
            values["sample_weight"] = example.weight
        if windows:
            lengths.add(len(ids_a) + 2)
            packed = windows.pack(ids_a, tokenizer)
        else:
            packed = pack_pair(ids_a, ids_b, tokenizer, config.max_seq_length, lengths)
        yield {**values, **packed, label_name: encode(example.label), "is_real_example": 1}


def warn_of_num_texts(name, found, trained):
    """Warn of single texts for a model of pairs, and of pairs for a model of single texts."""
    if found != trained:
        texts = {1: "single texts", 2: "pairs of texts"}
        found, trained = texts[found], texts[trained]
        console.warning("%s: found %s, but the model was trained on %s", name, found, trained)


def length_limits(config):
    """Return arguments of `log_truncated` and `log_long_texts`."""
    if config.windows:
        return {"limit": config.windows.max_length, "max_limit": None, "option": "max_windows"}
    return {"advice": "long_documents=windows"} if config.num_texts == 1 else {}


def make_features(examples, tokenizer, config):
    """Return the `Features` of examples."""
    windows, length = config.windows, config.max_seq_length
    has_tuples = any(isinstance(example.label, tuple) for example in examples)
    is_soft = has_tuples and config.task_type == "classification"
    schema, _ = record_schema(config, is_soft, examples[0].weight is not None)

    def axes(counts):
        sizes = {"S": length, "L": config.num_outputs, "F": len(config.numeric_inputs)}
        return sizes | ({"W": len(windows.spans(counts["longest"] - 2))} if windows else {})

    return Features.of_examples(
        examples, schema, convert_examples, tokenizer, config,
        data=([e.text_a, e.text_b, e.label, e.numbers, e.weight] for e in examples),
        axes=axes, num_labels=config.num_outputs, options={"config": config, "is_soft": is_soft},
        fingerprint={
            "labels": list(config.labels),
            "task_type": config.task_type,
            "numbers": [list(feature) for feature in config.numeric_inputs],
            "windows": windows and list(windows),
        },
        **length_limits(config),
    )  # fmt: skip
