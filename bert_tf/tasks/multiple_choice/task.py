"""Multiple choice (BERT paper, section 4.4): which of several endings continues a text.

Apart from its options the task is in this module: configuration, reading, features, losses and
results. It is the example to read before adding a task.

Letters of shapes: B examples, C choices, S sequence.
"""

import dataclasses
import re

from bert_tf import console
from bert_tf.configs.data_files import PARTS
from bert_tf.data import records
from bert_tf.data.feature_cache import digest, encode_batches, write_records
from bert_tf.data.rows import BadRows, find_column, find_file
from bert_tf.data.tables import read_rows
from bert_tf.errors import UserError
from bert_tf.modeling import BertMultipleChoice
from bert_tf.tasks.classification.columns import ID
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.multiple_choice.config import MultipleChoiceConfig
from bert_tf.tokenization.packing import LengthCounter, pack_pair
from bert_tf.training import results
from bert_tf.training.task import TaskData, TaskSpec

# Column names: SWAG's, and plain ones.
CONTEXT, LABEL = ("startphrase", "context"), ("label",)
_ENDING = re.compile(r"ending_?(\d+)$", re.IGNORECASE)

# The names of a split's file in a folder; val.csv is SWAG's.
_FILES = {"train": ("train.csv",), "dev": ("dev.csv", "val.csv"), "test": ("test.csv",)}


@dataclasses.dataclass(frozen=True)
class Example:
    """A context, its C endings and, outside a test set, the number of the right one from 0.

    `where` is file and line, `id` the id in the data or the row number from 0.
    """

    where: str
    context: str
    endings: tuple
    label: int | None = None
    id: str | None = None


def read_examples(path, options=None, with_label=True):
    """Return the list of `Example` of a file, and the tuple of the names of its ending columns.

    Args:
      path: a file whose first line names its columns; see `tables.format_by_name` for the formats.
      options: a `MultipleChoiceConfig`, for columns and bad rows.
      with_label: whether there is a label column.

    Raises:
      UserError: names file and line of a bad row, or what is wrong with the header.
    """
    options = options or MultipleChoiceConfig()
    bad = BadRows(options.skip_bad_rows)
    rows = read_rows(path)
    number, names, problem = next(rows, (1, [], "the file is empty"))
    if problem:
        raise UserError(f"{path}, line {number}: {problem}")
    names = [name.strip() for name in names]
    columns = _find_columns(path, names, options, with_label)

    def make(where, index, row):
        cells, problem = row
        if problem:
            raise ValueError(problem)
        return _example(where, index, cells, names, columns)

    examples = bad.collect(((f"{path}, line {number}", row) for number, *row in rows), make)
    bad.report()
    if not examples:
        raise UserError(f"{bad.first or path}: the file has no usable example")
    return examples, columns.ending_columns


def _find_columns(path, names, options, with_label):
    """Return the options with all columns named as in the header; logs what was chosen."""

    def find(wanted, argument=None):
        index = find_column(path, names, wanted, argument)
        return None if index is None else names[index]

    context = tuple(find([name], "context_columns") for name in options.context_columns)
    endings = tuple(find([name], "ending_columns") for name in options.ending_columns)
    if not endings:
        numbered = [(int(match[1]), name) for name in names if (match := _ENDING.match(name))]
        endings = tuple(name for _, name in sorted(numbered))
    if len(set(endings)) < 2:
        raise UserError(
            f"{path}, line 1: two or more columns of endings were expected, such as ending0 and "
            f"ending1, found {', '.join(endings) or 'none'}; name them with `ending_columns`"
        )
    label_names = [options.label_column] if options.label_column else LABEL
    row_id = options.id_column
    columns = dataclasses.replace(
        options,
        context_columns=context or (find(CONTEXT, "context_columns"),),
        ending_columns=endings,
        label_column=find(label_names, "label_column") if with_label else None,
        id_column=find([row_id], "id_column") if row_id else find(ID),
    )
    used = (*columns.context_columns, *endings, columns.label_column, columns.id_column)
    if repeated := [name for name in used if names.count(name) > 1]:
        raise UserError(f"{path}, line 1: the column {repeated[0]} occurs twice")
    console.info(
        "%s: %s, and the %d choices %s", path, " + ".join(columns.context_columns), len(endings),
        ", ".join(endings),
    )  # fmt: skip
    return columns


