"""`fine_tune`: train, evaluate and predict with any task, from options to result files."""

import dataclasses
import os
from typing import Any

from bert_tf import checkpoints, console
from bert_tf.configs.task import base_split
from bert_tf.configs.train import FineTuneConfig
from bert_tf.data import input_pipeline
from bert_tf.data.features import FeatureCache, digest
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.training import checkpointing
from bert_tf.training.engine import Engine
from bert_tf.training.results import result_file, write_eval_results
from bert_tf.training.run import Run

# The names of the feature files, as in the release.
_STEMS = {"train": "train", "dev": "eval", "test": "predict"}


def fine_tune(task_class: Any, config: FineTuneConfig, command_line: str | None = None) -> dict:
    """Train, evaluate and predict with the class of a task, as the run_*.py scripts do.

    >>> from bert_tf.configs import FineTuneConfig, ModelConfig
    >>> from bert_tf.tasks.classification.options import ClassificationData
    >>> data = ClassificationData(task_name="MRPC", data_dir="glue/MRPC")
    >>> model = ModelConfig(model="uncased_L-12_H-768_A-12")
    >>> config = FineTuneConfig("out", data, model=model, do_train=True, do_eval=True)
    >>> bert_tf.training.fine_tune(bert_tf.TextClassifier, config)
    {'dev': {'eval_accuracy': ..., 'global_step': 343}}

    A run resumes from its newest checkpoint in `config.output_dir`, where `run.json` records how it
    was made, including the `command_line` (None from Python).

    Returns:
      Dict from each evaluated split to its metrics.

    Raises:
      UserError: if an option or a file is not valid.
    """
    config_class = task_class.config_class
    config_class.check_folder(config.output_dir)
    earlier = config_class.load(config.output_dir)
    trained = None if config.do_train else earlier
    is_resumed = trained or checkpointing.latest(config.output_dir)
    config = _with_trained_values(config, earlier if is_resumed else None, trained, config_class)
    pretrained = checkpoints.resolve(
        config.model,
        run_settings=earlier.tokenizer_settings if earlier and is_resumed else None,
        default_lower_case=config_class.do_lower_case,
    )
    rate = config.train.attention_probs_dropout_prob
    pretrained = dataclasses.replace(pretrained, attention_probs_dropout_prob=rate)
    config.check_model(pretrained.bert_config)
    _ = pretrained.tokenizer  # reports errors in the vocabulary before the data are read
    # With several hosts this must come before TensorFlow's first operation, such as reading data.
    engine = Engine.make(config.device)
    data = task_class.read_data(config.data, config.task_config, pretrained, config.splits, trained)
    return FineTuningRun(task_class, config, data, engine, pretrained, command_line).run()


def _with_trained_values(config, earlier, trained, config_class):
    """Fill in missing options from the run and, without training, the trained model; log them."""
    given, model = config.task_config or config_class(), config.model
    task_config = given.with_trained(trained)
    values = {"do_lower_case": earlier.do_lower_case} if earlier else {}
    if trained:
        values["bert_config_file"] = os.path.join(config.output_dir, files.CONFIG)
        values["vocab_file"] = trained.vocab_file
    used = {name: x for name, x in values.items() if getattr(model, name) is None}
    model = dataclasses.replace(model, **used)
    if trained:
        known = task_config.to_flags().items()
        used |= {x: y for x, y in known if not (given.is_given(x) or x in task_config.INFERRED)}
    if used:
        values = (f"{name}={value}" for name, value in used.items())
        console.info("from %s: %s", config.output_dir, ", ".join(values))
    return dataclasses.replace(config, task_config=task_config, model=model)


