"""`MultipleChoice`: examples, features, runs and prediction on contexts and their endings."""

import dataclasses
import functools
import operator
import re
from typing import Any, NamedTuple

import tensorflow as tf

from bert_tf import console
from bert_tf.data import records
from bert_tf.data.columns import ID, RowErrors, find_file, header_and_rows, required_text
from bert_tf.data.containers import read_table
from bert_tf.data.features import Features, encode_batches, log_long_texts
from bert_tf.data.labels import Labels
from bert_tf.data.tables import as_text, open_table
from bert_tf.errors import UserError, counted
from bert_tf.modeling import BertMultipleChoice
from bert_tf.serving.exporting import Servable, string_specs, token_id_specs
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.base import Task
from bert_tf.tasks.classification.objective import ClassificationObjective
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig, MultipleChoiceData
from bert_tf.tokenization.packing import pack_pair
from bert_tf.training.objective import RunData

# Default column names; "startphrase" is SWAG's.
CONTEXT, LABEL = ("startphrase", "context"), ("label",)
UNIT = "pairs of context and ending"
_ENDING = re.compile(r"ending_?(\d+)$", re.IGNORECASE)


class Example(NamedTuple):
    """A context and its endings.

    Attributes:
      where: file and line, for messages.
      names: the columns of the endings.
      label: index of the correct ending; None in test sets.
      id: the id in the data, or the row number from 0.
    """

    where: str
    context: str
    endings: tuple
    names: tuple
    label: int | None
    id: str


def examples_of_table(table, options, with_label=True):
    """Return the list of `Example` of a `Table`."""
    names, find, rows = header_and_rows(table)
    make = functools.partial(_example, _find_columns(table, names, find, options, with_label))
    bad = RowErrors(None if table.is_argument else options.skip_bad_rows)
    return bad.examples(table.name, rows, make)


def check_endings(examples):
    """Raise UserError unless all examples have the same number of endings, which share a record."""
    num_choices = len(examples[0].endings)
    for example in examples:
        if len(example.endings) != num_choices:
            found = f"found {len(example.endings)} endings, expected {num_choices}"
            raise UserError(f"{example.where}: {found} as in the first row")


def _find_columns(table, names, find, options, with_label):
    """Return the `MultipleChoiceData` with the names of all columns in the header, and log them."""
    context = tuple(find([name], "context_columns") for name in options.context_columns)
    endings = tuple(find([name], "ending_columns") for name in options.ending_columns)
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
    label_names = [options.label_column] if options.label_column else LABEL
    row_id = options.id_column
    columns = dataclasses.replace(
        options,
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
        """Return pairs of the name of a column, or of an item of a list, and the text."""
        parts = [(name, cells[name]) for name in names]
        if len(parts) == 1 and isinstance(parts[0][1], list):
            parts = [(f"{parts[0][0]}[{i}]", x) for i, x in enumerate(parts[0][1])]
        return [(name, required_text(text, name)) for name, text in parts]

    context = " ".join(text.strip() for _, text in texts(columns.context_columns))
    endings = texts(columns.ending_columns)
    if len(endings) < 2:
        raise ValueError(f"found {counted(len(endings), 'ending')}, expected two or more")
    names, endings = zip(*endings, strict=True)
    label = None
    if columns.label_column:
        label = cells[columns.label_column]
        if label in endings:
            label = endings.index(label)
        label = int(Labels([str(i) for i in range(len(endings))]).read_cells([label]))
    row_id = as_text(cells[columns.id_column]) if columns.id_column else str(index)
    return Example(where, context, endings, names, label, row_id)


def convert_examples(examples, tokenizer, max_seq_length, lengths=None):
    """Yield a dict for `records.CHOICE` per example, with a sequence for each choice."""
    contexts = encode_batches(tokenizer, (example.context for example in examples))
    endings = encode_batches(tokenizer, (text for x in examples for text in x.endings))
    for example, context in zip(examples, contexts, strict=True):
        pairs = [(list(context), next(endings)) for _ in example.endings]
        choices = [pack_pair(*pair, tokenizer, max_seq_length, lengths) for pair in pairs]
        yield {
            **{name: [choice[name] for choice in choices] for name in choices[0]},
            "label_ids": example.label or 0,
            "is_real_example": 1,
        }


class MultipleChoiceObjective(ClassificationObjective):
    """Trains a `BertMultipleChoice` to choose the correct ending of each example."""

    loss_names = ("choice_loss",)
    # F1 per label is meaningless, because the order of the choices is arbitrary.
    metrics_used = ("accuracy",)


# File names of the splits; val.csv is SWAG's.
_FILES = {"train": ("train.csv",), "dev": ("dev.csv", "val.csv"), "test": ("test.csv",)}


def multiple_choice_servable(model, config, serving_config):
    """Return a `BertMultipleChoice` with its `MultipleChoiceConfig` as a `Servable`.

    Text inputs: `context` (B,) and `endings` (B, C) for any number C of endings. Token ids are
    (B, C, S). Outputs: `logits` and `probabilities`, float32 (B, C); `choice`, int32 (B,), the
    index of the most probable ending; for text inputs also `ending`, string (B,).
    """
    prepared = prepare_model(model, config, serving_config)

    def serve_ids(inputs):
        logits = prepared.call(inputs)["logits"]
        choice = tf.argmax(logits, -1, tf.int32)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits), "choice": choice}

    def serve_text(inputs):
        num_rows, num_endings = tf.unstack(tf.shape(inputs["endings"]))
        num_rows = inputs["context"].shape[0] or num_rows  # static for a single row
        texts = tf.repeat(inputs["context"], num_endings), tf.reshape(inputs["endings"], (-1,))
        batch = prepared.buckets.tokenize(prepared.tokenizer, *texts)
        shape = (num_rows, num_endings, tf.shape(batch["input_ids"])[1])
        outputs = serve_ids({name: tf.reshape(x, shape) for name, x in batch.items()})
        return {**outputs, "ending": tf.gather(inputs["endings"], outputs["choice"], batch_dims=1)}

    def add_to_onnx(graph, inputs):
        ids = inputs["input_ids"]
        rows = graph.op("Concat", [-1], graph.op("Shape", ids, start=2), axis=0)
        inputs = {name: graph.op("Reshape", x, rows) for name, x in inputs.items()}
        scores = graph.project(graph.pool(graph.encode(inputs, graph.first)), "")
        logits = graph.op("Reshape", scores, graph.op("Shape", ids, end=2))
        choice = graph.cast(graph.op("ArgMax", logits, axis=1, keepdims=0), "int32")
        return {"logits": logits, "probabilities": graph.op("Softmax", logits), "choice": choice}

    endings = tf.TensorSpec((None, None), tf.string, name="endings")
    return Servable(
        task="multiple_choice",
        prepared=prepared,
        serve_text=serve_text,
        serve_ids=serve_ids,
        text_signature={**string_specs("context"), "endings": endings},
        ids_signature=token_id_specs(None, None, None),
        sample_text=lambda text: {"context": text, "endings": ["", ""]},
        add_to_onnx=add_to_onnx,
    )


