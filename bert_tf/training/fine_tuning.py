"""`fine_tune`: train, evaluate and predict with any task, from options to result files."""

import dataclasses
import os

from bert_tf import checkpoints, console
from bert_tf.configs.task import check_length
from bert_tf.configs.train import FineTuneConfig
from bert_tf.data import input_pipeline, record_checks
from bert_tf.data.feature_cache import digest
from bert_tf.data.rows import base_split
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.optimization import make_optimizer
from bert_tf.tokenization.settings import extra_settings
from bert_tf.training import checkpointing
from bert_tf.training.checkpointing import check_metric, log_best_checkpoint
from bert_tf.training.loop import exclusive_directory
from bert_tf.training.run_record import RunRecord
from bert_tf.training.strategy import (
    Workers,
    check_batch_sizes,
    make_strategy,
    set_seed,
    use_xla,
)
from bert_tf.training.task import result_file, result_name
from bert_tf.training.task_spec import TaskSpec
from bert_tf.training.trainer import Trainer

# The names of the feature files, as in the release.
_STEMS = {"train": "train", "dev": "eval", "test": "predict"}


def fine_tune(spec: TaskSpec, config: FineTuneConfig, command_line: str | None = None) -> dict:
    """Train, evaluate and predict with a `TaskSpec`, as the run_*.py scripts do.

    >>> from bert_tf.configs import FineTuneConfig, ModelConfig
    >>> from bert_tf.tasks.classification.config import ClassificationConfig
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
    config.check()
    config.task.check(config)  # type: ignore[union-attr]
    model = load_model(config, spec.config_class)
    # With several hosts this must come before TensorFlow's first operation, such as reading data.
    strategy = make_strategy(**dataclasses.asdict(config.device))
    data = spec.read(config.task, model, config.splits, stored)
    data.config = dataclasses.replace(data.config, **extra_settings(model.tokenizer_settings))
    data.config = data.config.resumed(config.output_dir)
    run = Run(config, data, strategy, model, command_line)
    with exclusive_directory(config.output_dir, run.workers, config.do_train):
        metrics = run.run()
        run.workers.chief_first(lambda: run.record.finish(metrics))
        return metrics


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

    def __init__(self, config, data, strategy, model, command_line=None):
        self.config, self.data = config, data
        self.strategy, self.model = strategy, model
        self.workers = Workers(strategy)
        self.record = RunRecord(config, data.data_files, model, command_line)
        self.train_config = train = data.train_config(config)
        predicts = config.do_predict or (config.do_eval and data.evaluates_predictions)
        check_batch_sizes(train, strategy, config.do_train, "dev" in config.splits, predicts)
        check_metric(train.best_metric, data.metric_names)
        self.length_multiple = None
        self.folder, self.trainer = config.output_dir, None
        if config.do_train and (count := data.num_train_units(None)) is not None:
            train.num_train_steps(count, data.unit)  # at least one batch
        splits = dict.fromkeys(split for base in _STEMS for split in data.splits(base))
        self.paths = {
            split: result_file(config.output_dir, _STEMS[base_split(split)], split, ".tf_record")
            for split in splits
        }
        self._features = {}

    @property
    def weights_folder(self):
        """The folder of the weights: `folder`, or the subfolder of the best checkpoint."""
        is_best = self.config.train.best_metric
        return os.path.join(self.folder, checkpointing.BEST) if is_best else self.folder

    def save_config(self):
        self.workers.chief_first(
            lambda: self.data.config.check_and_save(self.folder, write=self.config.do_train)
        )

    def make_features(self):
        """Write the features of each split, unless they can be reused."""
        for split, path in self.paths.items():
            features = self.data.features(split, path, self.model.tokenizer)
            if self._must_rebuild(split, features):
                self.workers.chief_first(features.rebuild)
                if not self.workers.is_chief:
                    features.reload()
            if features.stale_reason:
                raise UserError(f"{path} was made from different data: {features.stale_reason}")
            self._features[split] = features
            self.data.log_truncated(split, features)
        train = self.train_config
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
        num_examples = self.data.num_train_units(self._features[split])
        return self.train_config.num_train_steps(num_examples, self.data.unit)

    def _must_rebuild(self, split, features):
        """Return whether to rebuild features; all workers must call this together."""
        # With different data, the workers would run different numbers of steps.
        key = float(int(features.key[:10], 16))
        stale_share, mean_key = self.workers.mean(float(bool(features.stale_reason)), key)
        if mean_key != key:
            raise UserError(f"{features.path}: the workers have different data or options")
        if 0 < stale_share < 1:
            raise UserError(
                f"{features.path} is up to date on some workers only: all must see the same data "
                "and the same `output_dir`"
            )
        if features.stale_reason and split == "train" and checkpointing.latest(self.folder):
            console.warning(
                "the run in %s continues, but its training data may have changed; %s: %s",
                self.folder, features.path, features.stale_reason,
            )  # fmt: skip
        return bool(features.stale_reason)

    def _count(self, split):
        return self.data.count(split, self._features[split])

    def _input_options(self, split):
        paths, multiple = [self.paths[split]], self.length_multiple
        return {"paths": paths, "length_multiple": multiple, **self.data.record_format(split)}

    def _batches(self, split, batch_size):
        # The metrics also depend on task options, such as the maximum answer length.
        source = digest([self._features[split].key, self.data.config.to_json()])
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
        config, train = self.config, self.train_config
        # Before the other workers read checkpoints.
        self.workers.chief_first(lambda: self.data.config.check_resume(self.folder))
        set_seed(train.seed)
        self.trainer = Trainer(
            lambda: self.data.make_task(train.dtype_policy),
            self.strategy,
            self.folder,
            self.model.checkpoint,
            must_be_trained=not config.do_train,
            labels=self.data.config.labels or None,
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

    def _train(self, steps):
        train = self.train_config
        (split,) = self.data.splits("train")
        count = self._count(split)
        batches = input_pipeline.TrainingInput(
            batch_size=train.train_batch_size,
            seed=train.seed,
            counts=None if count is None else [count],
            bucket_by_length=train.bucket_by_length and self.length_multiple is not None,
            **self._input_options(split),
        )
        evaluation = None
        if train.eval_steps:
            evaluation = self._batches(self.data.splits("dev")[0], train.eval_batch_size)
        optimizer = make_optimizer(self.config.optimizer, steps)
        self.trainer.fit(batches, optimizer, steps, train, evaluation)
