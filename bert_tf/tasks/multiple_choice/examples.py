"""Contexts and their endings: from tables to examples and features."""

import dataclasses
import functools
import re

from bert_tf import console
from bert_tf.data import records
from bert_tf.data.columns import ID, BadRows, columns_of
from bert_tf.data.features import Features, encode_batches
from bert_tf.data.labels import Labels
from bert_tf.data.tables import as_text
from bert_tf.errors import UserError, counted
from bert_tf.tokenization.packing import pack_pair

# Default column names; "startphrase" is SWAG's.
CONTEXT, LABEL = ("startphrase", "context"), ("label",)
UNIT = "pairs of context and ending"
_ENDING = re.compile(r"ending_?(\d+)$", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Example:
    """A context and its endings.

    Attributes:
      where: file and line, for messages.
      label: index of the correct ending; None in test sets.
      id: the id in the data, or the row number from 0.
    """

    where: str
    context: str
    endings: tuple
    label: int | None = None
    id: str | None = None


def make_examples(table, config, with_label=True):
    """Return the list of `Example` of a `Table`, and the names of its endings."""
    names, find, rows = columns_of(table)
    columns = _find_columns(table, names, find, config, with_label)
    make = functools.partial(_example, columns)
    examples = BadRows(config.skip_bad_rows).examples(table.name, rows, make)
    endings = columns.ending_columns
    if len(endings) == 1:  # a column of lists
        endings = tuple(f"{endings[0]}[{i}]" for i in range(len(examples[0].endings)))
    return examples, endings


def _find_columns(table, names, find, config, with_label):
    """Return the config with the names of all columns in the header, and log them."""
    context = tuple(find([name], "context_columns") for name in config.context_columns)
    endings = tuple(find([name], "ending_columns") for name in config.ending_columns)
    if not endings:
        matches = sorted((int(match[1]), match[0]) for match in map(_ENDING.match, names) if match)
        endings = tuple(find([name]) for _, name in matches)
        if with_label and [number for number, _ in matches] != [*range(len(matches))]:
            raise UserError(
                f"{table.header_place}: found {', '.join(endings)}, expected ending0, ending1, and "
                "so on, because labels count from 0; if label 0 is the first of these columns, "
                "name them with `ending_columns`"
            )
    if not endings and (name := find(["endings"])):  # a column of lists
        endings = (name,)
    elif len(set(endings)) < 2:
        raise UserError(
            f"{table.header_place}: found the columns of endings {', '.join(endings) or '(none)'}, "
            "expected two or more, such as ending0 and ending1; name them with `ending_columns`"
        )
    label_names = [config.label_column] if config.label_column else LABEL
    row_id = config.id_column
    columns = dataclasses.replace(
        config,
        context_columns=context or (find(CONTEXT, "context_columns"),),
        ending_columns=endings,
        label_column=find(label_names, "label_column") if with_label else None,
        id_column=find([row_id], "id_column") if row_id else find(ID),
    )
    context = " + ".join(columns.context_columns)
    console.info("%s: context %s; endings %s", table.name, context, ", ".join(endings))
    return columns


def _example(columns, where, index, cells):
    def texts(names):
        parts = [(name, cells[name]) for name in names]
        if len(parts) == 1 and isinstance(parts[0][1], list):
            parts = [(f"{parts[0][0]}[{i}]", x) for i, x in enumerate(parts[0][1])]
        for name, text in parts:
            if not as_text(text).strip():
                raise ValueError(f"{name} is empty")
        return tuple(as_text(text) for _, text in parts)

    context, endings = texts(columns.context_columns), texts(columns.ending_columns)
    if len(endings) < 2:
        raise ValueError(f"found {counted(len(endings), 'ending')}, expected two or more")
    label = None
    if columns.label_column:
        label = cells[columns.label_column]
        if label in endings:
            label = endings.index(label)
        label = int(Labels([str(i) for i in range(len(endings))]).read_cells([label]))
    row_id = as_text(cells[columns.id_column]) if columns.id_column else str(index)
    return Example(where, " ".join(x.strip() for x in context), endings, label, row_id)


def convert_examples(examples, tokenizer, max_seq_length, lengths=None):
    """Yield a dict for `records.CHOICE` per example, with a sequence for each choice."""
    contexts = encode_batches(tokenizer, (example.context for example in examples))
    endings = encode_batches(tokenizer, (text for x in examples for text in x.endings))
    for example, context in zip(examples, contexts, strict=True):
        choices = [
            pack_pair(list(context), next(endings), tokenizer, max_seq_length, lengths)
            for _ in example.endings
        ]
        yield {
            **{name: [choice[name] for choice in choices] for name in choices[0]},
            "label_ids": example.label or 0,
            "is_real_example": 1,
        }


def make_features(examples, tokenizer, config):
    """Return the `Features` of examples."""
    length, num_choices = config.max_seq_length, len(examples[0].endings)
    return Features.of_examples(
        examples, records.CHOICE, convert_examples, tokenizer, config,
        ([e.context, e.endings, e.label] for e in examples),
        {"S": length, "C": num_choices},
        num_choices,
        {"max_seq_length": length},
        unit=UNIT,
    )  # fmt: skip
