#!/usr/bin/env python3
"""Fine-tunes BERT to find the answer to a question in a text, answers questions and scores them."""

import contextlib
import dataclasses
import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.fine_tuning.define_tuning_flags()
flags.DEFINE_string("train_file", None, "JSON file of SQuAD for training, as train-v1.1.json.")
flags.DEFINE_string(
    "predict_file", None, "JSON file of SQuAD with the questions to answer, as dev-v1.1.json."
)
flags.DEFINE_integer(
    "max_seq_length",
    384,
    "Longest sequence of question and text in tokens; a longer text is read in several windows.",
)
flags.DEFINE_integer("doc_stride", 128, "Tokens from one window to the next.", lower_bound=1)
flags.DEFINE_integer(
    "max_query_length", 64, "The most tokens of a question; longer ones are cut.", lower_bound=1
)
flags.DEFINE_bool("do_train", False, "Whether to train, on train_file.")
flags.DEFINE_bool("do_predict", False, "Whether to answer the questions of predict_file.")
flags.DEFINE_bool("do_eval", False, "Ours: whether to score the answers to predict_file.")
flags.DEFINE_integer(
    "n_best_size",
    20,
    "How many answers to write to nbest_predictions.json, and how many starts and ends of each "
    "window to look for them among.",
    lower_bound=1,
)
flags.DEFINE_integer("max_answer_length", 30, "The most tokens of an answer.", lower_bound=1)
flags.DEFINE_bool(
    "verbose_logging",
    False,
    "Whether to tell each candidate whose text is not found in its words.",
)
flags.DEFINE_bool(
    "version_2_with_negative", False, "Whether questions may have no answer, as in SQuAD 2.0."
)
flags.DEFINE_float(
    "null_score_diff_threshold",
    0.0,
    "Nothing is answered where that scores more than this above the best answer.",
)
flags.DEFINE_bool(
    "find_null_score_diff_threshold",
    False,
    "Ours: take the threshold with the best F1 on predict_file, which must have the answers.",
)
flags.DEFINE_enum(
    "answer_alignment",
    "release",
    ["release", "offsets"],
    "Ours: how answers and tokens are matched: by words and what they are made of, as in the "
    "release, or exactly, by characters.",
)
flags.DEFINE_integer(
    "num_processes",
    0,
    "Ours: how many processes make the features; 0 for one a core where there are many.",
    lower_bound=0,
)
flags.DEFINE_string("tfds_name", None, "Ours: data set of tensorflow-datasets, as squad/v1.1.")
flags.DEFINE_string("tfds_data_dir", None, "Ours: where tensorflow-datasets keeps its data sets.")
flags.DEFINE_list(
    "tfds_splits",
    None,
    "Ours: splits of that data set for training and prediction, as train[:90%],train[90%:]; "
    "train,validation if not given.",
)


def main():
    if not (FLAGS.do_train or FLAGS.do_predict or FLAGS.do_eval):
        raise bert_tf.UserError("one of --do_train, --do_predict and --do_eval must be set")
    squad = bert_tf.tasks.question_answering
    bert_tf.cli.fine_tuning.recall_settings(bert_tf.files.SPANS, squad.load_spans)
    config, tokenizer = bert_tf.cli.fine_tuning.read_model()
    if FLAGS.find_null_score_diff_threshold and not FLAGS.version_2_with_negative:
        raise bert_tf.UserError(
            "--find_null_score_diff_threshold wants --version_2_with_negative: else there is "
            "always an answer"
        )
    if FLAGS.find_null_score_diff_threshold and not (FLAGS.do_predict or FLAGS.do_eval):
        raise bert_tf.UserError("--find_null_score_diff_threshold wants --do_predict or --do_eval")
    settings = squad.SpanSettings(
        from_flags(squad.WindowConfig).check(),
        from_flags(squad.DecodingConfig),
        FLAGS.do_lower_case,
        config,
        FLAGS.vocab_file,
    )
    # Before the data are read: with many hosts it must come before TensorFlow's first operation.
    strategy = bert_tf.training.make_strategy(**bert_tf.cli.flags.device_options())
    workers = bert_tf.training.Workers(strategy)
    sources = {part: make_source(part) for part in wanted_parts()}
    surveys = {
        part: squad.survey(
            source,
            purpose_of(part),
            FLAGS.version_2_with_negative,
            settings.cut.by_offsets,
        )
        for part, source in sources.items()
    }
    with bert_tf.training.guard.exclusive_directory(FLAGS.output_dir, workers):
        workers.chief_first(
            lambda: squad.settle_spans(FLAGS.output_dir, settings, write=FLAGS.do_train)
        )
        run(strategy, workers, settings, sources, surveys, tokenizer)


def from_flags(kind):
    """A dataclass whose fields are flags."""
    return kind(**{field.name: FLAGS[field.name].value for field in dataclasses.fields(kind)})


def wanted_parts():
    """Which of the sets the flags ask for."""
    predicts = FLAGS.do_predict or is_scored()
    return [part for part, on in (("train", FLAGS.do_train), ("predict", predicts)) if on]


def is_scored():
    """Whether the answers of the data are wanted beside those that are predicted."""
    while_training = FLAGS.do_train and FLAGS.eval_steps > 0
    return FLAGS.do_eval or while_training or FLAGS.find_null_score_diff_threshold


def purpose_of(part):
    return "train" if part == "train" else "eval" if is_scored() else "predict"


