#!/usr/bin/env python3
"""Fine-tunes BERT to classify or score a text or a pair of texts, evaluates it and predicts."""

import functools
import os

from absl import flags

import bert_tf
from bert_tf.flags import FLAGS

bert_tf.flags.define_model_flags()
bert_tf.flags.define_tokenizer_flags()
bert_tf.flags.define_training_flags()
bert_tf.flags.define_device_flags()
bert_tf.data_flags.define_data_flags()
flags.DEFINE_string("output_dir", None, "Folder for checkpoints, summaries and results.")
flags.DEFINE_integer(
    "max_seq_length", 128, "Longest sequence in tokens; longer ones are cut, shorter ones padded."
)
flags.DEFINE_bool("do_train", False, "Whether to train, on the training set.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, on the development set.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the labels of the test set.")
flags.DEFINE_integer("predict_batch_size", 8, "Total batch size for prediction.", lower_bound=1)
flags.DEFINE_float("num_train_epochs", 3.0, "Number of times to go through the training set.", 0.0)
flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps to warm up in.", 0.0, 1.0)
flags.DEFINE_list(
    "class_weights",
    None,
    "Ours: what each label weighs in training: balanced, or a number for each in the order of "
    "their ids.",
)
flags.DEFINE_integer(
    "num_seeds",
    1,
    "Ours: how many times to run, with seed, seed + 1, ..., each in a folder seed_N of output_dir; "
    "mean and spread go to eval_seeds.tsv.",
    lower_bound=1,
)
flags.DEFINE_string(
    "teacher_dir",
    None,
    "Ours: output_dir of a fine-tuned model to learn from; its answers stand for the labels.",
)
flags.DEFINE_float(
    "teacher_weight",
    1.0,
    "Ours: the teacher's share of the loss, the labels have the rest.",
    0.0,
    1.0,
)
flags.DEFINE_float(
    "teacher_temperature",
    1.0,
    "Ours: what to divide the logits of both by before they are compared.",
    lower_bound=0.01,
)
flags.DEFINE_bool(
    "pad_to_max_length",
    False,
    "Ours: pad every batch to max_seq_length, as on a TPU, and not just to its longest text.",
)
flags.DEFINE_bool(
    "report", False, "Ours: write eval_report.txt, with each label's figures and confusions."
)
flags.DEFINE_string(
    "glue_submission",
    None,
    "Ours: folder for the predictions as GLUE's leaderboard wants them, with a zip of all that lie "
    "in it.",
)
flags.mark_flags_as_required(["output_dir"])


def main():
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise bert_tf.UserError("one of --do_train, --do_eval and --do_predict must be set")
    trained = recall_settings()
    bert_tf.flags.resolve_model("bert_config_file", "vocab_file")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    bert_tf.tasks.check_length(FLAGS.max_seq_length, config)
    bert_tf.flags.check_frozen_layers(config)
    bert_tf.tokenization.validate_case_matches_checkpoint(
        FLAGS.do_lower_case, FLAGS.init_checkpoint
    )
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    bert_tf.tasks.check_vocabulary(tokenizer.vocab, config, FLAGS.vocab_file)
    source = bert_tf.data_flags.make_source(trained)
    if FLAGS.glue_submission and not source.task.submission:
        raise bert_tf.UserError("--glue_submission: this task is not on GLUE's leaderboard")
    if FLAGS.glue_submission and FLAGS.skip_bad_rows:
        raise bert_tf.UserError("--glue_submission: the leaderboard wants all rows, none skipped")
    check_together()
    data = bert_tf.tasks.read_data(source, wanted_parts(), trained, FLAGS.skip_bad_rows)
    settings = bert_tf.tasks.Settings(
        data.labels,
        FLAGS.max_seq_length,
        FLAGS.do_lower_case,
        config,
        FLAGS.vocab_file,
        data.task.task_type,
        data.numbers,
        data.task.layout.numeric_as if data.numbers else "vector",
    )
    strategy = bert_tf.training.make_strategy(**bert_tf.flags.device_options())
    job = Job(strategy, settings, data)
    with bert_tf.training.guard.only_one(FLAGS.output_dir, job.workers):
        job.workers.chief_first(
            lambda: bert_tf.tasks.settle(FLAGS.output_dir, settings, write=FLAGS.do_train)
        )
        job.make_features(tokenizer)
        run_seeds(job)


