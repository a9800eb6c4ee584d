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
from bert_tf.errors import UserError, counted
from bert_tf.io import files, json_files
from bert_tf.optimization.create import OPTIMIZERS, make_optimizer
from bert_tf.training.checkpointing import exclusive_directory, latest
from bert_tf.training.engine import Engine
from bert_tf.training.loop import Loop


class Run:
    """A run in the folder `config.output_dir`: it trains, evaluates, predicts and records how.

    A subclass defines:

    * `locks_evaluation`: whether a run that only evaluates also locks the folder.
    * `batch_option`: the name of the option of the batch size.
    * `check_folder`, which raises UserError for an earlier run with a different model.
    * `make_objective`; and `loop_options`, further arguments of `Loop`.
    * `prepare`, which writes features and the description of the model.
    * `training_inputs`, which returns the `TrainingInput`, the number of steps, the
      `EvaluationInput` or None, and the `EpochCallbacks` or None.
    * `evaluate_and_predict`, which returns the metrics for `run.json`.
    """

    locks_evaluation: bool
    batch_option = "train_batch_size"
    engine: Engine

    def __init__(self, config, pretrained, engine, data_files, command_line):
        """Create a run with the weights of `PretrainedFiles`, and check the size of its batches."""
        train, parts = config.train, config.train.gradient_accumulation_steps
        if train.eval_steps and not config.do_train:
            console.warning("`eval_steps` has no effect without `do_train`")
        if config.do_train:
            engine.check(train)
            check_batch_size(train.train_batch_size, engine.num_devices, self.batch_option, parts)
        self.config, self.pretrained, self.engine = config, pretrained, engine
        self.folder, self.command_line = config.output_dir, command_line
        self.data_files, self._digest_thread = data_files, None
        self.loop, self.loop_options = None, {}
        self.paths = data_files  # the files of records

    def run(self):
        """Train, evaluate and predict as the config specifies; return the metrics."""
        config, train, options = self.config, self.config.train, self.loop_options
        with contextlib.ExitStack() as stack:
            if config.do_train or self.locks_evaluation:
                stack.enter_context(exclusive_directory(self.folder, self.engine, config.do_train))
            # The chief checks before the other workers read checkpoints.
            self.engine.chief_first(self.check_folder)
            if not options.get("is_loaded"):
                keras.utils.set_random_seed(train.seed)
            checkpoint = self.pretrained.checkpoint
            self.loop = Loop(self.make_objective, self.engine, self.folder, checkpoint, **options)
            metric, names = train.best_metric, self.loop.objective.metric_names
            if metric and metric not in names:
                raise UserError(f"`best_metric={metric}`: expected one of {', '.join(names)}")
            # Nothing is written until the weights and the state of the run are known to fit.
            if config.do_train:
                if train.num_frozen_layers:
                    # `Loop.train` also does, but `check_resume` comes first.
                    self.loop.model.freeze(train.num_frozen_layers)
                self.loop.check_resume(OPTIMIZERS[config.optimizer.optimizer](0.0), train)
            elif metric:
                self.loop.load_best(metric)
            self.prepare()
            self.engine.chief_first(self._start_record)
            with records.naming_bad_records(self.paths):
                if config.do_train:
                    self._train()
                    gc.collect()  # the graphs of the steps, which keep the moments, are cyclic
                    if metric:
                        self.loop.load_best(metric)
                metrics = self.evaluate_and_predict()
            self.engine.chief_first(lambda: self._finish_record(metrics))
            return metrics

    def _train(self):
        """Train; local variables free the optimizer and the inputs before the evaluation."""
        train_input, num_steps, eval_input, epochs = self.training_inputs()
        with self.engine.watched(), self.engine.scope():
            optimizer = make_optimizer(self.config.optimizer, num_steps)
        config = self.config.train
        self.loop.train(train_input, optimizer, num_steps, config, eval_input, epochs)

    def _start_record(self):
        """Write `run.json`, unless the run only evaluates an earlier one.

        A resumed run keeps the earlier command lines and the initial weights of the first run. A
        thread adds the digests of the files.
        """
        earlier = read_run_json(self.folder)
        if earlier and not self.config.do_train:
            return
        weights = {"path": self.pretrained.checkpoint, "revision": self.pretrained.revision}
        if latest(self.folder):
            weights = earlier.get("weights", weights)
        values = {
            "versions": {
                **{module.__name__: module.__version__ for module in (bert_tf, tf, keras)},
                "backend": keras.backend.backend(),
                "python": platform.python_version(),
            },
            "command_lines": [*earlier.get("command_lines", ()), self.command_line],
            "config": self.config.to_flags(),
            "weights": weights,
        }
        _write_run_json(self.folder, values)
        arguments = self.folder, values, self.data_files
        self._digest_thread = threading.Thread(target=_add_digests, args=arguments, daemon=True)
        self._digest_thread.start()

    def _finish_record(self, metrics):
        """Add the metrics to `run.json`; a run that did not write it adds its command line, too."""
        if self._digest_thread:
            self._digest_thread.join()
        values = read_run_json(self.folder)  # another process may have evaluated
        if not self._digest_thread:
            values["command_lines"].append(self.command_line)
        values["metrics"] = {**values.get("metrics", {}), **metrics}
        _write_run_json(self.folder, values)


def check_batch_size(batch_size, num_devices, argument, parts):
    """Raise UserError if a training batch does not divide over the devices and into `parts`."""
    unit = num_devices * parts
    if batch_size % unit:
        below = batch_size // unit * unit
        nearest = f"{below} or {below + unit}" if below else f"{unit}"
        accumulation = f" with `gradient_accumulation_steps={parts}`" if parts > 1 else ""
        raise UserError(
            f"`{argument}={batch_size}`: expected a multiple of {unit} for "
            f"{counted(num_devices, 'replica')}{accumulation}; use {nearest}"
        )


FILE = "run.json"

_FIELDS = {"command_lines": list[str | None], "config": dict} | dict.fromkeys(
    ("versions?", "weights?", "data?", "metrics?"), dict
)

# Maximum number of bytes to digest, because a pre-training corpus may have terabytes.
_MAX_BYTES = 8 << 30


def read_run_json(folder):
    """Return the contents of `run.json` in the folder of a run, {} without one."""
    path = os.path.join(folder, FILE)
    return json_files.read(path, _FIELDS, "a training run") if files.exists(path) else {}


def _write_run_json(folder, values):
    # Metrics may be NumPy scalars.
    json_files.write(os.path.join(folder, FILE), values, default=float)


def _add_digests(folder, values, data_files):
    weights, budget = values["weights"], _MAX_BYTES
    try:
        if weights["path"] and "files" not in weights:
            weights["files"], budget = _digests(weight_files(weights["path"]), budget)
        values["data"], _ = _digests(data_files, budget)
        _write_run_json(folder, values)
    except (OSError, UserError) as error:  # a file was removed during the run
        console.warning("%s has no digests: %s", os.path.join(folder, FILE), error)


def _digests(paths, budget):
    """Return {path: size and SHA-256 or None} and the remaining budget in bytes."""
    digests = {}
    for path in paths:
        size, _ = files.size_and_time(path)
        is_read = "://" not in path and size <= budget
        budget -= size if is_read else 0
        digests[path] = {"bytes": size, "sha256": files.digest(path) if is_read else None}
    return digests, budget
