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
    bert_tf.tokenization.validate_case_matches_checkpoint(
        FLAGS.do_lower_case, FLAGS.init_checkpoint
    )
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    bert_tf.tasks.check_vocabulary(tokenizer.vocab, config, FLAGS.vocab_file)
    examples, labels = read_task()
    settings = bert_tf.tasks.Settings(
        labels, FLAGS.max_seq_length, FLAGS.do_lower_case, config, FLAGS.vocab_file
    )
    with bert_tf.training.guard.only_one(FLAGS.output_dir):
        run(settings, examples, tokenizer)


def run(settings, examples, tokenizer):
    bert_tf.training.set_seed(FLAGS.seed)
    strategy = bert_tf.training.make_strategy(**bert_tf.flags.device_options())
    bert_tf.flags.check_batch_sizes(
        strategy, train=FLAGS.do_train, eval=FLAGS.do_eval, predict=FLAGS.do_predict
    )
    bert_tf.tasks.settle(FLAGS.output_dir, settings, write=FLAGS.do_train)
    labels = settings.labels
    trainer = bert_tf.training.Trainer(
        lambda: bert_tf.tasks.ClassificationTask(settings.config, len(labels)),
        strategy,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
        must_be_trained=not FLAGS.do_train,
    )
    records = {
        split: write_records(split, examples[split], labels, tokenizer) for split in examples
    }
    limits = bert_tf.data.records.limits(
        bert_tf.data.records.CLASSIFICATION,
        settings.config,
        {"S": FLAGS.max_seq_length},
        len(labels),
    )
    if FLAGS.do_train:
        with bert_tf.data.records.reading([records["train"]]):
            train(trainer, records["train"], len(examples["train"]), limits)
    if FLAGS.do_eval:
        batches = evaluation_batches(records["dev"], FLAGS.eval_batch_size, limits)
        with bert_tf.data.records.reading([records["dev"]]):
            results = trainer.evaluate(batches, len(examples["dev"]))
        path = os.path.join(FLAGS.output_dir, "eval_results.txt")
        bert_tf.tasks.write_eval_results(path, results)
    if FLAGS.do_predict:
        batches = evaluation_batches(records["test"], FLAGS.predict_batch_size, limits)
        parts = trainer.predict(batches, "predicting", len(examples["test"]))
        path = os.path.join(FLAGS.output_dir, "test_results.tsv")
        with bert_tf.data.records.reading([records["test"]]):
            bert_tf.tasks.write_test_results(path, (part["probabilities"] for part in parts))


def read_task():
    """Reads the files that the do_* flags ask for, and finds the labels.

    Returns:
      (dict of split to examples, labels in the order of their ids)
    """
    task = bert_tf.tasks.find_task(FLAGS.task_name)
    wanted = {"train": FLAGS.do_train, "dev": FLAGS.do_eval, "test": FLAGS.do_predict}
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


def write_records(split, examples, labels, tokenizer):
    """Writes the features of a split into the output folder, under the release's names."""
    name = {"train": "train", "dev": "eval", "test": "predict"}[split]
    path = os.path.join(FLAGS.output_dir, f"{name}.tf_record")
    bert_tf.tasks.write_features(path, examples, labels, tokenizer, FLAGS.max_seq_length)
    return path


def train(trainer, path, num_examples, limits):
    num_train_steps = int(num_examples / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if num_train_steps < 1:
        raise bert_tf.UserError(
            f"{num_examples} examples for {FLAGS.num_train_epochs} epochs make less than one "
            f"batch of {FLAGS.train_batch_size}; a smaller --train_batch_size is needed"
        )
    rate = bert_tf.optimization.linear_warmup_decay(
        FLAGS.learning_rate, num_train_steps, int(num_train_steps * FLAGS.warmup_proportion)
    )
    trainer.train(
        lambda step: bert_tf.data.pipelines.training(
            [path],
            bert_tf.data.records.CLASSIFICATION,
            {"S": FLAGS.max_seq_length},
            FLAGS.train_batch_size,
            FLAGS.seed,
            step,
            limits,
        ),
        bert_tf.optimization.AdamWeightDecay(rate),
        num_train_steps,
        **bert_tf.flags.training_options(),
    )


def evaluation_batches(path, batch_size, limits):
    return bert_tf.data.pipelines.evaluation(
        [path],
        bert_tf.data.records.CLASSIFICATION,
        {"S": FLAGS.max_seq_length},
        batch_size,
        limits=limits,
    )


if __name__ == "__main__":
    bert_tf.flags.run(main)