def check_together():
    """Checks that the flags of how to learn go together."""
    if FLAGS.glue_submission and FLAGS.num_seeds > 1:
        raise bert_tf.UserError("--glue_submission wants one run's answers, and --num_seeds=1")
    if not FLAGS.do_train:
        for name in ("class_weights", "teacher_dir"):
            if FLAGS[name].value:
                bert_tf.console.warning("--%s has no effect without --do_train", name)
    if not FLAGS.teacher_dir:
        for name in ("teacher_weight", "teacher_temperature"):
            if FLAGS[name].present:
                raise bert_tf.UserError(f"--{name} wants --teacher_dir")


def recall_settings():
    """Without --do_train, what the run was trained with stands for the flags that are not given.

    Returns:
      The `Settings` of the run, None if it is not trained or is to be.
    """
    trained = None if FLAGS.do_train else bert_tf.tasks.load_settings(FLAGS.output_dir)
    if trained:
        meant = {
            "bert_config_file": os.path.join(FLAGS.output_dir, bert_tf.files.CONFIG),
            "vocab_file": trained.vocab_file,
            "do_lower_case": trained.do_lower_case,
            "max_seq_length": trained.max_seq_length,
        }
        missing = [name for name in meant if not FLAGS[name].present]
        for name in missing:
            FLAGS[name].value = meant[name]
        if missing:
            bert_tf.console.info("as in %s: %s", FLAGS.output_dir, ", ".join(missing))
    return trained


def wanted_parts():
    """Which of the sets the do_* flags ask for."""
    wanted = {
        "train": FLAGS.do_train,
        "dev": FLAGS.do_eval or (FLAGS.do_train and FLAGS.eval_steps > 0),
        "test": FLAGS.do_predict,
    }
    return [part for part, is_wanted in wanted.items() if is_wanted]


def run_seeds(job):
    """Makes one run, or one of each seed in a folder of its own and a table of them all."""
    if FLAGS.num_seeds == 1:
        job.run(FLAGS.output_dir)
        return
    first, found = FLAGS.seed, {}
    seeds = range(first, first + FLAGS.num_seeds)
    for seed in seeds:
        bert_tf.console.info("seed %d of %d to %d", seed, seeds[0], seeds[-1])
        FLAGS.seed = seed
        folder = os.path.join(FLAGS.output_dir, bert_tf.tasks.folder_name(seed))
        job.workers.chief_first(
            functools.partial(bert_tf.tasks.settle, folder, job.settings, write=FLAGS.do_train)
        )
        for split, results in job.run(folder).items():
            found.setdefault(split, {})[seed] = results
    for split, results in found.items():
        path = result_file(FLAGS.output_dir, "eval_seeds", split, ".tsv")
        job.workers.chief_first(functools.partial(bert_tf.tasks.write_seeds, path, results))


