#!/usr/bin/env python3
"""Fine-tunes BERT to tag words (named entities, parts of speech), evaluates it and predicts."""

import functools
import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.fine_tuning.define_tuning_flags()
# Names are written with capitals (paper, section 5.3): a cased model, unless the flag is given.
FLAGS.set_default("do_lower_case", False)
flags.DEFINE_string("data_dir", None, "Folder with train.txt, dev.txt and test.txt.")
flags.DEFINE_string("train_file", None, "Training set, if it is not that of data_dir.")
flags.DEFINE_string("dev_file", None, "Development set, if it is not that of data_dir.")
flags.DEFINE_string("test_file", None, "Test set, if it is not that of data_dir.")
flags.DEFINE_string(
    "word_column",
    None,
    "Column of the words, a number from 0, or -1 for the last; the first if not given. With "
    "tfds_name, the feature: tokens if not given.",
)
flags.DEFINE_string(
    "tag_column",
    None,
    "Column of the tags, the last if not given. With tfds_name, the feature: ner or tags if not "
    "given.",
)
flags.DEFINE_enum(
    "tag_scheme",
    None,
    ["iob1", "iob2", "iobes", "none"],
    "How the data mark where spans begin; none for tags without spans, as parts of speech. Found "
    "in the training set if not given.",
)
flags.DEFINE_enum(
    "learn_scheme",
    None,
    ["iob1", "iob2", "iobes"],
    "The scheme that the model learns, iob2 if not given.",
)
flags.DEFINE_enum(
    "output_scheme",
    None,
    ["iob1", "iob2", "iobes"],
    "The scheme that predictions are written in, that of the data if not given.",
)
flags.DEFINE_bool("skip_bad_rows", False, "Leave out sentences that cannot be used, and say so.")
flags.DEFINE_string("tfds_name", None, "Data set of tensorflow-datasets, as conll2003.")
flags.DEFINE_string("tfds_data_dir", None, "Where tensorflow-datasets keeps its data sets.")
flags.DEFINE_list(
    "tfds_splits",
    None,
    "Splits of that data set to take for training, development and test; found by their names if "
    "not given.",
)
flags.DEFINE_integer(
    "max_seq_length", 128, "Longest sequence in tokens; what is longer is read in several windows."
)
flags.DEFINE_integer(
    "doc_stride", None, "Tokens from one window to the next, half a window if not given.", 1
)
flags.DEFINE_bool(
    "document_context",
    False,
    "Read whole documents and not sentence by sentence; the data mark them by -DOCSTART-.",
)
flags.DEFINE_bool(
    "features_only",
    False,
    "Leave BERT as it is and train a two-layer BiLSTM on its features.",
)
flags.DEFINE_enum(
    "layer_combination",
    "concat_last_four",
    ["embeddings", "second_to_last", "last", "weighted_sum_last_four", "concat_last_four",
     "weighted_sum_all"],
    "What features_only takes of the layers.",
)  # fmt: skip
flags.DEFINE_integer(
    "feature_lstm_size", None, "Units of each direction of the BiLSTM, hidden_size if not given.", 1
)
flags.DEFINE_bool("do_train", False, "Whether to train, on the training set.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, on the development set.")
flags.DEFINE_bool("do_predict", False, "Whether to tag the test set.")
flags.DEFINE_bool("report", False, "Write eval_report.txt, with each label's figures.")
flags.DEFINE_bool(
    "pad_to_max_length",
    False,
    "Pad every batch to max_seq_length, as on a TPU, and not just to its longest sentence.",
)


def main():
    if not (FLAGS.do_train or FLAGS.do_eval or FLAGS.do_predict):
        raise bert_tf.UserError("one of --do_train, --do_eval and --do_predict must be set")
    tagging = bert_tf.tasks.token_classification
    trained = bert_tf.cli.fine_tuning.recall_settings(bert_tf.files.TAGGER, tagging.load_tags)
    config, tokenizer = bert_tf.cli.fine_tuning.read_model()
    # With many hosts it must come before TensorFlow's first operation, as reading a data set is.
    strategy = bert_tf.training.make_strategy(**bert_tf.cli.flags.device_options())
    sentences, tags = read_sentences(trained)
    settings = tagging.TagSettings(
        tagging.WindowConfig(FLAGS.max_seq_length, FLAGS.doc_stride, FLAGS.document_context),
        tags,
        FLAGS.do_lower_case,
        config,
        FLAGS.vocab_file,
        check_features(config),
    )
    job = Job(strategy, settings, sentences)
    with bert_tf.training.guard.exclusive_directory(FLAGS.output_dir, job.workers):
        job.workers.chief_first(
            lambda: tagging.settle_tags(FLAGS.output_dir, settings, write=FLAGS.do_train)
        )
        job.make_features(tokenizer)
        job.run()


