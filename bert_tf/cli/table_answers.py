"""Add columns of answers to a table and keep its format, except that Excel becomes CSV."""

import csv
import io
import json
import os
from typing import Any, NamedTuple

from bert_tf import console
from bert_tf.data import tables
from bert_tf.errors import UserError, counted
from bert_tf.io import files

# Files with these extensions are tables even if their column names are unknown.
_ENDINGS = (".csv", *tables.ENDINGS)

# Inputs whose columns may have any of the usual names.
_USUAL_INPUTS = (("text",), ("text_a", "text_b"))


class Table(NamedTuple):
    """A table to answer; `rows` are the inputs for a `serving.Predictor`."""

    path: str
    format: tables.TableFormat
    names: tuple
    cells: list
    rows: list


def open_table(predictor, path, text_columns=(), delimiter=None):
    """Read a table with inputs of a model; return None for plain lines.

    `text_columns` are names or numbers from 0. By default, they are the columns used for training,
    else columns with the usual names.
    """
    from bert_tf.data.columns import Layout, find_columns

    inputs = [name for name in predictor.inputs if name != "numbers"]
    ending = tables.file_extension(path)
    is_given = bool(text_columns or delimiter)
    if "endings" in inputs:
        if is_given:
            raise UserError(
                "`text_columns` and `delimiter` have no effect on multiple choice; pass the "
                "endings as `json`"
            )
        return None
    metadata = predictor.metadata
    saved = metadata.get("columns", {})
    texts = tuple(text_columns or saved.get("text_columns", ()))
    if text_columns and len(texts) != len(inputs):
        raise UserError(
            f"`text_columns`: found {counted(len(texts), 'column')}, expected one for each of "
            f"{', '.join(inputs)}"
        )
    if not texts and tuple(inputs) not in _USUAL_INPUTS:
        texts = tuple(inputs)
    layout = Layout(
        texts,
        header=saved.get("header", "auto") if not text_columns else "auto",
        numbers=tuple(metadata.get("numbers") or metadata.get("numbers_in_text") or ()),
        delimiter=delimiter or saved.get("delimiter"),
        restored=() if text_columns else ("text", "header"),
    )
    table_format = tables.find_format(path, layout.delimiter, layout.likely_names)
    rows = tables.read_rows(path, table_format)
    first = next(rows, None)
    names = [str(name).strip() for name in first[1]] if first else []
    is_table = is_given or ending in _ENDINGS
    if not first or not (is_table or (not first[2] and _has_columns(names, inputs, layout))):
        return None
    if first[2]:
        _raise(path, table_format, *first)
    columns = find_columns(path, names, layout, "test", len(inputs) + 1, table_format.has_names)
    if len(columns.texts) < len(inputs):
        raise UserError(
            f"{path}: found only one text column, expected {' and '.join(inputs)}; name both with "
            "`text_columns`"
        )
    positions = columns.texts[: len(inputs)]
    cells, inputs_of_rows = [], []
    for number, row, problem in rows if columns.header else [first, *rows]:
        try:
            if problem:
                raise ValueError(problem)
            if columns.header and any(row[columns.width :]):
                raise ValueError(
                    f"found {counted(len(row), 'column')}, expected {columns.width} as in the "
                    "first line"
                )
            values = _inputs(inputs, positions, columns, layout, row, metadata)
            inputs_of_rows.append(predictor.check(values))
            cells.append(row)
        except ValueError as error:
            _raise(path, table_format, number, row, str(error))
    if not cells:
        raise UserError(f"{path}: the table has no rows")
    used = ", ".join(
        f"{columns.name(position)} ({name})"
        for name, position in zip(inputs, positions, strict=True)
    )
    console.info("%s: %s; columns %s; %d rows", path, table_format, used, len(cells))
    if table_format.kind == "excel":
        table_format = tables.TableFormat("delimited", ",")  # of the answers
    return Table(path, table_format, columns.names, cells, inputs_of_rows)


def _raise(path, table_format, number, row, problem):
    raise UserError(f"{path}, {table_format.unit} {number}: {problem}")


def _has_columns(names, inputs, layout):
    """Return whether the first row names the text columns; otherwise it is plain text."""
    from bert_tf.data.columns import TEXT_A, TEXT_B

    lowered = {name.lower() for name in names}
    if layout.text and not any(name.isdecimal() for name in layout.text):
        if lowered.issuperset(name.lower() for name in layout.text):
            return True
    elif layout.text:
        return len(names) > max(len(inputs), *map(int, layout.text))
    usual = (TEXT_A, TEXT_B)[: len(inputs)]
    return tuple(inputs) in _USUAL_INPUTS and all(lowered.intersection(x) for x in usual)