class FineTuningRun(Run):
    """A run of `fine_tune`."""

    locks_evaluation = True  # which may write features

    def __init__(self, task_class, config, data, engine, pretrained, command_line=None):
        """Check the `RunData` against the options."""
        super().__init__(config, pretrained, engine, data.files, command_line)
        self.task_class, self.task = task_class, None
        task_config = data.config.with_values_of_run(self.folder)
        pads = config.train.pad_to_max_length
        self.data = dataclasses.replace(data, config=task_config, pad_to_max_length=pads)
        # With the values found in the data.
        self.config = dataclasses.replace(config, task_config=task_config)
        if config.do_train:
            count, unit = task_class.training_size(data)
            if count is not None:
                config.train.num_train_steps(count, unit)  # at least one batch
        self.loop_options = {
            "must_be_trained": not config.do_train,
            "labels": task_config.labels or None,
        }
        self.num_steps, self.length_multiple = None, None
        self._caches = {}

    def check_folder(self):
        self.data.config.check_resume(self.folder)

    def make_task(self):
        """Return the object of the task, before its weights are loaded."""
        config = self.data.config
        model = self.task_class.make_model(config, self.config.train.dtype_policy)
        return self.task_class(model, config)

    def make_objective(self):
        self.task = self.make_task()
        return self.task.objective(self.data)

    def prepare(self):
        config, train, task_config = self.config, self.config.train, self.data.config
        self._make_features()
        if config.do_train:
            self.num_steps = self.num_train_steps()
        if not train.pad_to_max_length:
            xla = train.xla if config.do_train else False
            is_compiled = self.engine.compiles(xla, self.num_steps)
            length = task_config.max_seq_length
            self.length_multiple = self.engine.length_multiple(length, is_compiled, self.num_steps)
        if train.bucket_by_length and self.length_multiple is None:
            console.warning("`bucket_by_length` has no effect on batches of `max_seq_length`")
        if config.do_train:  # last, because predictions read the config
            self.engine.chief_first(lambda: task_config.save_changes(self.folder))
        elif not train.best_metric:
            checkpointing.log_best_checkpoint(self.folder)

    def _make_features(self):
        """Write the features of each split, unless they can be reused."""
        for split in self.data.examples:
            path = result_file(self.folder, _STEMS[base_split(split)], split, ".tf_record")
            features = self.task.features(self.data, split)
            cache = self._caches[split] = FeatureCache(path, features)
            self._check_workers(split, cache)
            if cache.stale_reason:
                self.engine.chief_first(cache.rebuild)
                if not self.engine.is_chief:
                    cache.check()
            if cache.stale_reason:
                raise UserError(f"{path} was made from different data: {cache.stale_reason}")
            if features.log_truncated:
                features.log_truncated(split, features.counts)
        self.paths = [cache.path for cache in self._caches.values()]

    def num_train_steps(self):
        size = self.task.training_size(self.data, self._caches["train"].features)
        return self.config.train.num_train_steps(*size)

    def _check_workers(self, split, cache):
        """Check that all workers, which must call this together, have the same data."""
        # With different data, the workers would run different numbers of steps.
        if not self.engine.all_equal(int(cache.key[:10], 16)):
            raise UserError(f"{cache.path}: the workers have different data or options")
        if not self.engine.all_equal(bool(cache.stale_reason)):
            raise UserError(f"{cache.path}: not all workers see the same data and `output_dir`")
        if cache.stale_reason and split == "train" and checkpointing.latest(self.folder):
            console.warning(
                "the run in %s continues, but its training data may have changed; %s: %s",
                self.folder, cache.path, cache.stale_reason,
            )  # fmt: skip

    def num_records(self, split):
        return self._caches[split].features.counts["records"]

    def _input_options(self, split):
        cache = self._caches[split]
        record_format = cache.features.record_format(self.data.config.bert_config)
        return {"paths": [cache.path], "length_multiple": self.length_multiple, **record_format}

    def _evaluation_input(self, split, batch_size):
        # The metrics also depend on task options, such as the maximum answer length.
        source = digest([self._caches[split].key, self.data.config.to_json()])
        options = self._input_options(split)
        return input_pipeline.EvaluationInput(batch_size=batch_size, source=source, **options)

    def training_inputs(self):
        train = self.config.train
        self.task.start_training(self.data)
        train_input = input_pipeline.TrainingInput(
            batch_size=train.train_batch_size,
            seed=train.seed,
            counts=[self.num_records("train")],
            bucket_by_length=train.bucket_by_length and self.length_multiple is not None,
            **self._input_options("train"),
        )
        dev = self.data.splits("dev")
        eval_input = self._evaluation_input(dev[0], train.eval_batch_size) if dev else None
        return train_input, self.num_steps, eval_input, None

    def evaluate_and_predict(self):
        config, train, data, task = self.config, self.config.train, self.data, self.task
        folder = self.folder if self.engine.is_chief else None
        task_config, evaluations = data.config, {}
        for split in data.examples:
            base = base_split(split)
            evaluates = config.do_eval and base == "dev"
            predicts = config.do_predict and base == data.predicted_split
            if not (evaluates or predicts):
                continue
            size, description = train.eval_batch_size, "evaluating"
            if base == data.predicted_split:
                size, description = train.predict_batch_size, "predicting"
            eval_input = self._evaluation_input(split, size)
            predictions = self.loop.predict(eval_input, description, self.num_records(split))
            metrics, task_config = task.write_results(
                self.loop.objective, data, split, predictions, folder, evaluates, predicts
            )
            if evaluates:
                evaluations[split] = metrics = {**metrics, "global_step": self.loop.step}
                self.loop.write_curves(metrics, result_file("", "eval", split, ""))
                if folder:
                    path = result_file(folder, "eval_results", split, ".txt")
                    write_eval_results(path, metrics)
        if folder and task_config is not data.config:
            # For later predictions and exports.
            task_config.save(folder)
            if train.best_metric:
                task_config.save(os.path.join(folder, checkpointing.BEST))
        return evaluations
