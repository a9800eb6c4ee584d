"""What the scripts that fine-tune share: their flags, and what these come to before a run."""

import contextlib
import os

from absl import flags

import bert_tf
from bert_tf import console
from bert_tf.errors import UserError

FLAGS = flags.FLAGS

flags.disclaim_key_flags()


def define_tuning_flags():
    """Model, casing, training, devices, the run's folder and its length."""
    bert_tf.cli.flags.define_model_flags()
    bert_tf.cli.flags.define_tokenizer_flags()
    bert_tf.cli.flags.define_training_flags()
    bert_tf.cli.flags.define_device_flags()
    flags.DEFINE_string("output_dir", None, "Folder for checkpoints, summaries and results.")
    flags.mark_flag_as_required("output_dir")
    flags.DEFINE_integer("predict_batch_size", 8, "Total batch size for prediction.", lower_bound=1)
    flags.DEFINE_float(
        "num_train_epochs", 3.0, "Number of times to go through the training set.", 0.0
    )
    flags.DEFINE_float("warmup_proportion", 0.1, "Share of the steps to warm up in.", 0.0, 1.0)


def recall_settings(name, load):
    """Without --do_train, what the run was trained with stands for the flags that are not given.

    Args:
      name: of the file of the script's settings, one of `files.SETTINGS`.
      load: function from --output_dir to the settings of the run there, None if it has none. They
        have `vocab_file`, and `flags()`: a dict of the values of other flags.

    Returns:
      These settings, None if there are none or the run is to train.

    Raises:
      UserError: if the folder holds the run of another script.
    """
    bert_tf.tasks.check_kind(FLAGS.output_dir, name)
    trained = None if FLAGS.do_train else load(FLAGS.output_dir)
    if trained:
        meant = {
            "bert_config_file": os.path.join(FLAGS.output_dir, bert_tf.files.CONFIG),
            "vocab_file": trained.vocab_file,
            **trained.flags(),
        }
        missing = [name for name in meant if not FLAGS[name].present]
        for name in missing:
            FLAGS[name].value = meant[name]
        if missing:
            console.info("as in %s: %s", FLAGS.output_dir, ", ".join(missing))
    return trained


def read_model():
    """Reads what the flags say of the model, and checks that it fits together.

    Returns:
      (`BertConfig`, `FullTokenizer`)

    Raises:
      UserError: if a file is missing or wrong, or --max_seq_length, --num_frozen_layers or the
        vocabulary do not fit the model.
    """
    bert_tf.cli.flags.resolve_model("bert_config_file", "vocab_file")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    bert_tf.tasks.check_length(FLAGS.max_seq_length, config)
    bert_tf.cli.flags.check_frozen_layers(config)
    infer_do_lower_case()
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    bert_tf.tasks.check_vocabulary(tokenizer.vocab, config, FLAGS.vocab_file)
    return config, tokenizer


def infer_do_lower_case():
    """Takes --do_lower_case, if it is not given, from what lies beside the first weights."""
    if not FLAGS.init_checkpoint or bert_tf.training.latest(FLAGS.output_dir):
        return
    said = bert_tf.checkpoints.read_metadata(FLAGS.init_checkpoint).get("do_lower_case")
    if said is None:
        bert_tf.tokenization.validate_case_matches_checkpoint(
            FLAGS.do_lower_case, FLAGS.init_checkpoint
        )
    elif said != FLAGS.do_lower_case and FLAGS["do_lower_case"].present:
        console.warning(
            "--do_lower_case=%s, and beside %s stands that it is %s",
            FLAGS.do_lower_case, FLAGS.init_checkpoint, said,
        )  # fmt: skip
    elif said != FLAGS.do_lower_case:
        FLAGS["do_lower_case"].value = said
        console.info("as beside %s: do_lower_case=%s", FLAGS.init_checkpoint, said)


def wanted_parts():
    """Which of the sets "train", "dev" and "test" the do_* flags ask for."""
    wanted = {
        "train": FLAGS.do_train,
        "dev": FLAGS.do_eval or (FLAGS.do_train and FLAGS.eval_steps > 0),
        "test": FLAGS.do_predict,
    }
    return [part for part, is_wanted in wanted.items() if is_wanted]


def check_input(of_files):
    """UserError if flags of files, whose names are given, and of tensorflow-datasets are mixed."""
    useless = of_files if FLAGS.tfds_name else ("tfds_data_dir", "tfds_splits")
    if given := [name for name in useless if FLAGS[name].present]:
        goes = "does not go with" if FLAGS.tfds_name else "wants"
        raise UserError(f"--{given[0]} {goes} --tfds_name")


def num_train_steps(count, what):
    """The steps of --num_train_epochs over `count` examples, which an error calls `what`."""
    steps = int(count / FLAGS.train_batch_size * FLAGS.num_train_epochs)
    if steps < 1:
        raise UserError(
            f"{count} {what} for {FLAGS.num_train_epochs} epochs make less than one batch of "
            f"{FLAGS.train_batch_size}; a smaller --train_batch_size is needed"
        )
    return steps


