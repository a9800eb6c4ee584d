"""The data of a question answering run: questions, features and result files."""

import contextlib
import dataclasses
import json
import os

import tensorflow as tf

from bert_tf import console
from bert_tf.data import records
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling import BertSpanLabeler
from bert_tf.tasks.question_answering.features import window_cache
from bert_tf.tasks.question_answering.reading import (
    JsonSource,
    TfdsQuestions,
    validate_and_count,
)
from bert_tf.tasks.question_answering.scoring import Scorer
from bert_tf.tasks.question_answering.task import (
    AnswerExtractor,
    QuestionAnsweringTask,
    metric_names,
)
from bert_tf.training import results
from bert_tf.training.task import TaskData, result_file

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class QuestionAnsweringData(TaskData):
    """The questions of each split; "dev" is for both evaluation and prediction."""

    unit = "questions"
    evaluates_predictions = True

    def __init__(self, sources, summaries, config, tokenizer):
        super().__init__(sources, config)
        self.summaries = summaries
        self.metric_names = metric_names(config)
        self.extractor, self._mask_padding = None, False
        if "dev" in sources:
            self.extractor = AnswerExtractor(sources["dev"], tokenizer, config)

    def splits(self, base):
        return super().splits("train" if base == "train" else "dev")

    def train_config(self, config):
        self._mask_padding = not config.train.pad_to_max_length
        if self._mask_padding and config.do_train:
            console.info(
                "the loss ignores padding positions; `pad_to_max_length` includes them, as in the "
                "release"
            )
        return config.train

    def features(self, split, path, tokenizer):
        source, summary = self.examples[split], self.summaries[split]
        return window_cache(path, source, summary, tokenizer, self.config, split == "train")

    def count(self, split, features):
        return features.metadata["windows"] if features else None

    def num_train_units(self, features):
        return self.summaries["train"].questions

    def schema(self, split):
        return records.SQUAD_TRAINING if split == "train" else records.SQUAD

    def make_task(self, dtype=None):
        return QuestionAnsweringTask(self.config, dtype, self.extractor, self._mask_padding)

    def evaluate_and_predict(self, run):
        """Write predictions.json, its companion files and eval_results.txt."""
        do_eval, do_predict = run.config.do_eval, run.config.do_predict
        if not (do_eval or do_predict):
            return {}
        writer = PredictionWriter(self.config)
        writes, threshold = do_predict and run.workers.is_chief, None
        with writer.writing(run.folder) if writes else contextlib.nullcontext():
            writer.collect(self.extractor.answers(run.predict("dev")))
            self.extractor.decoder.log_unaligned()
            if self.config.find_null_score_diff_threshold:
                threshold = writer.best_threshold()
            if writes:
                writer.write(threshold)
        evaluation = {}
        if do_eval:
            scores = writer.score(threshold).results()
            evaluation = {f"eval_{name}": value for name, value in scores.items()}
            evaluation["global_step"] = run.trainer.step

        def write():
            if threshold is not None:
                # Saved with the model for later predictions and exports.
                config = dataclasses.replace(self.config, null_score_diff_threshold=threshold)
                for folder in {run.folder, run.weights_folder}:
                    config.save(folder)
            if do_eval:
                run.trainer.write_curves(evaluation)
                path = result_file(run.folder, "eval_results", "dev", ".txt")
                results.write_eval_results(path, evaluation)

        run.workers.chief_first(write)
        return {"dev": evaluation} if do_eval else {}


def read(task_config, model, splits, stored=None):
    """Read the data of a run; see `TaskSpec.read`."""
    config = task_config.of_model(model)
    is_scored = "dev" in splits or task_config.find_null_score_diff_threshold
    purposes = {"train": "train"} if "train" in splits else {}
    if is_scored or "test" in splits:
        purposes["dev"] = "eval" if is_scored else "predict"
    sources = {split: _make_source(task_config, split) for split in purposes}
    checks = config.version_2_with_negative, config.by_offsets
    summaries = {
        split: validate_and_count(source, purposes[split], *checks)
        for split, source in sources.items()
    }
    data = QuestionAnsweringData(sources, summaries, config, model.tokenizer)
    data.data_files = [x.name for x in sources.values() if not task_config.tfds_name]
    return data


