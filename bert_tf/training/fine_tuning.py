"""`fine_tune`: train, evaluate and predict with any task, from options to result files."""

import dataclasses
import os

from bert_tf import checkpoints, console
from bert_tf.configs.task import check_length
from bert_tf.configs.train import FineTuneConfig
from bert_tf.data import input_pipeline, record_checks
from bert_tf.data.features import FeatureCache, digest
from bert_tf.data.rows import base_split
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.optimization import make_optimizer
from bert_tf.tokenization.settings import extra_settings
from bert_tf.training import checkpointing
from bert_tf.training.callbacks import Epochs
from bert_tf.training.checkpointing import check_metric, log_best_checkpoint
from bert_tf.training.loop import exclusive_directory
from bert_tf.training.results import result_file, result_name
from bert_tf.training.run_record import RunRecord
from bert_tf.training.strategy import (
    Workers,
    check_batch_sizes,
    make_strategy,
    set_seed,
    use_xla,
)
from bert_tf.training.task import TaskSpec
from bert_tf.training.trainer import Trainer

# The names of the feature files, as in the release.
_STEMS = {"train": "train", "dev": "eval", "test": "predict"}


def fine_tune(spec: TaskSpec, config: FineTuneConfig, command_line: str | None = None) -> dict:
    """Train, evaluate and predict with a `TaskSpec`, as the run_*.py scripts do.

    >>> from bert_tf.configs import FineTuneConfig, ModelConfig
    >>> from bert_tf.tasks.classification.options import ClassificationConfig
    >>> from bert_tf.tasks.registry import TASKS
    >>> task = ClassificationConfig(task_name="MRPC", data_dir="glue/MRPC")
    >>> model = ModelConfig(model="uncased_L-12_H-768_A-12")
    >>> config = FineTuneConfig("out", task, model, do_train=True, do_eval=True)
    >>> bert_tf.training.fine_tune(TASKS["classification"], config)
    {'dev': {'eval_accuracy': ..., 'global_step': 343}}

    A run resumes from its newest checkpoint in `config.output_dir`, where `run.json` records how it
    was made, including the `command_line` (None from Python).

    Returns:
      Dict from each evaluated split to its metrics.

    Raises:
      UserError: if an option or a file is not valid.
    """
    config.validate()
    files.check_all_reachable(config)
    spec.config_class.check_folder(config.output_dir)
    stored = None if config.do_train else spec.config_class.load(config.output_dir)
    config = _completed(config, stored)
    check_run(config)
    model = load_model(config, spec.config_class)
    # With several hosts this must come before TensorFlow's first operation, such as reading data.
    strategy = make_strategy(**dataclasses.asdict(config.device))
    data = spec.read(config.task, model, config.splits, stored)
    data.config = dataclasses.replace(data.config, **extra_settings(model.tokenizer_settings))
    data.config = data.config.resumed(config.output_dir)
    run = Run(spec, config, data, strategy, model, command_line)
    with exclusive_directory(config.output_dir, run.workers, config.do_train):
        metrics = run.run()
        run.workers.chief_first(lambda: run.record.finish(metrics))
        return metrics


def check_run(config, bert_config=None):
    """Check options that depend on each other and, if given, on the model."""
    config.check()
    config.task.check(config)
    if bert_config:
        config.train.check_frozen_layers(bert_config)


def _completed(config, stored):
    """Fill in missing options from the trained model, and log which."""
    task_config, model = config.task.resolve(stored), config.model
    if stored:
        values = {
            "bert_config_file": os.path.join(config.output_dir, files.CONFIG),
            "vocab_file": stored.vocab_file,
            "do_lower_case": stored.do_lower_case,
        }
        missing = {name: x for name, x in values.items() if getattr(model, name) is None}
        model = dataclasses.replace(model, **missing)
        names = [
            x
            for x in task_config.saved_options()
            if getattr(config.task, x) != getattr(task_config, x)
        ]
        if names := [*missing, *names]:
            console.info("from %s: %s", config.output_dir, ", ".join(names))
    return dataclasses.replace(config, task=task_config, model=model)


