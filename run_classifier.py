#!/usr/bin/env python3
"""Fine-tunes BERT to classify or score a text or a pair of texts, evaluates it and predicts."""

import functools
import gc
import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.fine_tuning.define_tuning_flags()
bert_tf.cli.classification.define_data_flags()
bert_tf.cli.classification.define_ways()
flags.DEFINE_integer("max_seq_length", 128, "Longest sequence in tokens; longer ones are cut.")
flags.DEFINE_bool("do_train", False, "Whether to train, on the training set.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, on the development set.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the labels of the test set.")
flags.DEFINE_bool(
    "report", False, "Ours: write eval_report.txt, with each label's figures and confusions."
)
flags.DEFINE_string(
    "glue_submission",
    None,
    "Ours: folder for the predictions as GLUE's leaderboard wants them, with a zip of all that lie "
    "in it.",
)


def main():
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise bert_tf.UserError("one of --do_train, --do_eval and --do_predict must be set")
    trained = bert_tf.cli.fine_tuning.recall_settings(
        bert_tf.files.CLASSIFIER, bert_tf.tasks.load_settings
    )
    seeds = trained and bert_tf.tasks.seed_folders(FLAGS.output_dir)
    if seeds and FLAGS.num_seeds == 1 and not bert_tf.training.latest(FLAGS.output_dir):
        raise bert_tf.UserError(
            f"--output_dir: {FLAGS.output_dir} has the runs {', '.join(seeds)}; name one of these "
            "folders, or give --num_seeds"
        )
    config, tokenizer = bert_tf.cli.fine_tuning.read_model()
    bert_tf.cli.classification.check_ways()
    # With many hosts it must come before TensorFlow's first operation, as reading a data set is.
    strategy = bert_tf.training.make_strategy(**bert_tf.cli.flags.device_options())
    source = bert_tf.cli.classification.make_source(trained)
    if FLAGS.glue_submission and not source.task.submission:
        raise bert_tf.UserError("--glue_submission: this task is not on GLUE's leaderboard")
    if FLAGS.glue_submission and FLAGS.skip_bad_rows:
        raise bert_tf.UserError("--glue_submission: the leaderboard wants all rows, none skipped")
    data = bert_tf.tasks.read_data(
        source, bert_tf.cli.fine_tuning.wanted_parts(), trained, FLAGS.skip_bad_rows
    )
    settings = bert_tf.tasks.Settings(
        data.labels,
        FLAGS.max_seq_length,
        FLAGS.do_lower_case,
        config,
        FLAGS.vocab_file,
        data.task.task_type,
        data.numbers,
        data.task.layout.numeric_as if data.numbers else "vector",
        data.num_texts,
    )
    settings = bert_tf.tasks.with_stored_normalization(FLAGS.output_dir, settings)
    job = Job(strategy, settings, data)
    with bert_tf.training.guard.exclusive_directory(FLAGS.output_dir, job.workers):
        job.workers.chief_first(
            lambda: bert_tf.tasks.settle(FLAGS.output_dir, settings, write=FLAGS.do_train)
        )
        job.make_features(tokenizer)
        run_seeds(job)


def run_seeds(job):
    """Makes one run, or one of each seed in a folder of its own and a table of them all."""
    if FLAGS.num_seeds == 1:
        job.run(FLAGS.output_dir, FLAGS.seed)
        return
    found = {}
    for i, (seed, folder) in enumerate(job.folders.items()):
        bert_tf.console.info("run %d of %d: seed %d", i + 1, FLAGS.num_seeds, seed)
        job.workers.chief_first(
            functools.partial(bert_tf.tasks.settle, folder, job.settings, write=FLAGS.do_train)
        )
        for split, results in job.run(folder, seed).items():
            found.setdefault(split, {})[seed] = results
        gc.collect()  # the model lies in cycles of references
    for split, results in found.items():
        path = result_file(FLAGS.output_dir, "eval_seeds", split, ".tsv")
        job.workers.chief_first(functools.partial(bert_tf.tasks.write_seeds, path, results))