def make_model(config, dtype=None):
    return BertSpanLabeler(config.bert_config, dtype=dtype)


def _make_source(task_config, split):
    argument = "train_file" if split == "train" else "predict_file"
    task_config.check_source((argument,))
    if task_config.tfds_name:
        splits = task_config.tfds_splits or (None, None)
        if len(splits) != 2:
            raise UserError(
                f"`tfds_splits`: found {len(splits)} splits, expected two, for training and "
                "prediction"
            )
        purpose = "train" if split == "train" else "predict"
        return TfdsQuestions(
            task_config.tfds_name, purpose, task_config.tfds_data_dir, splits[purpose == "predict"]
        )
    path = getattr(task_config, argument)
    if not path:
        raise UserError(f"`{argument}` or `tfds_name` must be given")
    return JsonSource(path, argument)


class PredictionWriter:
    """Collects the predictions; candidates are written immediately to save memory."""

    def __init__(self, config):
        self._config = config
        self._predictions, self._answers, self._paths = {}, {}, {}

    @contextlib.contextmanager
    def writing(self, output_dir):
        """Open the files for `collect` and `write`; they appear at the end of the context."""
        names = [N_BEST, PREDICTIONS]
        if self._config.version_2_with_negative:
            names.append(NULL_ODDS)
        with files.replacing(*(os.path.join(output_dir, name) for name in names)) as paths:
            self._paths = dict(zip(names, paths, strict=True))
            yield
        self._paths = {}
        console.info("wrote the answers to %d questions to %s", len(self._predictions), output_dir)

    def collect(self, predictions):
        path = self._paths.get(N_BEST)
        with _writing_json(path) if path else contextlib.nullcontext() as write:
            for question, prediction in predictions:
                if write:
                    write(question.id, prediction.n_best())
                # Later steps need only the best candidate.
                short = prediction._replace(candidates=prediction.candidates[:1])
                self._predictions[question.id] = short
                self._answers[question.id] = question.answers or ()

    def texts(self, threshold=None):
        """Return a dict from question id to answer; see `QuestionPrediction.answer`."""
        return {
            name: prediction.answer(self._config, threshold)
            for name, prediction in self._predictions.items()
        }

    def score(self, threshold=None):
        scorer = Scorer(self._config.version_2_with_negative)
        for name, text in self.texts(threshold).items():
            prediction = self._predictions[name]
            scorer.add(self._answers[name], text, prediction.best, prediction.null_odds)
        return scorer

    def best_threshold(self):
        """Log and return the threshold with the best F1 (`best_f1_thresh`)."""
        score, threshold = self.score().best_threshold("f1")
        console.info(
            "best null_score_diff_threshold on this data: %r, with an F1 of %.2f", threshold, score
        )
        achieved = self.score(threshold).results()["f1"]
        if achieved < score - 1e-6:
            console.warning(
                "this threshold achieves an F1 of only %.2f: the official search adds questions "
                "with equal odds one at a time, and returns 0 if leaving all unanswered is best",
                achieved,
            )
        return threshold

    def write(self, threshold=None):
        """Write the answers, and for SQuAD 2.0 the null odds, in the context of `writing`."""
        with _writing_json(self._paths[PREDICTIONS]) as write:
            for name, text in self.texts(threshold).items():
                write(name, text)
        if NULL_ODDS in self._paths:
            with _writing_json(self._paths[NULL_ODDS]) as write:
                for name, prediction in self._predictions.items():
                    write(name, prediction.null_odds)


@contextlib.contextmanager
def _writing_json(path):
    """Yield a function that adds an entry to a JSON object, indented as in the release."""
    with tf.io.gfile.GFile(path, "w") as writer:
        before = "{\n"

        def write(name, value):
            nonlocal before
            entry = json.dumps({name: value}, indent=4)
            writer.write(before + entry[len("{\n") : -len("\n}")])
            before = ",\n"

        yield write
        writer.write("{}\n" if before == "{\n" else "\n}\n")