class Job:
    """What the runs of all seeds share: data, features and the settings of the model."""

    def __init__(self, strategy, settings, data):
        self.strategy, self.settings, self.data = strategy, settings, data
        self.workers = bert_tf.training.Workers(strategy)
        bert_tf.flags.check_batch_sizes(
            strategy, train=FLAGS.do_train, eval=data.splits("dev"), predict=FLAGS.do_predict
        )
        self.options = bert_tf.flags.training_options(strategy)
        self.kind = bert_tf.tasks.KINDS[settings.task_type]
        self.teacher, teaching, weights = None, None, None
        if FLAGS.teacher_dir and FLAGS.do_train:
            self.teacher = bert_tf.training.Teacher(FLAGS.teacher_dir, settings)
            teaching = bert_tf.tasks.Teaching(FLAGS.teacher_weight, FLAGS.teacher_temperature)
        if FLAGS.class_weights and FLAGS.do_train:
            weights = bert_tf.tasks.class_weights(
                FLAGS.class_weights, data.examples["train"], data.labels, settings.task_type
            )
        self.make_task = functools.partial(
            self.kind,
            settings.config,
            settings.num_outputs,
            bert_tf.flags.dtype_policy(),
            data.task.metrics,
            len(settings.vector),
            weights,
            teaching,
        )
        self.length_multiple = None
        if not FLAGS.pad_to_max_length:
            self.length_multiple = bert_tf.training.length_multiple(
                strategy, self.options.xla, FLAGS.max_seq_length
            )
        stems = {"train": "train", "dev": "eval", "test": "predict"}
        self.paths = {
            split: result_file(
                FLAGS.output_dir, stems[bert_tf.tasks.part_of(split)], split, ".tf_record"
            )
            for split in data.examples
        }

    def make_features(self, tokenizer):
        """Has the features of each split in the output folder, under the release's names."""
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
            # All workers have looked before the chief writes.
            self.workers.wait()
            if not features.wanting:
                continue
            answers = None
            if is_taught:
                answers = self.teacher.answers(
                    self.data.examples[split],
                    self.strategy,
                    FLAGS.eval_batch_size,
                    FLAGS.output_dir,
                    bert_tf.flags.dtype_policy(),
                )
            self.workers.chief_first(functools.partial(features.write, answers))

    def run(self, folder):
        """Does what the do_* flags say, with all files in `folder`.

        Returns:
          Dict from each development split to the results of its evaluation.
        """
        bert_tf.training.set_seed(FLAGS.seed)
        trainer = bert_tf.training.Trainer(
            self.make_task,
            self.strategy,
            folder,
            FLAGS.init_checkpoint,
            must_be_trained=not FLAGS.do_train,
        )
        trainer.check_metric(FLAGS.best_metric)
        with bert_tf.data.records.reading(self.paths.values()):
            if FLAGS.do_train:
                self.train(trainer)
            if FLAGS.best_metric:
                trainer.use_best(FLAGS.best_metric)
            evaluated = self.data.splits("dev") if FLAGS.do_eval else ()
            found = {split: self.evaluate(trainer, split) for split in evaluated}
            for split in self.data.splits("test"):
                self.predict(trainer, split)
        return found

    def train(self, trainer):
        num_examples = len(self.data.examples["train"])
        num_train_steps = int(num_examples / FLAGS.train_batch_size * FLAGS.num_train_epochs)
        if num_train_steps < 1:
            raise bert_tf.UserError(
                f"{num_examples} examples for {FLAGS.num_train_epochs} epochs make less than one "
                f"batch of {FLAGS.train_batch_size}; a smaller --train_batch_size is needed"
            )
        schema, lengths, limits = self.shape("train")
        trainer.train(
            bert_tf.data.pipelines.Training(
                [self.paths["train"]],
                schema,
                lengths,
                FLAGS.train_batch_size,
                FLAGS.seed,
                limits,
                self.length_multiple,
            ),
            bert_tf.flags.make_optimizer(
                num_train_steps, int(num_train_steps * FLAGS.warmup_proportion)
            ),
            num_train_steps,
            self.options,
            self.batches("dev", FLAGS.eval_batch_size) if FLAGS.eval_steps else None,
        )

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
            total=len(self.data.examples[split]),
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
            if FLAGS.glue_submission:
                bert_tf.tasks.write_submission(
                    FLAGS.glue_submission, self.data.task, split, ids, predicted
                )

        self.workers.chief_first(write)

    def batches(self, split, batch_size):
        schema, lengths, limits = self.shape(split)
        return bert_tf.data.pipelines.Evaluation(
            [self.paths[split]],
            schema,
            lengths,
            batch_size,
            limits=limits,
            length_multiple=self.length_multiple,
        )

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
    bert_tf.flags.run(main)