class Job(bert_tf.cli.fine_tuning.Tuning):
    """What the runs of all seeds share: data, features and the settings of the model."""

    def __init__(self, strategy, settings, data):
        self.data, self.kind = data, bert_tf.tasks.TASK_CLASSES[settings.task_type]
        super().__init__(
            strategy,
            settings,
            data.splits("dev") or (FLAGS.do_train and FLAGS.teacher_dir),
            self.kind.names_of_metrics(data.task.metrics),
            FLAGS.pad_to_max_length,
        )
        self.counts = {split: len(examples) for split, examples in data.examples.items()}
        self.teacher, teaching, weights = None, None, None
        if FLAGS.teacher_dir and FLAGS.do_train:
            self.teacher = bert_tf.training.Teacher(FLAGS.teacher_dir, settings)
            teaching = bert_tf.tasks.DistillationConfig(
                FLAGS.teacher_weight, FLAGS.teacher_temperature
            )
            if settings.task_type == "regression" and FLAGS.teacher_temperature != 1:
                raise bert_tf.UserError("--teacher_temperature: a regression has no probabilities")
        if FLAGS.class_weights and FLAGS.do_train:
            weights = bert_tf.tasks.class_weights(
                FLAGS.class_weights, data.examples["train"], data.labels, settings.task_type
            )
        self.make_task = functools.partial(
            self.kind,
            settings.config,
            settings.num_outputs,
            dtype=bert_tf.cli.flags.dtype_policy(),
            more_metrics=data.task.metrics,
            num_numbers=len(settings.vector),
            class_weights=weights,
            teaching=teaching,
        )
        self.folders = {FLAGS.seed: FLAGS.output_dir}
        if FLAGS.num_seeds > 1:
            seeds = range(FLAGS.seed, FLAGS.seed + FLAGS.num_seeds)
            self.folders = {x: bert_tf.tasks.seed_folder(FLAGS.output_dir, x) for x in seeds}
        stems = {"train": "train", "dev": "eval", "test": "predict"}
        self.paths = {
            split: result_file(
                FLAGS.output_dir, stems[bert_tf.tasks.part_of(split)], split, ".tf_record"
            )
            for split in data.examples
        }

    def make_features(self, tokenizer):
        """Makes the features of each split, under the release's names, unless they are there."""
        for split, path in self.paths.items():
            is_taught = self.teacher and split == "train"
            features = bert_tf.tasks.Features(
                path,
                self.data.examples[split],
                self.data.labels,
                tokenizer,
                FLAGS.max_seq_length,
                self.kind,
                self.settings.vector,
                self.teacher.fingerprint if is_taught else None,
            )
            runs = self.folders.values() if split == "train" else ()
            if not bert_tf.cli.fine_tuning.must_be_made(features, self.workers, runs):
                continue
            logits = None
            if is_taught:
                logits = self.teacher.logits(
                    self.data.examples[split],
                    self.strategy,
                    FLAGS.eval_batch_size,
                    FLAGS.output_dir,
                    bert_tf.cli.flags.dtype_policy(),
                )
                gc.collect()  # the teacher's weights
            self.workers.chief_first(functools.partial(features.write, logits))

    def run(self, folder, seed):
        """Does what the do_* flags say, with all files in `folder`.

        Args:
          folder: of the run.
          seed: of its weights, dropout and order.

        Returns:
          Dict from each development split to the results of its evaluation.
        """
        with self.tuned(self.make_task, folder, seed, self.settings.labels) as trainer:
            evaluated = self.data.splits("dev") if FLAGS.do_eval else ()
            found = {split: self.evaluate(trainer, split) for split in evaluated}
            for split in self.data.splits("test"):
                self.predict(trainer, split)
        return found

    def evaluate(self, trainer, split):
        """Writes eval_results.txt, and eval_report.txt if it is asked for; returns the results."""
        reports = []

        def report(predictions):
            true, found = trainer.task.compared(predictions)
            reports.append(bert_tf.tasks.metrics.report(true, found, self.data.labels))

        def write():
            path = result_file(trainer.output_dir, "eval_results", split, ".txt")
            bert_tf.tasks.write_eval_results(path, results)
            for text in reports:
                bert_tf.console.info("%s", text)
                path = result_file(trainer.output_dir, "eval_report", split, ".txt")
                bert_tf.files.write_text(path, text)

        results = trainer.evaluate(
            self.batches(split, FLAGS.eval_batch_size),
            total=self.counts[split],
            name=bert_tf.tasks.result_name("eval", split, ""),
            also=report if FLAGS.report else None,
        )
        self.workers.chief_first(write)
        return results

    def predict(self, trainer, split):
        """Writes test_results.tsv, test_predictions.tsv and what the leaderboard wants."""
        examples, labels = self.data.examples[split], self.data.labels
        predictions = trainer.predict_all(
            self.batches(split, FLAGS.predict_batch_size), "predicting", len(examples)
        )
        answers = predictions[trainer.task.answer_name]
        ids = [example.id for example in examples]
        predicted = bert_tf.tasks.decided(
            trainer.task.decide(predictions), labels, FLAGS.label_separator
        )

        def write():
            path = result_file(trainer.output_dir, "test_results", split, ".tsv")
            bert_tf.tasks.write_test_results(path, answers)
            path = result_file(trainer.output_dir, "test_predictions", split, ".tsv")
            bert_tf.tasks.write_predictions(path, ids, predicted, labels, answers)
            bert_tf.console.info(
                "wrote %s, and test_results%s", path, path.partition("test_predictions")[2]
            )
            if FLAGS.glue_submission:
                bert_tf.tasks.write_submission(
                    FLAGS.glue_submission, self.data.task, split, ids, predicted
                )

        self.workers.chief_first(write)

    def shape(self, split):
        """The schema of a split's records, its lengths and what its values must be below."""
        settings = self.settings
        is_taught = self.teacher is not None and split == "train"
        schema = bert_tf.tasks.schema_of(self.kind, settings.vector, is_taught)
        lengths = {
            "S": FLAGS.max_seq_length,
            "L": settings.num_outputs,
            "F": len(settings.vector),
        }
        limits = bert_tf.data.records.limits(schema, settings.config, lengths, settings.num_outputs)
        return schema, lengths, limits


def result_file(folder, stem, split, ending):
    """The path of a file about a split, such as eval_results_mismatched.txt of "dev_mismatched"."""
    return os.path.join(folder, bert_tf.tasks.result_name(stem, split, ending))


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
