#!/usr/bin/env python3
"""Fine-tunes BERT to choose between endings of a text, evaluates it and predicts."""

import functools
import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.fine_tuning.define_tuning_flags()
flags.DEFINE_string("data_dir", None, "Folder with train.csv, val.csv (or dev.csv), test.csv.")
flags.DEFINE_string("train_file", None, "Training set if it is not that of data_dir.")
flags.DEFINE_string("dev_file", None, "Development set if it is not that of data_dir.")
flags.DEFINE_string("test_file", None, "Test set if it is not that of data_dir.")
flags.DEFINE_list(
    "context_columns",
    None,
    "Columns of the text that is to be gone on with, joined by a space; startphrase or context if "
    "not given.",
)
flags.DEFINE_list(
    "ending_columns",
    None,
    "Columns of the endings to choose from, two or more; ending0, ending1, ... if not given.",
)
flags.DEFINE_string(
    "label_column", None, "Column of the number of the right ending, from 0; label if not given."
)
flags.DEFINE_string("id_column", None, "Column to know the predictions by.")
flags.DEFINE_bool("skip_bad_rows", False, "Leave out rows that cannot be used, and say so.")
flags.DEFINE_integer(
    "max_seq_length", 128, "Longest sequence of text and ending in tokens; longer ones are cut."
)
flags.DEFINE_bool("do_train", False, "Whether to train, on the training set.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, on the development set.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the endings of the test set.")


def main():
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise bert_tf.UserError("one of --do_train, --do_eval and --do_predict must be set")
    bert_tf.cli.fine_tuning.recall_settings(bert_tf.files.CHOICE, bert_tf.tasks.choice.load_choice)
    config, tokenizer = bert_tf.cli.fine_tuning.read_model()
    # With many hosts it must come before TensorFlow's first operation, as reading files is.
    strategy = bert_tf.training.make_strategy(**bert_tf.cli.flags.device_options())
    settings = bert_tf.tasks.choice.ChoiceSettings(
        FLAGS.max_seq_length, FLAGS.do_lower_case, config, FLAGS.vocab_file
    )
    sets = read_sets()
    job = Job(strategy, settings, sets)
    with bert_tf.training.guard.exclusive_directory(FLAGS.output_dir, job.workers):
        job.workers.chief_first(
            lambda: bert_tf.tasks.choice.settle_choice(
                FLAGS.output_dir, settings, write=FLAGS.do_train
            )
        )
        job.make_features(tokenizer)
        job.run()


def read_sets():
    """Reads the sets that the do_* flags ask for: dict from part to (examples, ending columns)."""
    columns = bert_tf.tasks.choice_files.ChoiceColumns(
        tuple(FLAGS.context_columns or ()),
        tuple(FLAGS.ending_columns or ()),
        FLAGS.label_column,
        FLAGS.id_column,
    )
    return {
        part: bert_tf.tasks.choice_files.read_choices(
            bert_tf.tasks.choice_files.find_choice_file(
                part, FLAGS.data_dir, FLAGS[f"{part}_file"].value
            ),
            columns,
            part != "test",
            FLAGS.skip_bad_rows,
        )
        for part in bert_tf.cli.fine_tuning.wanted_parts()
    }


class Job(bert_tf.cli.fine_tuning.Tuning):
    """One run: its sets, their features, and the model on its devices."""

    def __init__(self, strategy, settings, sets):
        metrics = bert_tf.tasks.choice.ChoiceTask.names_of_metrics()
        super().__init__(strategy, settings, "dev" in sets, metrics)
        self.sets = sets
        self.counts = {part: len(examples) for part, (examples, _) in sets.items()}
        stems = {"train": "train", "dev": "eval", "test": "predict"}
        self.paths = {part: output_file(f"{stems[part]}.tf_record") for part in sets}

    def make_features(self, tokenizer):
        """Makes the features of each set, unless they are there."""
        for part, path in self.paths.items():
            features = bert_tf.tasks.choice.ChoiceFeatures(
                path, self.sets[part][0], tokenizer, FLAGS.max_seq_length
            )
            runs = [FLAGS.output_dir] if part == "train" else ()
            if bert_tf.cli.fine_tuning.must_be_made(features, self.workers, runs):
                self.workers.chief_first(features.write)

    def run(self):
        """Does what the do_* flags say."""
        make_task = functools.partial(
            bert_tf.tasks.choice.ChoiceTask, self.settings.config, bert_tf.cli.flags.dtype_policy()
        )
        with self.tuned(make_task, FLAGS.output_dir, FLAGS.seed) as trainer:
            if FLAGS.do_eval:
                self.evaluate(trainer)
            if FLAGS.do_predict:
                self.predict(trainer)

    def evaluate(self, trainer):
        """Writes eval_results.txt."""
        results = trainer.evaluate(
            self.batches("dev", FLAGS.eval_batch_size), total=self.counts["dev"]
        )
        path = output_file("eval_results.txt")
        self.workers.chief_first(lambda: bert_tf.tasks.write_eval_results(path, results))

    def predict(self, trainer):
        """Writes test_results.tsv and test_predictions.tsv."""
        examples, endings = self.sets["test"]
        predictions = trainer.predict_all(
            self.batches("test", FLAGS.predict_batch_size), "predicting", len(examples)
        )
        probabilities = predictions["probabilities"]
        chosen = [str(number) for number in trainer.task.decide(predictions)]

        def write():
            bert_tf.tasks.write_test_results(output_file("test_results.tsv"), probabilities)
            path = output_file("test_predictions.tsv")
            ids = [example.id for example in examples]
            bert_tf.tasks.write_predictions(path, ids, chosen, endings, probabilities)
            bert_tf.console.info("wrote %s, and test_results.tsv", path)

        self.workers.chief_first(write)

    def shape(self, part):
        """The schema of a set's records, its lengths and what its values must be below."""
        schema = bert_tf.data.records.CHOICE
        num_choices = len(self.sets[part][1])
        lengths = {"S": FLAGS.max_seq_length, "C": num_choices}
        limits = bert_tf.data.records.limits(schema, self.settings.config, lengths, num_choices)
        return schema, lengths, limits


def output_file(name):
    return os.path.join(FLAGS.output_dir, name)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
