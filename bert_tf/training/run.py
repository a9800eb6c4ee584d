"""`Run`, the common part of pre-training and fine-tuning, and its record, `run.json`."""

import contextlib
import gc
import os
import platform
import threading

import keras
import tensorflow as tf

import bert_tf
from bert_tf import console
from bert_tf.checkpoints.warm_start import weight_files
from bert_tf.data import records
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.optimization.create import OPTIMIZERS, make_optimizer
from bert_tf.training.checkpointing import exclusive_directory, latest
from bert_tf.training.loop import Loop
from bert_tf.training.strategy import Workers, check_batch_size


class Run:
    """A run in the folder `config.output_dir`: it trains, evaluates, predicts and records how.

    A subclass defines `check_folder` for an earlier run with a different model, `make_objective`,
    `prepare`, which writes features and the description of the model, `training_data`, which
    returns the first arguments of `Loop.train`, and `evaluate_and_predict`, which returns the
    metrics for `run.json`.
    """

    # Whether a run that only evaluates must not share the folder with a run that trains.
    locks_evaluation = True
    # A model with its initial weights, None to make it, and the `Epochs` with its callbacks.
    keras_model = epochs = None
    # See `Loop`.
    labels, must_be_trained = None, False

    def __init__(self, config, model, strategy, data_files, command_line):
        """Create a run with the weights of `PretrainedFiles`; check the size of its batches."""
        train, parts = config.train, config.train.gradient_accumulation_steps
        if train.eval_steps and not config.do_train:
            console.warning("`eval_steps` has no effect without `do_train`")
        if config.do_train:
            argument = "train_batch_size" if self.keras_model is None else "batch_size"
            check_batch_size(train.train_batch_size, strategy, argument, parts)
        self.config, self.model, self.strategy = config, model, strategy
        self.folder, self.workers = config.output_dir, Workers(strategy)
        self.record = RunRecord(config, data_files, model, command_line)
        self.loop = None
        self.paths = data_files  # the files of records

    def run(self):
        """Train, evaluate and predict as the config specifies; return the metrics."""
        config = self.config
        with contextlib.ExitStack() as stack:
            if config.do_train or self.locks_evaluation:
                stack.enter_context(exclusive_directory(self.folder, self.workers, config.do_train))
            # The chief checks before the other workers read checkpoints.
            self.workers.chief_first(self.check_folder)
            if self.keras_model is None:
                keras.utils.set_random_seed(config.train.seed)
            self.loop = Loop(
                self.make_objective, self.strategy, self.folder, self.model.checkpoint,
                self.must_be_trained, self.labels, is_loaded=self.keras_model is not None,
            )  # fmt: skip
            metric, names = config.train.best_metric, self.loop.objective.metric_names
            if metric and metric not in names:
                raise UserError(f"`best_metric={metric}`: expected one of {', '.join(names)}")
            # Nothing is written until the weights and the state of the run are known to fit.
            if config.do_train:
                self.loop.check_resume(OPTIMIZERS[config.optimizer.optimizer](0.0), config.train)
            elif metric:
                self.loop.use_best(metric)
            self.prepare()
            self.workers.chief_first(self.record.start)
            with records.naming_bad_records(self.paths):
                if config.do_train:
                    self._train()
                    gc.collect()  # the graphs of the steps, which keep the moments, are cyclic
                    if metric:
                        self.loop.use_best(metric)
                metrics = self.evaluate_and_predict()
            self.workers.chief_first(lambda: self.record.finish(metrics))
            return metrics

    def _train(self):
        """Train; the optimizer and the data are local, so that they are freed before evaluation."""
        data, num_steps, eval_data = self.training_data()
        with self.workers.watched(), self.strategy.scope():
            optimizer = make_optimizer(self.config.optimizer, num_steps)
        self.loop.train(data, optimizer, num_steps, self.config.train, eval_data, self.epochs)


FILE = "run.json"

_FIELDS = {"command_lines": list[str | None], "config": dict} | dict.fromkeys(
    ("versions?", "weights?", "data?", "metrics?"), dict
)

# Maximum number of bytes to digest, because a pre-training corpus may have terabytes.
_MAX_BYTES = 8 << 30


def read_record(folder):
    """Return the contents of `run.json` in the folder of a run, {} without one."""
    path = os.path.join(folder, FILE)
    return json_files.read(path, _FIELDS, "a training run") if files.exists(path) else {}


class RunRecord:
    """The record of a run: versions, command lines, configuration, digests and metrics.

    A resumed run keeps the earlier command lines and the initial weights of the first run. A run
    that only evaluates adds its command line and its metrics.
    """

    def __init__(self, config, data_files, model_files, command_line):
        self._config, self._data_files, self._model = config, data_files, model_files
        self._path = os.path.join(config.output_dir, FILE)
        self._command_line = command_line
        self._values, self._thread = None, None

    def start(self):
        """Write the record, unless the run only evaluates an earlier one, and compute digests."""
        earlier = read_record(self._config.output_dir)
        if earlier and not self._config.do_train:
            return
        weights = {"path": self._model.checkpoint, "revision": self._model.revision}
        if latest(self._config.output_dir):
            weights = earlier.get("weights", weights)
        self._values = {
            "versions": {
                "bert_tf": bert_tf.__version__,
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
                "python": platform.python_version(),
            },
            "command_lines": [*earlier.get("command_lines", ()), self._command_line],
            "config": self._config.to_flags(),
            "weights": weights,
        }
        self._write()
        self._thread = threading.Thread(target=self._add_digests, daemon=True)
        self._thread.start()

    def finish(self, metrics):
        """Add the metrics of the run, a dict."""
        if self._thread:
            self._thread.join()
        self._values = read_record(self._config.output_dir)  # another process may have evaluated
        if not self._thread:
            self._values["command_lines"].append(self._command_line)
        self._values["metrics"] = {**self._values.get("metrics", {}), **metrics}
        self._write()

    def _add_digests(self):
        weights = self._values["weights"]
        budget = _MAX_BYTES
        try:
            if weights["path"] and "files" not in weights:
                paths = weight_files(weights["path"])
                weights["files"], budget = _digests(paths, budget)
            self._values["data"], _ = _digests(self._data_files, budget)
            self._write()
        except (OSError, UserError) as error:  # a file was removed during the run
            console.warning("%s has no digests: %s", self._path, error)

    def _write(self):
        json_files.write(self._path, self._values, default=float)  # metrics may be NumPy scalars


def _digests(paths, budget):
    """Return {path: size and SHA-256 or None} and the remaining budget in bytes."""
    digests = {}
    for path in paths:
        size, _ = files.size_and_time(path)
        is_read = "://" not in path and size <= budget
        budget -= size if is_read else 0
        digests[path] = {"bytes": size, "sha256": files.digest(path) if is_read else None}
    return digests, budget
