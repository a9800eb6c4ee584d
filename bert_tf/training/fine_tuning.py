"""`fine_tune`: train, evaluate and predict with any task, from options to result files."""

import dataclasses
import os

from bert_tf import checkpoints, console
from bert_tf.configs.task import base_split
from bert_tf.configs.train import FineTuneConfig
from bert_tf.data import input_pipeline
from bert_tf.data.features import FeatureCache, digest
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.settings import extra_settings
from bert_tf.training import checkpointing
from bert_tf.training.progress import Epochs
from bert_tf.training.results import result_file
from bert_tf.training.run import Run
from bert_tf.training.strategy import make_strategy, use_xla
from bert_tf.training.task import TaskSpec

# The names of the feature files, as in the release.
_STEMS = {"train": "train", "dev": "eval", "test": "predict"}


def fine_tune(spec: TaskSpec, config: FineTuneConfig, command_line: str | None = None) -> dict:
    """Train, evaluate and predict with a `TaskSpec`, as the run_*.py scripts do.

    >>> from bert_tf.configs import FineTuneConfig, ModelConfig
    >>> from bert_tf.tasks.classification.options import ClassificationOptions
    >>> from bert_tf.tasks.registry import TASKS
    >>> task = ClassificationOptions(task_name="MRPC", data_dir="glue/MRPC")
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
    spec.config_class.check_folder(config.output_dir)
    earlier = spec.config_class.load(config.output_dir)
    stored = None if config.do_train else earlier
    config = _completed(config, stored)
    config.check()
    resumes = earlier and (stored or checkpointing.latest(config.output_dir))
    model = checkpoints.resolve(
        config.model,
        run_settings=earlier.tokenizer_settings if resumes else None,
        default_lower_case=spec.config_class.do_lower_case,
    )
    config.check_model(model.bert_config)
    _ = model.tokenizer  # reports errors in the vocabulary before the data are read
    # With several hosts this must come before TensorFlow's first operation, such as reading data.
    strategy = make_strategy(config.device)
    data = spec.read(config.task, model, config.splits, stored)
    data.config = dataclasses.replace(data.config, **extra_settings(model.tokenizer_settings))
    return FineTuning(spec, config, data, strategy, model, command_line).run()


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
        have_effect, is_given = task_config.to_flags(), config.task.is_given
        saved = (x for x in task_config.saved_options() if x in have_effect and not is_given(x))
        if names := [*missing, *saved]:
            console.info("from %s: %s", config.output_dir, ", ".join(names))
    return dataclasses.replace(config, task=task_config, model=model)


class FineTuning(Run):
    """A run of `fine_tune`."""

    def __init__(
        self, spec, config, data, strategy, model, command_line=None, keras_model=None, callbacks=()
    ):
        """Check the data of a `TaskSpec`, a `TaskData`, against the options.

        `keras_model` is a model with its initial weights, None to make it. With a model, Keras
        `callbacks` are called at the end of each epoch.
        """
        predicts = config.do_predict or (config.do_eval and data.evaluates_predictions)
        super().__init__(config, model, strategy, data.data_files, command_line, predicts)
        self.spec, self.data = spec, data
        self.keras_model, self.callbacks, self.epochs = keras_model, callbacks, None
        data.config = data.config.resumed(self.folder)
        self.length_multiple = None
        self.loop_options = {
            "must_be_trained": not config.do_train,
            "labels": data.config.labels or None,
            "is_loaded": keras_model is not None,
        }
        if config.do_train and (count := data.num_train_examples()) is not None:
            config.train.num_train_steps(count, data.unit)  # at least one batch
        self.feature_files = {
            split: result_file(config.output_dir, _STEMS[base_split(split)], split, ".tf_record")
            for split in data.examples
        }
        self.paths = self.feature_files.values()
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
        config = self.data.config
        tokenizer = FullTokenizer(config.vocab, **config.tokenizer_settings)
        for split, path in self.feature_files.items():
            features = self.data.features(split, tokenizer)
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
        return {"paths": [self.feature_files[split]], "length_multiple": multiple, **record_format}

    def _batches(self, split, batch_size):
        # The metrics also depend on task options, such as the maximum answer length.
        source = digest([self._caches[split].key, self.data.config.to_json()])
        return input_pipeline.EvaluationInput(
            batch_size=batch_size, source=source, **self._input_options(split)
        )

    def predict(self, split):
        """Yield the predictions of each batch; see `Loop.predict`."""
        batches = self._batches(split, self.config.train.predict_batch_size)
        return self.loop.predict(batches, "predicting", self._count(split))

    def predict_all(self, split, evaluates=False):
        """Return all predictions as a dict of arrays; `evaluates` selects the batch size."""
        train = self.config.train
        size = train.eval_batch_size if evaluates else train.predict_batch_size
        description = "evaluating" if evaluates else "predicting"
        return self.loop.predict_all(self._batches(split, size), description, self._count(split))

    def check_folder(self):
        self.data.config.check_resume(self.folder)

    def make_task(self):
        model = self.keras_model
        if model is None:
            model = self.spec.make_model(self.data.config, self.config.train.dtype_policy)
        return self.data.make_task(model, self.config.train.pad_to_max_length)

    def prepare(self):
        self.make_features()
        if self.config.do_train:
            self.num_steps = self._num_train_steps()
        self.save_config()  # last, because predictions read it
        if not (self.config.train.best_metric or self.config.do_train):
            checkpointing.log_best_checkpoint(self.folder)

    def train(self):
        train = self.config.train
        self.data.start_training(self.loop.model)
        (split,) = self.data.splits("train")
        batches = input_pipeline.TrainingInput(
            batch_size=train.train_batch_size,
            seed=train.seed,
            counts=[self._count(split)],
            bucket_by_length=train.bucket_by_length and self.length_multiple is not None,
            **self._input_options(split),
        )
        dev = self.data.splits("dev")
        evaluation = self._batches(dev[0], train.eval_batch_size) if dev else None
        if self.keras_model is not None:
            count = int(train.num_train_epochs)
            ends = [self.num_steps // count * (i + 1) for i in range(count)]
            self.epochs = Epochs(self.keras_model, self.callbacks, ends, evaluation)
        self.train_on(batches, self.num_steps, evaluation, self.epochs)

    def evaluate_and_predict(self):
        return self.data.evaluate_and_predict(self)
