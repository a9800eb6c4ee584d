"""The data of a classification run: examples, features and result files."""

import itertools

from bert_tf import console
from bert_tf.configs.data_files import SPLITS
from bert_tf.data.feature_cache import digest
from bert_tf.data.rows import base_split
from bert_tf.errors import UserError
from bert_tf.modeling import BertClassifier
from bert_tf.tasks.classification.config import DevSplit
from bert_tf.tasks.classification.examples import class_weights
from bert_tf.tasks.classification.features import record_schema, write_features
from bert_tf.tasks.classification.source import (
    columns_to_save,
    make_source,
    read_splits,
    with_restored_columns,
)
from bert_tf.tasks.classification.task import TASK_CLASSES, start_at_mean
from bert_tf.training import metrics, results
from bert_tf.training.task import TaskData


class ClassificationData(TaskData):
    """Holds `examples`, a dict from split to list of `Example`, and the `glue.DatasetSpec`."""

    version = 2

    def __init__(self, dataset, examples, config):
        super().__init__(examples, config)
        self.dataset, self.task_class = dataset, TASK_CLASSES[config.task_type]
        is_custom = dataset.layout is not None
        self._more_metrics = self.task_class.custom_data_metrics if is_custom else dataset.metrics
        self.metric_names = self.task_class.metric_names_with(self._more_metrics)
        self._class_weights = None
        if config.class_weights and "train" in examples:
            self._class_weights = class_weights(
                config.class_weights, examples["train"], config.labels, config.task_type
            )

    def schema(self, split):
        return record_schema(self.config)

    def fingerprint(self, split):
        config, examples = self.config, self.examples[split]
        return {
            "data": digest([e.text_a, e.text_b, e.label, e.numbers] for e in examples),
            "examples": len(examples),
            "max_seq_length": config.max_seq_length,
            "labels": list(config.labels),
            "task_type": config.task_type,
            "numbers": [list(feature) for feature in config.numeric_inputs],
            "windows": config.windows and list(config.windows),
        }

    def write_features(self, split, path, tokenizer):
        return write_features(path, self.examples[split], tokenizer, self.config)

    def log_truncated(self, split, features):
        windows, counts = self.config.windows, (features.metadata or {}).get("lengths")
        if not windows:
            return super().log_truncated(split, features)
        console.info(
            "%s: the longest text has %d tokens and %d windows",
            split, counts["longest"], features.metadata["num_windows"],
        )  # fmt: skip
        if counts["truncated"]:
            console.warning(
                "%s: %d of %d texts (%.1f%%) have more than the %d tokens of `max_windows=%d` and "
                "are truncated, the longest has %d; a larger `max_windows` truncates fewer",
                split, counts["truncated"], counts["texts"],
                100.0 * counts["truncated"] / counts["texts"], windows.max_length,
                windows.max_windows, counts["longest"],
            )  # fmt: skip

    def truncation_advice(self):
        return "long_documents=windows" if self.config.num_texts == 1 else ""

    def lengths(self, split):
        config = self.config
        lengths = {**super().lengths(split), "L": config.num_outputs}
        lengths["F"] = len(config.numeric_inputs)
        if config.windows:
            lengths["W"] = self.caches[split].metadata["num_windows"]
        return lengths

    def num_labels(self, split):
        return self.config.num_outputs

    def make_task(self, dtype=None):
        config = self.config
        task = self.task_class(
            config.bert_config, config.num_outputs, dtype, more_metrics=self._more_metrics,
            num_numeric_features=len(config.numeric_inputs), class_weights=self._class_weights,
            window_pooling=config.windows and config.window_pooling,
        )  # fmt: skip
        if config.task_type == "regression" and "train" in self.examples:
            # A checkpoint with a trained head replaces this.
            start_at_mean(task.model, [example.label for example in self.examples["train"]])
        return task

    def evaluate(self, run, split):
        """Write eval_results.txt and, with `report`, eval_report.txt; see `TaskData.evaluate`."""

        def report(predictions):
            labels, predicted = run.trainer.task.labels_and_predicted(predictions)
            return metrics.report(labels, predicted, self.config.labels)

        return results.evaluate_and_write(run, split, report if self.config.report else None)

    def predict(self, run, split):
        """Write test_results.tsv and test_predictions.tsv."""
        labels = self.config.labels
        task, predictions = run.trainer.task, run.predict_all(split)
        answers = predictions[task.answer_name]
        ids = [example.id for example in self.examples[split]]
        separator = self.config.label_separator
        predicted = results.as_text(task.decide(predictions), labels, separator)
        run.workers.chief_first(
            lambda: results.write_predictions(run.folder, split, ids, predicted, labels, answers)
        )


def read(task_config, model, splits, stored=None):
    """Read the data of a run; see `training.TaskSpec`."""
    task_config, restored = with_restored_columns(task_config, stored)
    source = make_source(task_config, stored, restored)
    dataset = source.dataset
    dev_split = _dev_split(task_config, stored)
    ordered = [split for split in SPLITS if split in splits]
    examples, labels, numeric_features = read_splits(
        source, ordered, stored, task_config.skip_bad_rows, dev_split
    )
    if dev_split and "dev" in examples:
        dev_split = _with_digest(dev_split, examples["dev"])
    examples = {split: x for split, x in examples.items() if base_split(split) in splits}
    has_pairs = any(example.text_b is not None for example in itertools.chain(*examples.values()))
    if has_pairs and task_config.long_documents == "windows":
        raise UserError(
            "`long_documents=windows`: found pairs of texts, expected single texts; pairs can only "
            "be truncated"
        )
    config = task_config.of_model(
        model,
        labels=labels,
        task_type=dataset.task_type,
        numeric_features=numeric_features,
        numeric_as=dataset.layout.numeric_as if numeric_features else "vector",
        num_texts=2 if has_pairs else 1,
        columns=stored.columns if stored else columns_to_save(task_config, source),
        dev_split=stored.dev_split if stored else dev_split,
    )
    data = ClassificationData(dataset, examples, config)
    data.data_files = getattr(source, "files", ())
    return data


def make_model(config, dtype=None):
    return BertClassifier(
        config.bert_config, config.num_outputs, dtype,
        num_numeric_features=len(config.numeric_inputs),
        window_pooling=config.windows and config.window_pooling,
    )  # fmt: skip


def _dev_split(task_config, stored):
    """Return the `DevSplit` of the trained model or, for a new model, of the options."""
    fraction, trained = task_config.dev_fraction, stored.dev_split if stored else None
    if stored and fraction is not None and (trained is None or fraction != trained.fraction):
        raise UserError(
            f"`dev_fraction={fraction:g}`: the model was trained with "
            f"{trained.fraction if trained else 'all rows'}, so it would be evaluated on training "
            "rows; use the original value or a `dev_file`"
        )
    if stored:
        return None if task_config.dev_file else trained
    return None if fraction is None else DevSplit(fraction, task_config.dev_seed)


def _with_digest(dev_split, examples):
    """Return the `DevSplit` with the digest of its rows; UserError if training held out others."""
    value = digest([e.text_a, e.text_b, e.label] for e in examples)
    if dev_split.digest not in ("", value):
        raise UserError(
            "`dev_fraction`: the held-out rows are not those of the training run, because the file "
            "or the version of scikit-learn has changed; restore it, or use a `dev_file`"
        )
    return dev_split._replace(digest=value)