def check_features(config):
    """What --features_only is given, as `TagSettings.on_features`; UserError if it does not fit."""
    if not FLAGS.features_only:
        for name in ("layer_combination", "feature_lstm_size"):
            if FLAGS[name].present:
                raise bert_tf.UserError(f"--{name} wants --features_only")
        return None
    bert_tf.modeling.layer_combination.layers_of(
        FLAGS.layer_combination, config.num_hidden_layers, "layer_combination"
    )
    begun = bert_tf.training.latest(FLAGS.output_dir)
    if FLAGS.do_train and not (FLAGS.init_checkpoint or begun):
        raise bert_tf.UserError(
            "--features_only wants an --init_checkpoint: the features of random weights say nothing"
        )
    for name in ("num_frozen_layers", "layer_decay"):
        if FLAGS[name].value != FLAGS[name].default:
            raise bert_tf.UserError(f"--{name}: with --features_only all layers are frozen")
    return {"way": FLAGS.layer_combination, "lstm_size": FLAGS.feature_lstm_size}


def read_sentences(trained):
    """Reads what the flags ask for.

    Args:
      trained: the `TagSettings` of the run if it is trained, None if not.

    Returns:
      (dict from "train", "dev" and "test" to the list of `Sentence`, the `Tags`)
    """
    tagging, source = bert_tf.tasks.token_classification, make_source()
    wanted = bert_tf.cli.fine_tuning.wanted_parts()
    bad = {part: bert_tf.tasks.BadRows(FLAGS.skip_bad_rows) for part in wanted}
    sentences = {part: source.read(part, bad[part]) for part in bad}
    tags = trained_tags(trained) if trained else find_tags(source, sentences.get("train"))
    if FLAGS.output_scheme:
        tagging.schemes.check_compatible("output_scheme", FLAGS.output_scheme, tags.scheme)
    for part in sentences:
        sentences[part] = tagging.valid_sentences(sentences[part], tags, bad[part])
        bad[part].tell("bad sentences left out")
        if not sentences[part]:
            raise bert_tf.UserError(f"{bad[part].first}; not a single sentence is left")
        if FLAGS.document_context and not any(x.leading_lines for x in sentences[part]):
            raise bert_tf.UserError(
                f"--document_context: {sentences[part][0].where} does not say where documents "
                "begin, by lines with -DOCSTART-"
            )
    return sentences, tags


def trained_tags(trained):
    """The `Tags` of a run that is not to train, in data that may be of another scheme."""
    tags = trained.tags
    if FLAGS.learn_scheme not in (None, tags.scheme):
        raise bert_tf.UserError(
            f"--learn_scheme={FLAGS.learn_scheme}, but the run in {FLAGS.output_dir} learned "
            f"{tags.scheme}"
        )
    if FLAGS.tag_scheme:
        bert_tf.tasks.token_classification.schemes.check_compatible(
            "tag_scheme", FLAGS.tag_scheme, tags.scheme
        )
        tags = tags._replace(data_scheme=FLAGS.tag_scheme)
    return tags


def find_tags(source, train):
    """The `Tags` of the training set, which is read for them if it is not asked for (None)."""
    tagging, bad = bert_tf.tasks.token_classification, bert_tf.tasks.BadRows(skip=True)
    sentences = train or source.read("train", bad)
    tags = tagging.infer_tags(sentences, FLAGS.tag_scheme, FLAGS.learn_scheme)
    if not train:
        tagging.valid_sentences(sentences, tags, bad)
        bad.tell("the tags are those of the training set, but for its bad sentences")
    bert_tf.console.info(
        "the data are tagged by %s, the model learns %s: %s",
        tags.data_scheme, tags.scheme, ", ".join(tags.names[:50]),
    )  # fmt: skip
    return tags


def make_source():
    """What the data flags say: files, or tensorflow-datasets."""
    tagging = bert_tf.tasks.token_classification
    bert_tf.cli.fine_tuning.check_input(("data_dir", "train_file", "dev_file", "test_file"))
    if FLAGS.tfds_name:
        if len(FLAGS.tfds_splits or ()) > 3:
            raise bert_tf.UserError("--tfds_splits: those for training, development and test")
        splits = dict(zip(("train", "dev", "test"), FLAGS.tfds_splits or (), strict=False))
        return tagging.TfdsSentences(
            FLAGS.tfds_name,
            FLAGS.tfds_data_dir,
            splits,
            FLAGS.word_column or "tokens",
            FLAGS.tag_column,
        )
    columns = {}
    for name, usual in (("word_column", "0"), ("tag_column", "-1")):
        try:
            columns[name] = int(FLAGS[name].value or usual)
        except ValueError:
            raise bert_tf.UserError(
                f"--{name}={FLAGS[name].value}: the number of a column was expected"
            ) from None
    paths = {"train": FLAGS.train_file, "dev": FLAGS.dev_file, "test": FLAGS.test_file}
    return tagging.ColumnFiles(FLAGS.data_dir, paths, **columns)