def load_model(config, config_class):
    """Return the `PretrainedFiles` of a run; check that they match each other and the options."""
    stored = config_class.load(config.output_dir)
    is_stored = stored and (not config.do_train or checkpointing.latest(config.output_dir))
    model = checkpoints.resolve(
        config.model,
        run_settings=stored.tokenizer_settings if is_stored else None,
        default_lower_case=config_class.do_lower_case,
    )
    check_length(config.task.max_seq_length, model.bert_config)
    config.train.check_frozen_layers(model.bert_config)
    _ = model.tokenizer  # reports errors in the vocabulary before the data are read
    return model


class Run:
    """A run of `fine_tune`; `folder` has its files."""

    def __init__(
        self, spec, config, data, strategy, model, command_line=None, keras_model=None, callbacks=()
    ):
        """Prepare a run.

        Args:
          spec: the `TaskSpec`.
          config: the `FineTuneConfig`.
          data: the `TaskData`.
          strategy: the `tf.distribute.Strategy`.
          model: the `PretrainedFiles`, or an object with the same `tokenizer` and `checkpoint`.
          command_line: the command, for the record, or None.
          keras_model: a model with its initial weights; None to make it.
          callbacks: Keras callbacks, called at the end of each epoch if there is a `keras_model`.
        """
        self.spec, self.config, self.data = spec, config, data
        self.keras_model, self.callbacks = keras_model, callbacks
        self.strategy, self.model = strategy, model
        self.workers = Workers(strategy)
        self.record = RunRecord(config, data.data_files, model, command_line)
        train = config.train
        predicts = config.do_predict or (config.do_eval and data.evaluates_predictions)
        check_batch_sizes(train, strategy, config.do_train, "dev" in config.splits, predicts)
        check_metric(train.best_metric, data.metric_names)
        self.length_multiple = None
        self.folder, self.trainer = config.output_dir, None
        if config.do_train and (count := data.num_train_examples()) is not None:
            train.num_train_steps(count, data.unit)  # at least one batch
        self.paths = {
            split: result_file(config.output_dir, _STEMS[base_split(split)], split, ".tf_record")
            for split in data.examples
        }
        self._caches = {}

    @property
    def weights_folder(self):
        """The folder of the weights: `folder`, or the subfolder of the best checkpoint."""
        is_best = self.config.train.best_metric
        return os.path.join(self.folder, checkpointing.BEST) if is_best else self.folder

    def save_config(self):
        if self.config.do_train:
            self.workers.chief_first(lambda: self.data.config.save_changes(self.folder))

    def make_features(self):
        """Write the features of each split, unless they can be reused."""
        for split, path in self.paths.items():
            features = self.data.features(split, self.model.tokenizer)
            cache = self._caches[split] = FeatureCache(path, features)
            if self._must_rebuild(split, cache):
                self.workers.chief_first(cache.rebuild)
                if not self.workers.is_chief:
                    cache.reload()
            if cache.stale_reason:
                raise UserError(f"{path} was made from different data: {cache.stale_reason}")
            if features.log_truncated:
                features.log_truncated(split, features.counts)
        train = self.config.train
        if not train.pad_to_max_length:
            xla = self.config.do_train and use_xla(train.xla, self.strategy)
            if xla:  # unless there are few steps
                xla = use_xla(train.xla, self.strategy, self._num_train_steps())
            length = self.data.config.max_seq_length
            self.length_multiple = input_pipeline.length_multiple(self.strategy, xla, length)
        if train.bucket_by_length and self.length_multiple is None:
            console.warning(
                "`bucket_by_length` has no effect, because batches are padded to `max_seq_length`"
            )

    def _num_train_steps(self):
        (split,) = self.data.splits("train")
        train = self.config.train
        if self.keras_model is not None:  # whole batches per epoch, as in Keras
            count, size = self._count(split), train.train_batch_size
            return -(-count // size) * int(train.num_train_epochs)
        num_examples = self.data.num_train_examples(self._caches[split].features)
        return train.num_train_steps(num_examples, self.data.unit)

    def _must_rebuild(self, split, cache):
        """Return whether to rebuild the features; all workers must call this together."""
        # With different data, the workers would run different numbers of steps.
        key = float(int(cache.key[:10], 16))
        stale_share, mean_key = self.workers.mean(float(bool(cache.stale_reason)), key)
        if mean_key != key:
            raise UserError(f"{cache.path}: the workers have different data or options")
        if 0 < stale_share < 1:
            raise UserError(
                f"{cache.path} is up to date on some workers only: all must see the same data "
                "and the same `output_dir`"
            )
        if cache.stale_reason and split == "train" and checkpointing.latest(self.folder):
            console.warning(
                "the run in %s continues, but its training data may have changed; %s: %s",
                self.folder, cache.path, cache.stale_reason,
            )  # fmt: skip
        return bool(cache.stale_reason)

    def _count(self, split):
        return self._caches[split].features.counts["records"]

    def _input_options(self, split):
        record_format = self._caches[split].features.record_format(self.data.config.bert_config)
        multiple = self.length_multiple
        return {"paths": [self.paths[split]], "length_multiple": multiple, **record_format}

    def _batches(self, split, batch_size):
        # The metrics also depend on task options, such as the maximum answer length.
        source = digest([self._caches[split].key, self.data.config.to_json()])
        return input_pipeline.EvaluationInput(
            batch_size=batch_size, source=source, **self._input_options(split)
        )

    def evaluate(self, split, on_predictions=None):
        return self.trainer.evaluate(
            self._batches(split, self.config.train.eval_batch_size),
            total=self._count(split),
            name=result_name("eval", split, ""),
            on_predictions=on_predictions,
        )

    def predict(self, split):
        return self.trainer.predict(*self._to_predict(split))

    def predict_all(self, split):
        return self.trainer.predict_all(*self._to_predict(split))

    def _to_predict(self, split):
        batches = self._batches(split, self.config.train.predict_batch_size)
        return batches, "predicting", self._count(split)

    def run(self):
        """Train, evaluate and predict; return the metrics of each evaluated split."""
        config, train = self.config, self.config.train
        # Before the other workers read checkpoints.
        self.workers.chief_first(lambda: self.data.config.check_resume(self.folder))
        set_seed(train.seed)
        self.trainer = Trainer(
            self._make_task,
            self.strategy,
            self.folder,
            self.model.checkpoint,
            must_be_trained=not config.do_train,
            labels=self.data.config.labels or None,
            is_loaded=self.keras_model is not None,
        )
        # Nothing is written until the weights are known to fit; the config is written last.
        self.make_features()
        steps = self._num_train_steps() if config.do_train else 0
        self.save_config()
        self.workers.chief_first(self.record.start)
        if not train.best_metric and not config.do_train:
            log_best_checkpoint(self.folder)
        with record_checks.naming_bad_records(self.paths.values()):
            if config.do_train:
                self._train(steps)
            if train.best_metric:
                self.trainer.use_best(train.best_metric)
            return self.data.evaluate_and_predict(self)

    def _make_task(self):
        model = self.keras_model
        if model is None:
            model = self.spec.make_model(self.data.config, self.config.train.dtype_policy)
        return self.data.make_task(model, self.config.train)

    def _train(self, steps):
        train = self.config.train
        self.data.start_training(self.trainer.model)
        (split,) = self.data.splits("train")
        batches = input_pipeline.TrainingInput(
            batch_size=train.train_batch_size,
            seed=train.seed,
            counts=[self._count(split)],
            bucket_by_length=train.bucket_by_length and self.length_multiple is not None,
            **self._input_options(split),
        )
        evaluation = None
        if train.eval_steps:
            evaluation = self._batches(self.data.splits("dev")[0], train.eval_batch_size)
        optimizer = make_optimizer(self.config.optimizer, steps)
        epochs = self._make_epochs(steps) if self.keras_model is not None else None
        self.trainer.fit(batches, optimizer, steps, train, evaluation, epochs)

    def _make_epochs(self, steps):
        train, splits = self.config.train, self.data.splits("dev")
        count = int(train.num_train_epochs)
        ends = [steps // count * (i + 1) for i in range(count)]
        evaluation = self._batches(splits[0], train.eval_batch_size) if splits else None
        self.epochs = Epochs(self.keras_model, self.callbacks, ends, evaluation)
        return self.epochs
