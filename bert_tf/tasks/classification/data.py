"""The data of a classification run: from options to examples, features and result files."""

import itertools
import os

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.modeling import BertClassifier
from bert_tf.options import PARTS
from bert_tf.tasks import metrics, results
from bert_tf.tasks.base import RecordFormat, TaskData, part_of
from bert_tf.tasks.classification.columns import Layout
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.examples import (
    class_weights,
    find_labels,
    measure,
    with_known_labels,
)
from bert_tf.tasks.classification.features import schema_of, write_features
from bert_tf.tasks.classification.glue import custom_task, find_task
from bert_tf.tasks.classification.reading import FileSource
from bert_tf.tasks.classification.task import TASK_CLASSES
from bert_tf.tasks.classification.tfds_source import TfdsSource
from bert_tf.tasks.feature_cache import FeatureCache, digest, tokenizer_fingerprint
from bert_tf.tasks.rows import BadRows

# Bump when the same data make different features.
_VERSION = 2

# Options that only custom files have.
_CUSTOM_ONLY = ("task_type", "text_columns", "label_column", "id_column", "labels", "header",
                "label_separator", "numeric_columns", "numeric_as")  # fmt: skip


class ClassificationData(TaskData):
    """The examples of each split of a task.

    Attributes:
      task: the `glue.TextTask`.
      examples: dict from split to list of `Example`.
      config: the `ClassificationConfig`.
      options: the `ClassificationOptions`.
    """

    def __init__(self, task, examples, config, options):
        self.task, self.examples, self.config, self.options = task, examples, config, options
        self.task_class = TASK_CLASSES[config.task_type]
        self.metric_names = self.task_class.metric_names_with(task.metrics)
        self._class_weights = None
        if options.class_weights and "train" in examples:
            self._class_weights = class_weights(
                options.class_weights, examples["train"], config.labels, config.task_type
            )

    def splits(self, part):
        return [split for split in self.examples if part_of(split) == part]

    def features(self, split, path, tokenizer, teacher=None):
        config, examples = self.config, self.examples[split]
        fingerprint = {
            "data": digest([e.text_a, e.text_b, e.label, e.numbers] for e in examples),
            "examples": len(examples),
            **tokenizer_fingerprint(tokenizer),
            "max_seq_length": config.max_seq_length,
            "labels": list(config.labels),
            "task_type": config.task_type,
            "numbers": [list(feature) for feature in config.numeric_inputs],
            "teacher": teacher.fingerprint if teacher else None,
            "schema": digest(self._schema(bool(teacher)).items()),
            "version": _VERSION,
        }

        def write(teacher_logits=None):
            write_features(
                path, examples, config.labels, tokenizer, config.max_seq_length, self.task_class,
                config.numeric_inputs, teacher_logits,
            )  # fmt: skip

        return FeatureCache(path, fingerprint, write)

    def count(self, split, features):
        return len(self.examples[split])

    def record_format(self, split, with_teacher=False):
        config = self.config
        lengths = {
            "S": config.max_seq_length,
            "L": config.num_outputs,
            "F": len(config.numeric_inputs),
        }
        return RecordFormat.of(self._schema(with_teacher), config, lengths, config.num_outputs)

    def _schema(self, with_teacher):
        return schema_of(self.task_class, self.config.numeric_inputs, with_teacher)

    def make_task(self, dtype=None, distillation=None):
        return self.task_class(
            self.config.bert_config,
            self.config.num_outputs,
            dtype,
            more_metrics=self.task.metrics,
            num_numeric_features=len(self.config.numeric_inputs),
            class_weights=self._class_weights,
            distillation=distillation,
        )

    def evaluate(self, run, split):
        """Write eval_results.txt and, with `report`, eval_report.txt; see `TaskData.evaluate`."""

        def report(predictions):
            labels, predicted = run.trainer.task.labels_and_predicted(predictions)
            return metrics.report(labels, predicted, self.config.labels)

        return results.evaluate_and_write(run, split, report if self.options.report else None)

    def predict(self, run, split):
        """Write test_results.tsv, test_predictions.tsv and the file of GLUE's leaderboard."""
        labels = self.config.labels
        predictions = run.predict_all(split)
        answers = predictions[run.trainer.task.answer_name]
        ids = [example.id for example in self.examples[split]]
        decided = run.trainer.task.decide(predictions)
        predicted = results.as_text(decided, labels, self.options.label_separator)

        def write():
            results.write_predictions(run.folder, split, ids, predicted, labels, answers)
            if self.options.glue_submission:
                results.write_submission(
                    self.options.glue_submission, self.task, split, ids, predicted
                )

        run.workers.chief_first(write)