def _example(where, index, row, names, columns):
    """Return the example of a row; ValueError if the row is bad."""
    if len(row) != len(names):
        # For example a comma that should be quoted: what follows it is in the wrong column.
        raise ValueError(f"{len(row)} columns, but the first line has {len(names)}")
    cells = dict(zip(names, row, strict=True))
    for name in (*columns.context_columns, *columns.ending_columns):
        if not cells[name].strip():
            raise ValueError(f"{name} is empty")
    label = None
    if columns.label_column:
        text = cells[columns.label_column]
        numbers = [str(i) for i in range(len(columns.ending_columns))]
        if text.strip() not in numbers:
            raise ValueError(f"the label {text!r} is not one of {', '.join(numbers)}")
        label = int(text)
    return Example(
        where,
        " ".join(cells[name].strip() for name in columns.context_columns),
        tuple(cells[name] for name in columns.ending_columns),
        label,
        cells[columns.id_column] if columns.id_column else str(index),
    )


def features(examples, tokenizer, max_seq_length, lengths=None):
    """Yield for each `Example` a dict for `records.CHOICE`.

    Its choices are `[CLS] context [SEP] ending [SEP]`, padded to S tokens. The length of each is
    added to `lengths`, a `packing.LengthCounter`, if given.
    """
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


class MultipleChoiceTask(ClassificationTask):
    """Trains a `BertMultipleChoice`: classification over the choices of each example."""

    task_type = "multiple_choice"
    schema = records.CHOICE
    loss_names = ("choice_loss",)
    # The number of a choice has no meaning that the scores of single choices would describe.
    metrics_used = ("accuracy",)

    def __init__(self, config, dtype=None):
        """Make the model of a `BertConfig` and a Keras dtype policy."""
        self.model = BertMultipleChoice(config, dtype)
        self.metric_names = self.metric_names_with()


class MultipleChoiceData(TaskData):
    """The examples of each split.

    Attributes:
      examples: dict from split to list of `Example`.
      endings: dict from split to the names of the columns of endings.
      config: the `MultipleChoiceConfig`.
    """

    sequence_unit = "pairs of context and ending"
    metric_names = MultipleChoiceTask.metric_names_with()

    def __init__(self, examples, endings, config):
        super().__init__(examples, config)
        self.endings = endings

    def schema(self, split, with_teacher=False):
        return records.CHOICE

    def fingerprint(self, split):
        return {
            "data": digest([e.context, e.endings, e.label] for e in self.examples[split]),
            "examples": len(self.examples[split]),
            "max_seq_length": self.config.max_seq_length,
        }

    def write_features(self, split, path, tokenizer):
        examples, length = self.examples[split], self.config.max_seq_length
        lengths = LengthCounter(length)
        values = features(examples, tokenizer, length, lengths)
        write_records(path, records.CHOICE, values, total=len(examples))
        return {"lengths": lengths.counts}

    def lengths(self, split):
        return {**super().lengths(split), "C": len(self.endings[split])}

    def num_labels(self, split):
        return len(self.endings[split])

    def make_task(self, dtype=None, distillation=None):
        return MultipleChoiceTask(self.config.bert_config, dtype)

    def evaluate(self, run, split):
        """Write eval_results.txt; see `TaskData.evaluate`."""
        return results.evaluate_and_write(run, split)

    def predict(self, run, split):
        """Write test_results.tsv and test_predictions.tsv."""
        predictions = run.predict_all(split)
        probabilities = predictions["probabilities"]
        choices = [str(number) for number in run.trainer.task.decide(predictions)]
        ids = [example.id for example in self.examples[split]]
        run.workers.chief_first(
            lambda: results.write_predictions(
                run.folder, split, ids, choices, self.endings[split], probabilities
            )
        )


def read(options, model, parts, stored=None):
    """Read the data of a run; see `base.TaskSpec.read`."""
    examples, endings = {}, {}
    for split in filter(parts.__contains__, PARTS):
        path = getattr(options, f"{split}_file")
        path = find_file(split, _FILES[split], options.data_dir, path)
        examples[split], endings[split] = read_examples(path, options, split != "test")
    return MultipleChoiceData(examples, endings, options.of_model(model))


def make_model(config, dtype=None):
    """Make the `BertMultipleChoice` of a `MultipleChoiceConfig`."""
    return BertMultipleChoice(config.bert_config, dtype)


SPEC = TaskSpec(
    name="multiple_choice",
    script="run_multiple_choice.py",
    config_class=MultipleChoiceConfig,
    read=read,
    make_model=make_model,
    servable="bert_tf.tasks.classification.servable:multiple_choice_servable",
)