def make_optimizer(steps):
    """The optimizer of the training flags for so many steps, not built yet."""
    return bert_tf.cli.flags.make_optimizer(steps, int(steps * FLAGS.warmup_proportion))


def must_be_made(features, workers, runs=()):
    """Whether features have to be made; all workers must call it together, before the chief writes.

    Args:
      features: a `tasks.cache.FeatureCache`.
      workers: the `training.Workers`.
      runs: folders of the runs that train on them; a warning says so if one began with others.

    Raises:
      UserError: if workers disagree: they have other data, or see other folders.
    """
    # Else they would part after different numbers of steps.
    key = float(int(features.key[:10], 16))
    share, mean = workers.mean(float(bool(features.stale_reason)), key)
    if mean != key:
        raise UserError(f"{features.path}: other workers have other data or settings")
    if 0 < share < 1:
        raise UserError(
            f"{features.path} can be used as it is on some workers and not on others: all must see "
            "the same data and the same --output_dir"
        )
    if features.stale_reason and any(map(bert_tf.training.latest, runs)):
        console.warning(
            "the run in %s has begun with other training data or settings (%s); it goes on from "
            "there",
            FLAGS.output_dir, features.stale_reason,
        )  # fmt: skip
    return bool(features.stale_reason)


class Tuning:
    """What a script does with its sets once they are read; its own class says what is its own.

    That is `shape` and, where the base says so, attributes.

    Attributes:
      strategy, settings: as they are given.
      workers: the `training.Workers`.
      options: the `training.Options` of the flags.
      length_multiple: what the lengths of batches are rounded up to, None to pad them in full.
      paths: dict from each set to the file of its records; of the own class.
      counts: dict from each set to the number of its `unit`; of the own class.
    """

    unit = "examples"

    def __init__(self, strategy, settings, evaluates, metrics, pads=False):
        """Checks the flags of training.

        Args:
          strategy: a `tf.distribute.Strategy`.
          settings: those of the task.
          evaluates: whether --eval_batch_size is used.
          metrics: the names that --best_metric may have.
          pads: whether every batch is padded to --max_seq_length.
        """
        self.strategy, self.settings = strategy, settings
        self.workers = bert_tf.training.Workers(strategy)
        bert_tf.cli.flags.check_batch_sizes(
            strategy, train=FLAGS.do_train, eval=evaluates, predict=FLAGS.do_predict
        )
        self.options = bert_tf.cli.flags.training_options(strategy)
        bert_tf.training.check_metric(FLAGS.best_metric, metrics)
        self.length_multiple = None
        if not pads:
            self.length_multiple = bert_tf.training.length_multiple(
                strategy, self.options.xla, FLAGS.max_seq_length
            )

    def shape(self, split):
        """The schema of a set's records, its lengths and what its values must be below."""
        raise NotImplementedError

    @contextlib.contextmanager
    def tuned(self, make_task, folder, seed, labels=None):
        """Yields the `training.Trainer` of a run, trained and with the best weights as asked for.

        What is wrong with records is a UserError, in the block too.

        Args:
          make_task: function that makes the task.
          folder: of the run.
          seed: of its weights, dropout and order.
          labels: as `training.Trainer` takes them.
        """
        bert_tf.training.set_seed(seed)
        trainer = bert_tf.training.Trainer(
            make_task,
            self.strategy,
            folder,
            FLAGS.init_checkpoint,
            must_be_trained=not FLAGS.do_train,
            labels=labels,
        )
        if not FLAGS.best_metric and not FLAGS.do_train:
            bert_tf.training.log_best_checkpoint(folder)
        with bert_tf.data.records.naming_bad_records(self.paths.values()):
            if FLAGS.do_train:
                self._train(trainer, seed)
            if FLAGS.best_metric:
                trainer.use_best(FLAGS.best_metric)
            yield trainer

    def _train(self, trainer, seed):
        steps = num_train_steps(self.counts["train"], self.unit)
        schema, lengths, limits = self.shape("train")
        trainer.train(
            bert_tf.data.input_pipeline.TrainingInput(
                [self.paths["train"]],
                schema,
                lengths,
                FLAGS.train_batch_size,
                seed,
                limits,
                self.length_multiple,
            ),
            make_optimizer(steps),
            steps,
            self.options,
            self.batches("dev", FLAGS.eval_batch_size) if FLAGS.eval_steps else None,
        )

    def batches(self, split, batch_size):
        """All of a set in its order, as `Trainer.evaluate` and `predict_all` take it."""
        schema, lengths, limits = self.shape(split)
        return bert_tf.data.input_pipeline.EvaluationInput(
            [self.paths[split]],
            schema,
            lengths,
            batch_size,
            limits=limits,
            length_multiple=self.length_multiple,
        )