def read(options, model, parts, stored=None):
    """Read the data of a run; see `base.TaskSpec.read`.

    Raises:
      UserError: if options cannot be combined, or a row is bad; names file and line.
    """
    source = make_source(options, stored)
    task = source.task
    if options.glue_submission:
        if not task.submission:
            raise UserError("`glue_submission`: this task is not on GLUE's leaderboard")
        if options.skip_bad_rows:
            raise UserError(
                "`glue_submission` cannot be combined with `skip_bad_rows`: the leaderboard "
                "requires all rows"
            )
    examples, labels, numeric_features = read_splits(
        source, [part for part in PARTS if part in parts], stored, options.skip_bad_rows
    )
    has_pairs = any(example.text_b is not None for example in itertools.chain(*examples.values()))
    config = ClassificationConfig.of_run(
        model,
        options,
        labels=labels,
        task_type=task.task_type,
        numeric_features=numeric_features,
        numeric_as=task.layout.numeric_as if numeric_features else "vector",
        num_texts=2 if has_pairs else 1,
    )
    return ClassificationData(task, examples, config, options)


def make_model(config, dtype=None):
    """Make the `BertClassifier` of a `ClassificationConfig`."""
    num_numeric_features = len(config.numeric_inputs)
    return BertClassifier(
        config.bert_config, config.num_outputs, dtype, num_numeric_features=num_numeric_features
    )


def make_source(options, stored=None):
    """Return the `FileSource` or `TfdsSource` that the `ClassificationOptions` name.

    `stored` is the `ClassificationConfig` of a trained model, for options that are not given.

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
    )
    if len(set(layout.numbers)) < len(layout.numbers):
        raise UserError(f"`numeric_columns`: a column occurs twice in {', '.join(layout.numbers)}")
    labels = tuple(options.labels) or None
    task_type = options.task_type or (stored and stored.task_type)
    options.check_source(("task_name", "data_dir", "train_file", "dev_file", "test_file", "header"))
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


def read_splits(source, parts, stored=None, skip_bad_rows=False):
    """Read the splits that a run needs.

    Args:
      source: a `FileSource` or a `TfdsSource`.
      parts: list of "train", "dev" and "test".
      stored: the `ClassificationConfig` of a trained model. Its labels take precedence over those
        of the data, because their order gives the ids that it was trained on.
      skip_bad_rows: whether to leave out rows that cannot be used; their number is logged.

    Returns:
      (dict from split to list of `Example`, tuple of labels, tuple of `NumericFeature`)

    Raises:
      UserError: if a row is bad; names file and line.
    """
    names = source.task.layout.numbers if source.task.layout else ()
    if stored and list(names) != stored.numeric_columns:
        raise UserError(
            f"`numeric_columns`: {', '.join(names) or 'none'}, but the trained model has "
            f"{', '.join(stored.numeric_columns) or 'none'}"
        )
    if stored and stored.task_type != source.task.task_type:
        raise UserError(
            f"`output_dir`: its model was trained for {stored.task_type}, not for "
            f"{source.task.task_type}"
        )
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
        labels = _infer_labels(train)
    for split in examples:
        known = with_known_labels(examples[split], labels, bad[split])
        bad[split].report()
        if not known:
            raise UserError(f"{bad[split].first}; no row of this split can be used")
        examples[split] = known
    numeric_features = stored.numeric_features if stored else ()
    if names and not stored:
        usable = examples.get("train") or with_known_labels(train, labels, BadRows(skip=True))
        numeric_features = measure(names, usable)
    return examples, tuple(labels), numeric_features


def _infer_labels(train):
    labels = find_labels(train)
    place = os.path.basename(train[0].where.rpartition(", ")[0])
    rest = f" and {len(labels) - 20} more" if len(labels) > 20 else ""
    console.info("labels found in %s: %s%s", place, ", ".join(labels[:20]), rest)
    if len(labels) == 1 or 2 * len(labels) > len(train) > 20:
        console.warning(
            "%d labels in %d examples; for a score use `task_type=regression`",
            len(labels), len(train),
        )  # fmt: skip
    return labels
