#!/usr/bin/env python3
"""Fine-tunes BERT to classify a text or a pair of texts, evaluates it and predicts."""

import os

from absl import flags

import bert_tf
from bert_tf.flags import FLAGS

bert_tf.flags.define_model_flags()
bert_tf.flags.define_tokenizer_flags()
bert_tf.flags.define_training_flags()
bert_tf.flags.define_device_flags()
flags.DEFINE_string("data_dir", None, "Folder with train.tsv, dev.tsv and test.tsv.")
flags.DEFINE_string("task_name", None, "Task: cola, mrpc, or tsv for files of your own.")
flags.DEFINE_string("output_dir", None, "Folder for checkpoints, summaries and results.")
flags.DEFINE_integer(
    "max_seq_length", 128, "Longest sequence in tokens; longer ones are cut, shorter ones padded."
)
flags.DEFINE_bool("do_train", False, "Whether to train, on train.tsv.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, on dev.tsv.")
flags.DEFINE_bool("do_predict", False, "Whether to predict the labels of test.tsv.")
flags.DEFINE_integer("predict_batch_size", 8, "Total batch size for prediction.", lower_bound=1)
flags.DEFINE_float("num_train_epochs", 3.0, "Number of times to go through train.tsv.", 0.0)
flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps to warm up in.", 0.0, 1.0)
flags.mark_flags_as_required(["data_dir", "task_name", "output_dir"])


def main():
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise bert_tf.UserError("one of --do_train, --do_eval and --do_predict must be set")
    bert_tf.flags.resolve_model("bert_config_file", "vocab_file")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    bert_tf.tasks.check_length(FLAGS.max_seq_length, config)
    bert_tf.flags.check_frozen_layers(config)
    bert_tf.tokenization.validate_case_matches_checkpoint(
        FLAGS.do_lower_case, FLAGS.init_checkpoint
    )
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    bert_tf.tasks.check_vocabulary(tokenizer.vocab, config, FLAGS.vocab_file)
    examples, labels = read_task()
    settings = bert_tf.tasks.Settings(
        labels, FLAGS.max_seq_length, FLAGS.do_lower_case, config, FLAGS.vocab_file
    )
    strategy = bert_tf.training.make_strategy(**bert_tf.flags.device_options())
    workers = bert_tf.training.Workers(strategy)
    with bert_tf.training.guard.only_one(FLAGS.output_dir, workers):
        workers.chief_first(
            lambda: bert_tf.tasks.settle(FLAGS.output_dir, settings, write=FLAGS.do_train)
        )
        run(strategy, settings, examples, tokenizer)


def run(strategy, settings, examples, tokenizer):
    bert_tf.training.set_seed(FLAGS.seed)
    bert_tf.flags.check_batch_sizes(
        strategy, train=FLAGS.do_train, eval="dev" in examples, predict=FLAGS.do_predict
    )
    options = bert_tf.flags.training_options(strategy)
    trainer = bert_tf.training.Trainer(
        lambda: bert_tf.tasks.ClassificationTask(
            settings.config, len(settings.labels), bert_tf.flags.dtype_policy()
        ),
        strategy,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
        must_be_trained=not FLAGS.do_train,
    )
    trainer.check_metric(FLAGS.best_metric)
    paths = {
        split: os.path.join(FLAGS.output_dir, f"{name}.tf_record")
        for split, name in (("train", "train"), ("dev", "eval"), ("test", "predict"))
        if split in examples
    }
    trainer.workers.chief_first(lambda: write_records(paths, examples, settings.labels, tokenizer))
    with bert_tf.data.records.reading(paths.values()):
        if FLAGS.do_train:
            train(trainer, paths, len(examples["train"]), options, settings)
        if FLAGS.best_metric:
            trainer.use_best(FLAGS.best_metric)
        if FLAGS.do_eval:
            data = evaluation_data(paths["dev"], FLAGS.eval_batch_size, settings)
            results = trainer.evaluate(data, total=len(examples["dev"]))
            path = os.path.join(FLAGS.output_dir, "eval_results.txt")
            trainer.workers.chief_first(lambda: bert_tf.tasks.write_eval_results(path, results))
        if FLAGS.do_predict:
            data = evaluation_data(paths["test"], FLAGS.predict_batch_size, settings)
            parts = trainer.predict(data, "predicting", len(examples["test"]))
            probabilities = [part["probabilities"] for part in parts]
            path = os.path.join(FLAGS.output_dir, "test_results.tsv")
            trainer.workers.chief_first(
                lambda: bert_tf.tasks.write_test_results(path, probabilities)
            )


def read_task():
    """Reads the files that the do_* flags ask for, and finds the labels.

    Returns:
      (dict of split to examples, labels in the order of their ids)
    """
    task = bert_tf.tasks.find_task(FLAGS.task_name)
    wanted = {
        "train": FLAGS.do_train,
        "dev": FLAGS.do_eval or (FLAGS.do_train and FLAGS.eval_steps > 0),
        "test": FLAGS.do_predict,
    }
    examples = {
        split: bert_tf.tasks.read_examples(task, FLAGS.data_dir, split)
        for split, is_wanted in wanted.items()
        if is_wanted
    }
    labels = task.labels
    if labels is None and not FLAGS.do_train:
        # A trained model goes before the data: its labels are the ids that it was trained on.
        settings = bert_tf.tasks.load_settings(FLAGS.output_dir)
        labels = settings and settings.labels
    if labels is None:
        train = examples.get("train") or bert_tf.tasks.read_examples(task, FLAGS.data_dir, "train")
        labels = bert_tf.tasks.labels_of(train)
        bert_tf.console.info("labels found in train.tsv: %s", ", ".join(labels))
    return examples, labels


def write_records(paths, examples, labels, tokenizer):
    """Writes the features of each split into the output folder, under the release's names."""
    for split, path in paths.items():
        bert_tf.tasks.write_features(path, examples[split], labels, tokenizer, FLAGS.max_seq_length)


def train(trainer, paths, num_examples, options, settings):
    num_train_steps = int(num_examples / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if num_train_steps < 1:
        raise bert_tf.UserError(
            f"{num_examples} examples for {FLAGS.num_train_epochs} epochs make less than one "
            f"batch of {FLAGS.train_batch_size}; a smaller --train_batch_size is needed"
        )
    eval_data = None
    if FLAGS.eval_steps:
        eval_data = evaluation_data(paths["dev"], FLAGS.eval_batch_size, settings)
    trainer.train(
        bert_tf.data.pipelines.Training(
            [paths["train"]],
            bert_tf.data.records.CLASSIFICATION,
            {"S": FLAGS.max_seq_length},
            FLAGS.train_batch_size,
            FLAGS.seed,
            limits_of(settings),
        ),
        bert_tf.flags.make_optimizer(
            num_train_steps, int(num_train_steps * FLAGS.warmup_proportion)
        ),
        num_train_steps,
        options,
        eval_data,
    )


def evaluation_data(path, batch_size, settings):
    return bert_tf.data.pipelines.Evaluation(
        [path],
        bert_tf.data.records.CLASSIFICATION,
        {"S": FLAGS.max_seq_length},
        batch_size,
        limits=limits_of(settings),
    )


def limits_of(settings):
    return bert_tf.data.records.limits(
        bert_tf.data.records.CLASSIFICATION,
        settings.config,
        {"S": FLAGS.max_seq_length},
        len(settings.labels),
    )


if __name__ == "__main__":
    bert_tf.flags.run(main)
