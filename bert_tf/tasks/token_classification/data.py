"""The data of a token classification run: sentences, features and result files."""

from bert_tf import console
from bert_tf.configs.data_files import SPLITS
from bert_tf.data import records
from bert_tf.data.feature_cache import digest, write_records
from bert_tf.data.rows import BadRows
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tasks.token_classification import schemes, scoring
from bert_tf.tasks.token_classification.features import (
    convert_sentences,
    infer_tags,
    valid_sentences,
)
from bert_tf.tasks.token_classification.reading import ColumnFiles, TfdsSentences
from bert_tf.tasks.token_classification.task import TokenClassificationTask, metric_names
from bert_tf.training import results
from bert_tf.training.task import TaskData, result_file


class TokenClassificationData(TaskData):
    """Holds `examples`, a dict from split to list of `Sentence`."""

    unit = "sequences"

    def __init__(self, sentences, config):
        super().__init__(sentences, config)
        self.metric_names = metric_names(config.tags)

    def schema(self, split):
        return records.TAGGING

    def fingerprint(self, split):
        sentences, tags = self.examples[split], self.config.tags
        return {
            "data": digest([s.words, s.tags, bool(s.leading_lines)] for s in sentences),
            "sentences": len(sentences),
            "tags": list(tags.names),
            "learn_scheme": tags.scheme,
            "tag_scheme": tags.data_scheme,
            "max_seq_length": self.config.max_seq_length,
            "doc_stride": self.config.doc_stride,
            "document_context": self.config.document_context,
        }

    def write_features(self, split, path, tokenizer):
        config = self.config
        values = convert_sentences(self.examples[split], config.tags, tokenizer, config)
        return {"windows": write_records(path, records.TAGGING, values, "windows")}

    def count(self, split, features):
        return features.metadata["windows"] if features else None

    def num_labels(self, split):
        return len(self.config.tags.names)

    def make_task(self, dtype=None):
        return TokenClassificationTask(self.config, dtype)

    def evaluate(self, run, split):
        """Write eval_results.txt, and eval_report.txt with `report`; see `TaskData.evaluate`."""

        def report(predictions):
            task = run.trainer.task
            labels, predicted = task.tags(predictions, "tag_ids"), task.tags(predictions)
            return scoring.classification_report(labels, predicted, self.config.tags.scheme)

        return results.evaluate_and_write(run, split, report if self.config.report else None)

    def predict(self, run, split):
        """Write test_predictions.txt: the columns of the test set and the predicted tags."""
        predictions = run.predict_all(split)
        tags = self.config.tags
        scheme = self.config.output_scheme or tags.data_scheme
        predicted = [
            schemes.convert_tags(sentence, tags.scheme, scheme)
            for sentence in run.trainer.task.tags(predictions)
        ]

        def write():
            path = result_file(run.folder, "test_predictions", split, ".txt")
            write_columns(path, self.examples[split], predicted)
            console.info("wrote %s, tag scheme %s", path, scheme)

        run.workers.chief_first(write)


def write_columns(path, sentences, tags):
    """Write the columns of each `Sentence` and its `tags`, a list, in the format of conlleval."""
    outside = schemes.OUTSIDE
    with files.writing_text(path) as write:
        for sentence, predicted in zip(sentences, tags, strict=True):
            write("".join(f"{line} {outside}\n\n" for line in sentence.leading_lines))
            pairs = zip(sentence.columns, predicted, strict=True)
            write("\n".join(" ".join([*columns, tag]) for columns, tag in pairs) + "\n\n")
            write("".join(f"{line} {outside}\n\n" for line in sentence.trailing_lines))


def read(task_config, model, splits, stored=None):
    """Read the data of a run; see `training.TaskSpec`."""
    source = _make_source(task_config)
    splits = [split for split in SPLITS if split in splits]
    bad = {split: BadRows(task_config.skip_bad_rows) for split in splits}
    sentences = {split: source.read(split, bad[split]) for split in splits}
    train = sentences.get("train")
    tags = _stored_tags(task_config, stored) if stored else _infer_tags(task_config, source, train)
    if task_config.output_scheme:
        schemes.check_compatible("output_scheme", task_config.output_scheme, tags.scheme)
    for split in splits:
        sentences[split] = valid_sentences(sentences[split], tags, bad[split])
        bad[split].report("invalid sentences skipped")
        if not sentences[split]:
            raise UserError(f"{bad[split].first}; the split has no valid sentences")
        if task_config.document_context and not any(x.leading_lines for x in sentences[split]):
            raise UserError(
                f"`document_context`: {sentences[split][0].where} has no -DOCSTART- lines, "
                "expected one at the start of each document"
            )
    return TokenClassificationData(sentences, task_config.of_model(model, tags=tags))


def _stored_tags(task_config, stored):
    """Return the `Tags` of a trained model, with the scheme of the data if it is given."""
    tags = stored.tags
    if task_config.learn_scheme not in (None, tags.scheme):
        raise UserError(
            f"`learn_scheme={task_config.learn_scheme}`: expected {tags.scheme}, as in training"
        )
    if task_config.tag_scheme:
        schemes.check_compatible("tag_scheme", task_config.tag_scheme, tags.scheme)
        tags = tags._replace(data_scheme=task_config.tag_scheme)
    return tags


def _infer_tags(task_config, source, train):
    """Return the `Tags` of the training set `train`; read it first if it is None."""
    bad = BadRows(skip=True)
    sentences = train or source.read("train", bad)
    tags = infer_tags(sentences, task_config.tag_scheme, task_config.learn_scheme)
    if not train:
        valid_sentences(sentences, tags, bad)
        bad.report("invalid sentences skipped while collecting the tags of the training set")
    console.info(
        "tag scheme of the data: %s; the model learns %s: %s",
        tags.data_scheme, tags.scheme, ", ".join(tags.names[:50]),
    )  # fmt: skip
    return tags


def _make_source(task_config):
    task_config.check_source(("data_dir", "train_file", "dev_file", "test_file"))
    if task_config.tfds_name:
        features = task_config.word_column or "tokens", task_config.tag_column
        splits = task_config.split_names()
        return TfdsSentences(task_config.tfds_name, task_config.tfds_data_dir, splits, *features)
    columns = {}
    for name, default in (("word_column", "0"), ("tag_column", "-1")):
        value = getattr(task_config, name) or default
        try:
            columns[name] = int(value)
        except ValueError:
            raise UserError(f"`{name}={value}`: expected a column number") from None
    paths = {split: getattr(task_config, f"{split}_file") for split in SPLITS}
    return ColumnFiles(task_config.data_dir, paths, **columns)
