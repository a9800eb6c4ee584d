"""Labels as data have them: read from a cell, found in a set, known or not."""

import math

# What float32 holds.
_GREATEST = 3.4e38


def read_label(task, cells):
    """Reads the label of an example.

    Args:
      task: a `glue.TextTask`.
      cells: list of the texts of its label columns, mostly one.

    Returns:
      By the type of the task: a label, a number, or a tuple of labels.

    Raises:
      ValueError: if it is none; its message says why.
    """
    return _READ[task.task_type](task, cells)


def _one(task, cells):
    label = task.same_labels.get(cells[0], cells[0])
    if not label.strip():
        raise ValueError("the label is empty")
    return label


def read_number(text, what):
    """The number that a text is; ValueError, naming `what`, if it is none or not finite."""
    try:
        # Python reads 1_000 as a number, and nobody else does.
        number = math.nan if "_" in text else float(text)
    except ValueError:
        number = math.nan
    if _GREATEST < abs(number) < math.inf:
        raise ValueError(f"{what} {text!r} is more than float32 holds")
    if not abs(number) <= _GREATEST:
        raise ValueError(f"{what} {text!r} is no number")
    return number


def _score(task, cells):
    return read_number(cells[0], "the score")


def _several(task, cells):
    if len(task.layout.label) < 2:
        parts = (part.strip() for part in cells[0].split(task.layout.separator))
        return tuple(filter(None, parts))
    names = task.labels or task.layout.label
    for name, cell in zip(names, cells, strict=True):
        if cell.strip() not in ("0", "1"):
            raise ValueError(f"0 or 1 was expected for the label {name}, found {cell!r}")
    return tuple(name for name, cell in zip(names, cells, strict=True) if cell.strip() == "1")


_READ = {"classification": _one, "regression": _score, "multi_label": _several}


def each_label(label):
    """The labels of an example as a tuple: none for a score, or where it has none."""
    if isinstance(label, tuple):
        return label
    return (label,) if isinstance(label, str) else ()


def labels_of(examples):
    """The different labels, sorted: as numbers if all are whole numbers, else as text."""
    labels = {label for example in examples for label in each_label(example.label)}
    if all(label.removeprefix("-").isdecimal() for label in labels):
        return tuple(sorted(labels, key=int))
    return tuple(sorted(labels))


def with_known_labels(examples, labels, bad):
    """The examples whose labels are among `labels`; the others are `bad` rows.

    Args:
      examples: list of `tsv.Example`.
      labels: all labels; none where the label is a score.
      bad: a `tsv.BadRows`.
    """
    known, kept = set(labels), []
    for example in examples:
        unknown = [label for label in each_label(example.label) if label not in known]
        if unknown:
            bad(f"{example.where}: the label {unknown[0]!r} is not one of {', '.join(labels)}")
        else:
            kept.append(example)
    return kept
