#!/usr/bin/env python3
"""Fine-tunes BERT to classify or score a text or a pair of texts, evaluates it and predicts."""

import os

from absl import flags

import bert_tf
from bert_tf.flags import FLAGS

bert_tf.flags.define_model_flags()
bert_tf.flags.define_tokenizer_flags()
bert_tf.flags.define_training_flags()
bert_tf.flags.define_device_flags()
flags.DEFINE_string("data_dir", None, "Folder with the files of the task.")
flags.DEFINE_string(
    "task_name",
    None,
    "Task: cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-matched, mnli-mismatched, qnli, rte, wnli, "
    "ax, xnli, or tsv for files of your own.",
)
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
flags.DEFINE_string("xnli_language", "zh", "Ours: language of XNLI.")
# A task of one's own.
flags.DEFINE_string("train_file", None, "Ours: training set if it is not train.tsv in data_dir.")
flags.DEFINE_string("dev_file", None, "Ours: development set if it is not dev.tsv in data_dir.")
flags.DEFINE_string("test_file", None, "Ours: test set if it is not test.tsv in data_dir.")
flags.DEFINE_enum(
    "task_type",
    None,
    ["classification", "regression", "multi_label"],
    "Ours: what to learn of files of your own: one of the labels, a score, or any of the labels; "
    "classification if not given.",
)
flags.DEFINE_list(
    "text_columns",
    None,
    "Ours: column of the text, or of both texts, by name or by number from 0.",
)
flags.DEFINE_list(
    "label_column",
    None,
    "Ours: column of the label, or with multi_label a column of 0 and 1 for each label.",
)
flags.DEFINE_string("id_column", None, "Ours: column to know the predictions by.")
flags.DEFINE_list(
    "labels", None, "Ours: the labels in the order of their ids, those of the training set if not."
)
flags.DEFINE_string("label_separator", ",", "Ours: what stands between the labels of one cell.")
flags.DEFINE_enum(
    "header", "auto", ["auto", "yes", "no"], "Ours: whether the first line names the columns."
)
flags.DEFINE_bool("skip_bad_rows", False, "Ours: leave out rows that cannot be used, and say so.")
flags.DEFINE_string("tfds_name", None, "Ours: data set of tensorflow-datasets, as glue/mrpc.")
flags.DEFINE_string("tfds_data_dir", None, "Ours: where tensorflow-datasets keeps its data sets.")
flags.DEFINE_list(
    "tfds_splits",
    None,
    "Ours: splits of that data set to take for training, development and test, as "
    "train[:90%],train[90%:],test; found by their names if not given.",
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

# The flags of the data that a task whose files are known has no use for.
OWN = ("task_type", "text_columns", "label_column", "id_column", "labels", "header",
       "label_separator")  # fmt: skip


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
    source = make_source(trained)
    if FLAGS.glue_submission and not source.task.submission:
        raise bert_tf.UserError("--glue_submission: this task is not on GLUE's leaderboard")
    if FLAGS.glue_submission and FLAGS.skip_bad_rows:
        raise bert_tf.UserError("--glue_submission: the leaderboard wants all rows, none skipped")
    data = bert_tf.tasks.read_data(source, wanted_parts(), trained, FLAGS.skip_bad_rows)
    settings = bert_tf.tasks.Settings(
        data.labels,
        FLAGS.max_seq_length,
        FLAGS.do_lower_case,
        config,
        FLAGS.vocab_file,
        data.task.task_type,
    )
    strategy = bert_tf.training.make_strategy(**bert_tf.flags.device_options())
    workers = bert_tf.training.Workers(strategy)
    with bert_tf.training.guard.only_one(FLAGS.output_dir, workers):
        workers.chief_first(
            lambda: bert_tf.tasks.settle(FLAGS.output_dir, settings, write=FLAGS.do_train)
        )
        run(strategy, settings, data, tokenizer)


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


def make_source(trained):
    """What the data flags say: files of a task, files of one's own, or tensorflow-datasets."""
    layout = bert_tf.tasks.Layout(
        tuple(FLAGS.text_columns or ()),
        tuple(FLAGS.label_column or ()),
        FLAGS.id_column,
        FLAGS.header,
        FLAGS.label_separator,
    )
    labels = tuple(FLAGS.labels) if FLAGS.labels else None
    task_type = FLAGS.task_type or (trained and trained.task_type)
    of_files = ("task_name", "data_dir", "train_file", "dev_file", "test_file", "header")
    useless = of_files if FLAGS.tfds_name else ("tfds_data_dir", "tfds_splits")
    if given := [name for name in useless if FLAGS[name].present]:
        goes = "does not go with" if FLAGS.tfds_name else "wants"
        raise bert_tf.UserError(f"--{given[0]} {goes} --tfds_name")
    if len(FLAGS.tfds_splits or ()) > 3:
        raise bert_tf.UserError("--tfds_splits: those for training, development and test, no more")
    if FLAGS.tfds_name:
        splits = dict(zip(("train", "dev", "test"), FLAGS.tfds_splits or (), strict=False))
        return bert_tf.tasks.TfdsSource(
            FLAGS.tfds_name, FLAGS.tfds_data_dir, task_type, labels, layout, splits
        )
    paths = {"train": FLAGS.train_file, "dev": FLAGS.dev_file, "test": FLAGS.test_file}
    if not (FLAGS.task_name or any(paths.values())):
        raise bert_tf.UserError("--task_name, --train_file or --tfds_name must say what to read")
    task = bert_tf.tasks.find_task(FLAGS.task_name or "tsv", FLAGS.xnli_language)
    if task.layout is not None:
        task = bert_tf.tasks.own_task(task_type, labels, layout)
    elif given := [name for name in OWN if FLAGS[name].present]:
        raise bert_tf.UserError(
            f"--{given[0]} is for files of your own; those of "
            f"--task_name={FLAGS.task_name} are known"
        )
    return bert_tf.tasks.FileSource(task, FLAGS.data_dir, paths)


def run(strategy, settings, data, tokenizer):
    bert_tf.training.set_seed(FLAGS.seed)
    bert_tf.flags.check_batch_sizes(
        strategy, train=FLAGS.do_train, eval=data.splits("dev"), predict=FLAGS.do_predict
    )
    options = bert_tf.flags.training_options(strategy)
    kind = bert_tf.tasks.KINDS[settings.task_type]
    trainer = bert_tf.training.Trainer(
        lambda: kind(
            settings.config, settings.num_outputs, bert_tf.flags.dtype_policy(), data.task.metrics
        ),
        strategy,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
        must_be_trained=not FLAGS.do_train,
    )
    trainer.check_metric(FLAGS.best_metric)
    stems = {"train": "train", "dev": "eval", "test": "predict"}
    paths = {
        split: output_file(stems[bert_tf.tasks.part_of(split)], split, ".tf_record")
        for split in data.examples
    }
    trainer.workers.chief_first(lambda: write_records(paths, data, tokenizer, kind))
    with bert_tf.data.records.reading(paths.values()):
        if FLAGS.do_train:
            train(trainer, paths, len(data.examples["train"]), options, settings)
        if FLAGS.best_metric:
            trainer.use_best(FLAGS.best_metric)
        for split in data.splits("dev") if FLAGS.do_eval else ():
            batches = evaluation_data(paths[split], FLAGS.eval_batch_size, settings)
            evaluate(trainer, batches, data, split)
        for split in data.splits("test"):
            batches = evaluation_data(paths[split], FLAGS.predict_batch_size, settings)
            predict(trainer, batches, data, split)


def output_file(stem, split, ending):
    """The path of a file of results, such as eval_results_mismatched.txt of "dev_mismatched"."""
    return os.path.join(FLAGS.output_dir, bert_tf.tasks.result_name(stem, split, ending))


def write_records(paths, data, tokenizer, kind):
    """Has the features of each split in the output folder, under the release's names."""
    for split, path in paths.items():
        bert_tf.tasks.fresh_features(
            path, data.examples[split], data.labels, tokenizer, FLAGS.max_seq_length, kind
        )


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
            *shape_of(settings),
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


def evaluate(trainer, batches, data, split):
    """Writes eval_results.txt, and eval_report.txt if it is asked for."""
    reports = []

    def report(predictions):
        true, found = trainer.task.compared(predictions)
        reports.append(bert_tf.tasks.metrics.report(true, found, data.labels))

    def write():
        bert_tf.tasks.write_eval_results(output_file("eval_results", split, ".txt"), results)
        for text in reports:
            bert_tf.console.info("%s", text)
            bert_tf.files.write_text(output_file("eval_report", split, ".txt"), text)

    results = trainer.evaluate(
        batches,
        total=len(data.examples[split]),
        name=bert_tf.tasks.result_name("eval", split, ""),
        also=report if FLAGS.report else None,
    )
    trainer.workers.chief_first(write)


def predict(trainer, batches, data, split):
    """Writes test_results.tsv, test_predictions.tsv and what the leaderboard wants."""
    examples = data.examples[split]
    predictions = trainer.predict_all(batches, "predicting", len(examples))
    answers = predictions[trainer.task.answer_name]
    ids = [example.id for example in examples]
    predicted = bert_tf.tasks.decided(
        trainer.task.decide(predictions), data.labels, FLAGS.label_separator
    )

    def write():
        bert_tf.tasks.write_test_results(output_file("test_results", split, ".tsv"), answers)
        bert_tf.tasks.write_predictions(
            output_file("test_predictions", split, ".tsv"), ids, predicted, data.labels, answers
        )
        if FLAGS.glue_submission:
            bert_tf.tasks.write_submission(FLAGS.glue_submission, data.task, split, ids, predicted)

    trainer.workers.chief_first(write)


def evaluation_data(path, batch_size, settings):
    return bert_tf.data.pipelines.Evaluation(
        [path], *shape_of(settings), batch_size, limits=limits_of(settings)
    )


def shape_of(settings):
    """The schema of the records, and its lengths."""
    lengths = {"S": FLAGS.max_seq_length, "L": settings.num_outputs}
    return bert_tf.tasks.KINDS[settings.task_type].schema, lengths


def limits_of(settings):
    schema, lengths = shape_of(settings)
    return bert_tf.data.records.limits(schema, settings.config, lengths, settings.num_outputs)


if __name__ == "__main__":
    bert_tf.flags.run(main)
