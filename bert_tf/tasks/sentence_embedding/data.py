"""The data of a sentence embedding run: examples, features and result files."""

import functools
import math
from typing import NamedTuple

import numpy as np

from bert_tf import console
from bert_tf.configs.data_files import SPLITS
from bert_tf.data import records
from bert_tf.data.columns import ID
from bert_tf.data.feature_cache import digest, encode_batches, write_records
from bert_tf.data.rows import BadRows, find_column, find_file, read_named_rows
from bert_tf.data.tables import find_format
from bert_tf.errors import UserError
from bert_tf.tasks.sentence_embedding.config import SCORE_COLUMN, TEXT_COLUMNS
from bert_tf.tasks.sentence_embedding.neighbors import l2_normalize
from bert_tf.tasks.sentence_embedding.sentence_transformers import sentence_transformers_options
from bert_tf.tasks.sentence_embedding.task import SentenceEmbeddingTask, metric_names
from bert_tf.tokenization.packing import LengthCounter, pack_pair
from bert_tf.training import results
from bert_tf.training.task import TaskData

_ENDINGS = (".tsv", ".csv", ".jsonl", ".parquet")


class Example(NamedTuple):
    """Two or three texts, their similarity score or None, and an id (default: the row number)."""

    texts: tuple
    score: float | None
    id: str


def read_examples(path, config):
    """Return the list of `Example` of a file with named columns; see `tables.find_format`."""
    names, rows = read_named_rows(path, find_format(path))
    find = functools.partial(find_column, path, names)
    if config.text_columns:
        if len(config.text_columns) not in (2, 3):
            raise UserError(
                f"`text_columns`: found {', '.join(config.text_columns)}, expected two or three "
                "columns"
            )
        texts = [find([name], "text_columns") for name in config.text_columns]
    else:
        texts = [find(TEXT_COLUMNS[0], "text_columns"), find(TEXT_COLUMNS[1], "text_columns")]
        texts += filter(None, [find(TEXT_COLUMNS[2])])
    score, row_id = config.score_column, config.id_column
    score = find([score], "score_column") if score else find(SCORE_COLUMN)
    row_id = find([row_id], "id_column") if row_id else find(ID)
    if score and len(texts) == 3:
        raise UserError(f"{path}: found scores of {', '.join(texts)}, expected pairs of texts")

    def make(where, index, cells):
        for name in texts:
            if not cells[name].strip():
                raise ValueError(f"{name} is empty")
        value = None
        if score:
            try:
                value = float(cells[score])
            except ValueError:
                value = math.nan
            if not math.isfinite(value):
                raise ValueError(f"the score is {cells[score]!r}, expected a number")
        row = str(index) if row_id is None else cells[row_id]
        return Example(tuple(cells[name] for name in texts), value, row)

    bad = BadRows(config.skip_bad_rows)
    examples = bad.collect(rows, make)
    bad.report()
    if not examples:
        raise UserError(f"{bad.first or path}: the file has no valid examples")
    console.info("%s: %s, %s", path, " + ".join(texts), f"score {score}" if score else "no scores")
    return examples


class SentenceEmbeddingData(TaskData):
    """Holds `examples`, a dict from split to list of `Example`."""

    def __init__(self, examples, config):
        super().__init__(examples, config)
        self.metric_names = metric_names(self._is_scored("dev"))

    def _is_scored(self, split):
        return split in self.examples and self.examples[split][0].score is not None

    def schema(self, split):
        return records.SENTENCES

    def lengths(self, split):
        return {**super().lengths(split), "C": len(self.examples[split][0].texts)}

    def fingerprint(self, split):
        return {
            "data": digest([*e.texts, e.score] for e in self.examples[split]),
            "examples": len(self.examples[split]),
            "max_seq_length": self.config.max_seq_length,
        }

    def write_features(self, split, path, tokenizer):
        examples, length = self.examples[split], self.config.max_seq_length
        lengths = LengthCounter(length)

        def convert():
            numbers: dict[str, int] = {}
            encoded = encode_batches(tokenizer, (x for e in examples for x in e.texts))
            for example in examples:
                rows = [
                    pack_pair(next(encoded), [], tokenizer, length, lengths) for _ in example.texts
                ]
                yield {
                    **{name: [row[name] for row in rows] for name in rows[0]},
                    "text_ids": [numbers.setdefault(x, len(numbers)) for x in example.texts],
                    "label_value": example.score or 0.0,
                    "is_real_example": 1,
                }

        write_records(path, records.SENTENCES, convert(), total=len(examples))
        return {"lengths": lengths.counts}

    def make_task(self, dtype=None):
        train_format = None
        if "train" in self.examples:
            train_format = self.lengths("train")["C"], self._is_scored("train")
        return SentenceEmbeddingTask(self.config, train_format, self._is_scored("dev"), dtype)

    def evaluate(self, run, split):
        """Write eval_results.txt; see `TaskData.evaluate`."""
        return results.evaluate_and_write(run, split)

    def predict(self, run, split):
        """Write the cosines of the first two texts to test_results.tsv and test_predictions.tsv."""
        vectors = l2_normalize(run.predict_all(split)["vectors"])
        cosines = np.einsum("nh,nh->n", vectors[:, 0], vectors[:, 1])
        ids = [example.id for example in self.examples[split]]
        texts = list(map(str, cosines))
        run.workers.chief_first(
            lambda: results.write_predictions(run.folder, split, ids, texts, (), cosines)
        )


def read(task_config, model, splits, stored=None):
    """Read the data of a run; see `TaskSpec.read`."""
    examples, paths = {}, []
    for split in filter(splits.__contains__, SPLITS):
        path = getattr(task_config, f"{split}_file")
        names = [f"{split}{ending}" for ending in _ENDINGS]
        paths.append(find_file(split, names, task_config.data_dir, path))
        examples[split] = read_examples(paths[-1], task_config)
    defaults = {"pooling": "mean", "normalize": False}
    if stored:
        defaults = {name: getattr(stored, name) for name in defaults}
    elif model.checkpoint:
        defaults |= sentence_transformers_options(model.checkpoint, task_config.pooling)
    given = {name: getattr(task_config, name) for name in ("pooling", "normalize")}
    resolved = {name: defaults[name] if x is None else x for name, x in given.items()}
    data = SentenceEmbeddingData(examples, task_config.of_model(model, **resolved))
    data.data_files = paths
    return data