# Column names of the arguments of `fit`.
_COLUMNS = ("context", "endings", "label")


class MultipleChoice(Task):
    """Chooses the best of several endings of a text.

    >>> choice = bert_tf.MultipleChoice.from_preset("uncased_L-4_H-256_A-4")
    >>> contexts, endings = ["She opened the door and"], [["went in.", "the sky."]]
    >>> history = choice.fit(contexts, endings, [0], epochs=1, verbose=0)
    >>> choice.predict(contexts, endings)
    [{'choice': ..., 'probabilities': [...]}]

    `model` is a `BertMultipleChoice`, `config` a `MultipleChoiceConfig`.

    Data of `fit` and `evaluate`:
      contexts: list of N texts; or a table with the columns "context", "endings" (or "ending0",
        "ending1", ...) and "label".
      endings: list of C texts for each context, or an array (N, C).
      labels: index or text of the correct ending for each context.
    """

    name = "multiple_choice"
    config_class, data_class = MultipleChoiceConfig, MultipleChoiceData
    arguments = ("contexts", "endings", "labels")
    make_servable = staticmethod(multiple_choice_servable)

    @staticmethod
    def make_model(config, dtype=None):
        return BertMultipleChoice(config.bert_config, dtype)

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        examples, paths = {}, []
        for split in splits:
            path = getattr(data_options, f"{split}_file")
            paths.append(find_file(split, _FILES[split], data_options.data_dir, path))
            table = open_table(paths[-1], data_options.delimiter)
            examples[split] = examples_of_table(table, data_options, split != "test")
            check_endings(examples[split])
        return RunData(examples, config.with_model(pretrained), data_options, paths)

    def features(self, data, split):
        examples, length = data.examples[split], data.config.max_seq_length
        num_choices = len(examples[0].endings)
        return Features.of_examples(
            examples, records.CHOICE, convert_examples, self.tokenizer, data.config,
            data=([e.context, e.endings, e.label] for e in examples),
            axes={"S": length, "C": num_choices}, num_labels=num_choices,
            options={"max_seq_length": length}, unit=UNIT,
        )  # fmt: skip

    def objective(self, data):
        return MultipleChoiceObjective(self.model)

    def result_columns(self, objective, data, predictions, split):
        choices = [str(number) for number in objective.decide(predictions)]
        return choices, data.examples[split][0].names, predictions["probabilities"]

    def predict(self, contexts: Any, endings: Any = None, batch_size: int | None = None) -> Any:
        """Choose the best ending for each context.

        Args:
          contexts: a text, or contexts as in `fit`.
          endings: list of two or more texts for the context, or for each context.
          batch_size: number of contexts per step; None for 32 (long) to 256 (short).

        Returns:
          A list of dicts, one per context, or a single dict if `contexts` is a str: "choice", the
          index of the best ending, and "probabilities", a list with the probability of each ending.

        Raises:
          UserError: if an argument is invalid.
        """
        if isinstance(contexts, str):
            return self.predict([contexts], [endings], batch_size)[0]
        if not operator.length_hint(contexts, 1):
            return []
        examples = self.make_examples((contexts, endings), self.arguments, "test")
        pairs = [[x.context, ending] for x in examples for ending in x.endings]
        log_long_texts("contexts", pairs, self.tokenizer, self.config, unit=UNIT)
        rows = [{"context": x.context, "endings": list(x.endings)} for x in examples]
        return self._answers(rows, batch_size)

    def make_examples(self, columns, names, split):
        table, _ = read_table(columns, names, _COLUMNS, 3 - (split == "test"))
        examples = examples_of_table(table, MultipleChoiceData(), split != "test")
        if split != "test":
            check_endings(examples)
        return examples
