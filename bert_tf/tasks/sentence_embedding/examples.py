"""Examples of sentence embedding: from tables, and to features."""

import itertools
from typing import NamedTuple

from bert_tf import console
from bert_tf.data.columns import ID, RowErrors, header_and_rows, required_text
from bert_tf.data.features import encode_batches
from bert_tf.data.labels import read_number
from bert_tf.data.tables import as_text
from bert_tf.errors import UserError
from bert_tf.tasks.sentence_embedding.options import SCORE_COLUMN, TEXT_COLUMNS
from bert_tf.tokenization.packing import pack_pair

# The endings of data files.
ENDINGS = (".tsv", ".csv", ".jsonl", ".parquet")


class Example(NamedTuple):
    """Two or three texts, their similarity score or None, and an id (default: the row number)."""

    texts: tuple
    score: float | None
    id: str


def examples_of_table(table, options):
    """Return the list of `Example` of a `Table`."""
    names, find, rows = header_and_rows(table)
    if options.text_columns:
        if len(options.text_columns) not in (2, 3):
            found = ", ".join(options.text_columns)
            raise UserError(f"`text_columns`: found {found}, expected two or three columns")
        texts = [find([name], "text_columns") for name in options.text_columns]
    else:
        texts = [find(TEXT_COLUMNS[0], "text_columns"), find(TEXT_COLUMNS[1], "text_columns")]
        texts += filter(None, [find(TEXT_COLUMNS[2])])
    score, row_id = options.score_column, options.id_column
    score = find([score], "score_column") if score else find(SCORE_COLUMN)
    row_id = find([row_id], "id_column") if row_id else find(ID)
    if score in table.label_names:
        raise UserError(f"{table.header_place}: {score!r} has class labels, expected scores")
    if score and len(texts) == 3:
        raise UserError(f"{table.name}: found scores of {', '.join(texts)}, expected pairs")
    used = [*texts, *filter(None, (score, row_id))]

    def make(where, index, cells):
        parts = tuple(required_text(cells[name], name) for name in texts)
        value = score and read_number(required_text(cells[score], "the score"), "the score")
        cells = {name: as_text(cells[name]) for name in used}
        return Example(parts, value, str(index) if row_id is None else cells[row_id])

    bad = RowErrors(None if table.is_argument else options.skip_bad_rows)
    examples = bad.examples(table.name, rows, make)
    scored = f"score {score}" if score else "no scores"
    ignored = ", ".join(name for name in names if name not in used)
    # In Python, only what is ignored is worth a message.
    log = console.notice if ignored and table.is_argument else console.info
    log("%s: %s, %s; ignored: %s", table.name, " + ".join(texts), scored, ignored or "none")
    return examples


def convert_examples(examples, tokenizer, max_seq_length, text_ids, prompt, lengths=None):
    """Yield a dict for `records.SENTENCES` per example; `text_ids` are ids of distinct texts."""
    encoded = encode_batches(tokenizer, (prompt + x for e in examples for x in e.texts))
    for example in examples:
        texts = itertools.islice(encoded, len(example.texts))
        rows = [pack_pair(ids, [], tokenizer, max_seq_length, lengths) for ids in texts]
        yield {
            **{name: [row[name] for row in rows] for name in rows[0]},
            "text_ids": [text_ids[x] for x in example.texts],
            "label_value": example.score or 0.0,
            "is_real_example": 1,
        }