def _inputs(inputs, positions, columns, layout, row, metadata):
    from bert_tf.data.columns import get_cell, read_number

    def text(position, name):
        return tables.as_text(get_cell(row, position, name))

    values: dict[str, Any] = {
        name: text(position, name) for name, position in zip(inputs, positions, strict=True)
    }
    pairs = zip(layout.numbers, columns.numbers, strict=True)
    numbers = {name: text(position, name) for name, position in pairs}
    for name, number in numbers.items():
        read_number(number, name)  # raises ValueError
    if metadata.get("numbers"):
        values["numbers"] = list(map(float, numbers.values()))
    elif numbers and values[inputs[0]].strip():
        words = ", ".join(f"{name}: {number.strip()}" for name, number in numbers.items())
        values[inputs[0]] = f"{words}. {values[inputs[0]]}"
    return values


def answer_table(predictor, table, output_file, write):
    """Write a table with added columns of predictions, in the format of the input."""
    kind = table.format.kind
    if kind == "parquet" and not output_file:
        raise UserError("`output_file` is required, because the input is Parquet")
    _check_output(table, output_file)
    table_columns, metadata = predictor.answers.table_columns, predictor.metadata
    added = [table_columns(answer, metadata) for answer in predictor(table.rows)]
    if kind != "json" and kind != "json_lines":
        separator = metadata.get("columns", {}).get("label_separator", ",")
        added = [_flat(row, separator, kind == "delimited") for row in added]
    if taken := [name for name in added[0] if name in table.names]:
        raise UserError(f"{table.path} already has a column {taken[0]!r}; rename it")
    if not table.names:
        console.info("%s has no header; added columns: %s", table.path, ", ".join(added[0]))
    if kind == "parquet":
        _write_parquet(table, added, output_file)
    elif output_file:
        files.write_text(output_file, _as_text(table, added))
    else:
        write(_as_text(table, added))


def _check_output(table, output_file):
    ending = os.path.splitext(output_file or "")[1].lower()
    kinds = {".csv": "delimited", ".tsv": "delimited", ".gz": "gzip", **tables.ENDINGS}
    if kinds.get(ending, table.format.kind) != table.format.kind:
        raise UserError(
            f"`output_file`: the answers to {table.path} are {table.format}; use an extension "
            f"other than {ending}"
        )


def _flat(row, separator, to_text):
    """Return the answer with a column for each probability, and nested values as text."""
    flat = {}
    for name, value in row.items():
        if name == "probabilities" and isinstance(value, dict):
            flat |= {f"probability_{label}": p for label, p in value.items()}
        elif name == "prediction" and isinstance(value, list):
            flat[name] = separator.join(value) if to_text else value
        elif isinstance(value, (list, dict)):
            flat[name] = json.dumps(value, ensure_ascii=False)
        else:
            flat[name] = value
    return flat


def _as_text(table, added):
    kind, delimiter = table.format
    if kind in ("json", "json_lines"):
        rows = (
            {**dict(zip(table.names, cells, strict=True)), **more}
            for cells, more in zip(table.cells, added, strict=True)
        )
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        if kind == "json":
            return "[\n" + ",\n".join(lines) + "\n]\n"
        return "".join(f"{line}\n" for line in lines)
    # Rows may lack trailing empty cells.
    width = max(len(table.names), *map(len, table.cells))
    rows = [[*table.names, *[""] * (width - len(table.names)), *added[0]]] if table.names else []
    for cells, more in zip(table.cells, added, strict=True):
        rows.append([*cells, *[""] * (width - len(cells)), *map(str, more.values())])
    if delimiter == "\t":
        return "".join("\t".join(" ".join(x.split("\t")) for x in row) + "\n" for row in rows)
    writer = io.StringIO()
    csv.writer(writer, delimiter=delimiter, lineterminator="\n").writerows(rows)
    return writer.getvalue()


def _write_parquet(table, added, output_file):
    import pyarrow
    import pyarrow.parquet

    result = tables.open_parquet(table.path).read()
    for name in added[0]:
        result = result.append_column(name, pyarrow.array([row[name] for row in added]))
    with files.replacing(output_file) as (temporary,):
        data = io.BytesIO()
        pyarrow.parquet.write_table(result, data)
        with files.system(temporary).GFile(temporary, "wb") as writer:
            writer.write(data.getvalue())