def make_source(part):
    """What the data flags say: a file, or tensorflow-datasets."""
    bert_tf.cli.fine_tuning.check_input((f"{part}_file",))
    if FLAGS.tfds_name:
        splits = FLAGS.tfds_splits or [None, None]
        if len(splits) != 2:
            raise bert_tf.UserError("--tfds_splits: one for training and one for prediction")
        split = splits[part == "predict"]
        return bert_tf.tasks.question_answering.SpanSource(
            FLAGS.tfds_name, part, FLAGS.tfds_data_dir, split
        )
    path = FLAGS[f"{part}_file"].value
    if not path:
        raise bert_tf.UserError(f"--{part}_file or --tfds_name must say what to read")
    return bert_tf.tasks.question_answering.JsonSource(path, f"{part}_file")


def run(strategy, workers, settings, sources, surveys, tokenizer):
    squad = bert_tf.tasks.question_answering
    bert_tf.training.set_seed(FLAGS.seed)
    bert_tf.cli.flags.check_batch_sizes(
        strategy,
        train=FLAGS.do_train,
        eval=FLAGS.do_train and FLAGS.eval_steps > 0,
        predict=FLAGS.do_predict or FLAGS.do_eval,
    )
    options = bert_tf.cli.flags.training_options(strategy)
    asked = None
    if "predict" in sources:
        asked = squad.AnswerExtractor(
            sources["predict"], tokenizer, settings.cut, settings.choice, FLAGS.verbose_logging
        )
    trainer = bert_tf.training.Trainer(
        lambda: squad.SpanTask(
            settings.config,
            settings.choice,
            bert_tf.cli.flags.dtype_policy(),
            asked,
        ),
        strategy,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
        must_be_trained=not FLAGS.do_train,
    )
    trainer.check_metric(FLAGS.best_metric)
    if not FLAGS.best_metric and not FLAGS.do_train:
        bert_tf.training.log_best_checkpoint(FLAGS.output_dir)
    stems = {"train": "train", "predict": "eval"}
    paths = {part: output_file(f"{stems[part]}.tf_record") for part in sources}

    windows = {
        part: squad.WindowCache(
            path,
            sources[part],
            surveys[part],
            tokenizer,
            settings.cut,
            part == "train",
            FLAGS.num_processes,
        )
        for part, path in paths.items()
    }
    for part, kept in windows.items():
        runs = [FLAGS.output_dir] if part == "train" else ()
        if bert_tf.cli.fine_tuning.must_be_made(kept, workers, runs):
            workers.chief_first(kept.write)
    with bert_tf.data.records.naming_bad_records(paths.values()):
        if FLAGS.do_train:
            train(trainer, paths, surveys["train"].questions, options, settings)
        if FLAGS.do_predict or FLAGS.do_eval:
            predict(trainer, windows["predict"], asked, settings)


def output_file(name):
    return os.path.join(FLAGS.output_dir, name)


def train(trainer, paths, num_questions, options, settings):
    num_train_steps = bert_tf.cli.fine_tuning.num_train_steps(num_questions, "questions")
    schema = bert_tf.data.records.SQUAD_TRAINING
    trainer.train(
        bert_tf.data.input_pipeline.TrainingInput(
            [paths["train"]],
            schema,
            {"S": FLAGS.max_seq_length},
            FLAGS.train_batch_size,
            FLAGS.seed,
            limits_of(schema, settings),
        ),
        bert_tf.cli.fine_tuning.make_optimizer(num_train_steps),
        num_train_steps,
        options,
        evaluation_data(paths["predict"], FLAGS.eval_batch_size, settings)
        if FLAGS.eval_steps
        else None,
    )


def predict(trainer, windows, asked, settings):
    """Writes predictions.json and the files beside it, and eval_results.txt."""
    if FLAGS.best_metric:
        trainer.use_best(FLAGS.best_metric)
    data = evaluation_data(windows.path, FLAGS.predict_batch_size, settings)
    results = bert_tf.tasks.question_answering.Results(settings.choice)
    with contextlib.ExitStack() as stack:
        if writes := FLAGS.do_predict and trainer.workers.is_chief:
            stack.enter_context(results.writing(FLAGS.output_dir))
        results.collect(asked.answers(trainer.predict(data, "predicting", windows.count)))
        asked.finder.tell()
        threshold = None
        if FLAGS.find_null_score_diff_threshold:
            threshold = results.best_threshold()
        if writes:
            results.write(threshold)

    def write():
        if threshold is not None:
            keep_threshold(settings, threshold)
        if FLAGS.do_eval:
            found = results.score(threshold).results()
            found = {f"eval_{name}": value for name, value in found.items()}
            found["global_step"] = trainer.step
            trainer.write_curves(found)
            bert_tf.tasks.write_eval_results(output_file("eval_results.txt"), found)

    trainer.workers.chief_first(write)


def keep_threshold(settings, threshold):
    """Leaves the threshold with the model, for later predictions and for an export."""
    choice = dataclasses.replace(settings.choice, null_score_diff_threshold=threshold)
    settings = settings._replace(choice=choice)
    bert_tf.tasks.question_answering.save_spans(FLAGS.output_dir, settings)
    if FLAGS.best_metric:  # the weights that it was found with
        folder = os.path.join(FLAGS.output_dir, bert_tf.training.checkpointing.BEST)
        bert_tf.tasks.question_answering.save_spans(folder, settings)


def evaluation_data(path, batch_size, settings):
    schema = bert_tf.data.records.SQUAD
    return bert_tf.data.input_pipeline.EvaluationInput(
        [path],
        schema,
        {"S": FLAGS.max_seq_length},
        batch_size,
        limits=limits_of(schema, settings),
    )


def limits_of(schema, settings):
    return bert_tf.data.records.limits(schema, settings.config, {"S": FLAGS.max_seq_length})


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
