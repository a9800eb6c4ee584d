"""Where the examples of a run come from, and what labels they have."""

import itertools
import os
from typing import NamedTuple

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tasks.glue import TextTask, part_of
from bert_tf.tasks.labels import labels_of, with_known_labels
from bert_tf.tasks.numbers import measure
from bert_tf.tasks.tsv import BadRows, find_file, read_examples


class FileSource:
    """The files of a task; `tfds.TfdsSource` has the same methods."""

    def __init__(self, task, data_dir=None, paths=None):
        """Takes where they are.

        Args:
          task: a `glue.TextTask`.
          data_dir: the folder of its files.
          paths: dict from "train", "dev" and "test" to files that are elsewhere.
        """
        self.task = task
        self._data_dir = data_dir
        self._paths = {part: path for part, path in (paths or {}).items() if path}

    def splits(self, part):
        """The splits that there are of "train", "dev" or "test"; UserError if there is none."""
        found = self.task.splits(part)
        if not found:
            raise UserError(
                f"`do_`{_VERB[part]}: this task has no {part} set, only "
                f"{', '.join(self.task.files)}"
            )
        if part in self._paths:
            files.require(self._paths[part], f"{part}_file")
            return found[:1]
        return [split for split in found if find_file(self.task, self._data_dir, split)]

    def read(self, split, bad=None):
        """The examples of a split, as `tsv.read_examples` reads them."""
        path = self._paths.get(part_of(split))
        return read_examples(self.task, self._data_dir, split, path, bad, self._paths.get("train"))


_VERB = {"train": "train", "dev": "eval", "test": "predict"}


class Data(NamedTuple):
    """The examples of each split of a task, its labels in the order of their ids, its `Number`s."""

    task: TextTask
    examples: dict
    labels: tuple
    numbers: tuple = ()

    @property
    def num_texts(self):
        """2 if an example is a pair, else 1."""
        examples = itertools.chain.from_iterable(self.examples.values())
        return 1 + any(example.text_b is not None for example in examples)

    def splits(self, part):
        """The splits of a part that were read, the main one first."""
        return [split for split in self.examples if part_of(split) == part]


def read_data(source, parts, trained=None, skip_bad_rows=False):
    """Reads what a run needs.

    Args:
      source: a `FileSource` or a `tfds.TfdsSource`.
      parts: which of "train", "dev" and "test".
      trained: the `Settings` of the model if it is trained already: its labels go before those of
        the data, because they are the ids that it was trained on.
      skip_bad_rows: whether to leave out rows that cannot be used; a line says how many.

    Returns:
      `Data`.

    Raises:
      UserError: names file and line of what is wrong.
    """
    names = source.task.layout.numbers if source.task.layout else ()
    if trained and names != tuple(number.name for number in trained.numbers):
        raise UserError(
            f"`numeric_columns`: {', '.join(names) or 'none'}, but the model there has "
            f"{', '.join(number.name for number in trained.numbers) or 'none'}"
        )
    if trained and trained.task_type != source.task.task_type:
        raise UserError(
            f"`output_dir`: the model there is a {trained.task_type}, and not a "
            f"{source.task.task_type}"
        )
    examples, bad = {}, {}
    for split in [split for part in parts for split in source.splits(part)]:
        bad[split] = BadRows(skip_bad_rows)
        examples[split] = source.read(split, bad[split])
    labels = source.task.labels
    if labels is None and trained:
        labels = trained.labels
    train = examples.get("train", ())
    if not (train or trained) and (labels is None or names):
        train = source.read("train", BadRows(skip_bad_rows))
    if labels is None:
        labels = labels_of(train)
        place = os.path.basename(train[0].where.rpartition(", ")[0])
        more = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
        console.info("labels found in %s: %s%s", place, ", ".join(labels[:20]), more)
        if len(labels) == 1 or 2 * len(labels) > len(train) > 20:
            console.warning(
                "%d labels in %d examples; a score wants `task_type=regression`",
                len(labels), len(train),
            )  # fmt: skip
    for split in examples:
        known = with_known_labels(examples[split], labels, bad[split])
        bad[split].tell()
        if not known:
            raise UserError(f"{bad[split].first}; not a single row of that set is left")
        examples[split] = known
    numbers = trained.numbers if trained else ()
    if names and not trained:
        kept = examples.get("train") or with_known_labels(train, labels, BadRows(skip=True))
        numbers = measure(names, kept)
    return Data(source.task, examples, tuple(labels), numbers)