class Job(bert_tf.cli.fine_tuning.Tuning):
    """A run: its data, its features and its model."""

    unit = "sequences"

    def __init__(self, strategy, settings, sentences):
        metrics = bert_tf.tasks.token_classification.metric_names(settings.tags)
        super().__init__(strategy, settings, "dev" in sentences, metrics, FLAGS.pad_to_max_length)
        if settings.on_features:
            frozen = settings.config.num_hidden_layers
            self.options = self.options._replace(num_frozen_layers=frozen)
        self.sentences = sentences
        stems = {"train": "train", "dev": "eval", "test": "predict"}
        self.paths = {part: output_file(f"{stems[part]}.tf_record") for part in sentences}
        self.counts = {}

    def make_features(self, tokenizer):
        """Makes the features of each set, unless they are there."""
        settings = self.settings
        for part, path in self.paths.items():

            def look(path=path, part=part):
                return bert_tf.tasks.token_classification.TagFeatures(
                    path, self.sentences[part], settings.tags, tokenizer, settings.cut
                )

            features = look()
            runs = [FLAGS.output_dir] if part == "train" else []
            if bert_tf.cli.fine_tuning.must_be_made(features, self.workers, runs):
                self.workers.chief_first(features.write)
                features = features if self.workers.is_chief else look()
            if features.stale_reason:
                raise bert_tf.UserError(
                    f"{path} is of other data than this worker has: {features.stale_reason}"
                )
            self.counts[part] = features.note["windows"]

    def run(self):
        """Does what the do_* flags say."""
        settings = self.settings
        make_task = functools.partial(
            bert_tf.tasks.token_classification.TaggingTask,
            settings.config,
            settings.tags,
            FLAGS.max_seq_length,
            bert_tf.cli.flags.dtype_policy(),
            settings.on_features,
        )
        with self.tuned(make_task, FLAGS.output_dir, FLAGS.seed, settings.tags.names) as trainer:
            if FLAGS.do_eval:
                self.evaluate(trainer)
            if FLAGS.do_predict:
                self.predict(trainer)

    def evaluate(self, trainer):
        """Writes eval_results.txt, and eval_report.txt if it is asked for."""
        scoring, reports = bert_tf.tasks.token_classification.scoring, []

        def report(predictions):
            true, found = trainer.task.tags(predictions, "tag_ids"), trainer.task.tags(predictions)
            reports.append(scoring.classification_report(true, found, self.settings.tags.scheme))

        def write():
            bert_tf.tasks.write_eval_results(output_file("eval_results.txt"), results)
            for text in reports:
                bert_tf.console.info("%s", text)
                bert_tf.files.write_text(output_file("eval_report.txt"), text)

        results = trainer.evaluate(
            self.batches("dev", FLAGS.eval_batch_size),
            total=self.counts["dev"],
            also=report if FLAGS.report else None,
        )
        self.workers.chief_first(write)

    def predict(self, trainer):
        """Writes test_predictions.txt: the columns of the test set, and behind them the tags."""
        predictions = trainer.predict_all(
            self.batches("test", FLAGS.predict_batch_size), "predicting", self.counts["test"]
        )
        tags = self.settings.tags
        scheme = FLAGS.output_scheme or tags.data_scheme
        found = [
            bert_tf.tasks.token_classification.schemes.convert_tags(sentence, tags.scheme, scheme)
            for sentence in trainer.task.tags(predictions)
        ]

        def write():
            path = output_file("test_predictions.txt")
            bert_tf.tasks.token_classification.write_columns(path, self.sentences["test"], found)
            bert_tf.console.info("wrote %s, tagged by %s", path, scheme)

        self.workers.chief_first(write)

    def shape(self, part):
        schema, lengths = bert_tf.data.records.TAGGING, {"S": FLAGS.max_seq_length}
        settings = self.settings
        limits = bert_tf.data.records.limits(
            schema, settings.config, lengths, len(settings.tags.names)
        )
        return schema, lengths, limits


def output_file(name):
    return os.path.join(FLAGS.output_dir, name)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
