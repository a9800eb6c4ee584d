"""The folder of a run: its lock, its checkpoints, and the best checkpoint.

`model.ckpt-1000` has the weights, `NAME/adam_m`, `NAME/adam_v` and `global_step` in the release's
format, and other state under `bert_tf/`.
"""

import contextlib
import json
import math
import os
import re

import numpy as np

from bert_tf import checkpoints, console
from bert_tf.checkpoints import release
from bert_tf.checkpoints.metadata import copy_model_files
from bert_tf.errors import DamagedFile, UserError, abbreviate
from bert_tf.io import files, json_files, processes
from bert_tf.io.json_files import Count

KEEP = 5
# The subfolder of the best checkpoint, and the file in it that records the evaluations.
BEST = "best"
_RECORD = "best.json"
_FIELDS = {
    "metric": str,
    "value": float | None,
    "step": Count | None,
    "since": list[Count],
    "data": str | None,
}

_RUN_STATE = "bert_tf/"
# Name of a state of dropout, before its number.
_SEED = "seed_"

# Excludes partial files of killed processes, such as model.ckpt-9.tmp-123.index.
_NAME = re.compile(r"model\.ckpt-(\d+)\.index$")
_DATA_NAME = re.compile(r"(model\.ckpt-\d+)\.data-\d+-of-\d+")

# The folders that this process has locked.
_LOCKED: set[str] = set()


@contextlib.contextmanager
def exclusive_directory(output_dir, engine=None, is_training=True):
    """Lock a folder for this process; raise UserError if another process trains there.

    With several workers of an `engine`, the chief locks it. Locking a folder again in the same
    process has no effect. Before training, partial files of killed processes are removed. After a
    UserError, a new folder is removed if nothing was written to it.
    """
    folder = output_dir if "://" in output_dir else os.path.realpath(output_dir)
    if folder in _LOCKED or (engine is not None and not engine.is_chief):
        yield
        return
    is_new = not files.exists(output_dir)
    files.make_folder(output_dir)
    with processes.locked(output_dir, "output_dir", "trains") as is_locked:
        if is_training:
            for path in filter(files.exists, (output_dir, os.path.join(output_dir, BEST))):
                processes.remove_temporary_files(path, is_locked)
                remove_incomplete(path, is_locked)
        _LOCKED.add(folder)
        try:
            yield
        except UserError:
            if is_new:
                processes.remove_unused(output_dir)
            raise
        finally:
            _LOCKED.remove(folder)


def trainable_weights(model):
    """Return the weights that are trained: a dict from release names to Keras variables."""
    return {name: x for name, x in checkpoints.weights(model).items() if x.trainable}


def dropout_seeds(model):
    """Return the variables of a Keras model that are not weights."""
    weight_ids = set(map(id, model.weights))
    return [x for x in model.variables if id(x) not in weight_ids]


def run_state(model, optimizer, loss_scale=None):
    """Return all variables that a resumed run needs, by name."""
    state = {f"{_SEED}{i}": x for i, x in enumerate(dropout_seeds(model))}
    state |= loss_scale.variables if loss_scale else {}
    state = {_RUN_STATE + name: variable for name, variable in state.items()}
    return {**checkpoints.weights(model), **optimizer.slots, **state, "global_step": optimizer.step}


def latest(output_dir):
    """Return the prefix of a run's newest checkpoint, or None.

    The file `checkpoint` names it; the user can edit this file to reset a run. Without the file, it
    is the checkpoint with the highest step.
    """
    try:
        if named := release.named_checkpoint(output_dir):
            return named
    except UserError as error:
        console.warning("%s; using the newest checkpoint in %s", error, output_dir)
    return next(reversed(_list_checkpoints(output_dir)), None)


def read_step(prefix):
    """Return the step of a checkpoint; 0 if it has none, as in the published models."""
    source = checkpoints.ReleaseCheckpoint(prefix)
    return int(source.tensor("global_step")) if "global_step" in source.shapes else 0


def save(output_dir, variables, training_settings=None, keep=KEEP):
    """Write `model.ckpt-STEP` and `checkpoint`; keep the last `keep` checkpoints."""
    step = int(variables["global_step"].numpy())
    prefix = os.path.join(output_dir, f"model.ckpt-{step}")
    values = {name: variable.numpy() for name, variable in variables.items()}
    values["global_step"] = np.int64(step)  # int32 on JAX
    for name, setting in (training_settings or {}).items():
        text = json.dumps(setting, sort_keys=True)
        values[_RUN_STATE + name] = np.frombuffer(text.encode(), np.uint8)
    checkpoints.write(prefix, values)
    # TensorFlow's CheckpointState as text, with relative names, so that the folder can be moved.
    names = [os.path.basename(path) for path in _list_checkpoints(output_dir, step)[-keep:]]
    lines = [f'model_checkpoint_path: "{names[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in names]
    files.write_text(os.path.join(output_dir, "checkpoint"), "\n".join(lines) + "\n")
    remove_old(output_dir, step, keep)
    console.info("saved %s", prefix)


def remove_old(output_dir, step, keep=KEEP):
    """Remove all but the last `keep` checkpoints up to a step."""
    for prefix in _list_checkpoints(output_dir, step)[:-keep]:
        release.remove(prefix)


def settings_of_run(objective, data, optimizer, num_frozen_layers):
    """Return the settings that determine the steps, to be compared when the run resumes."""
    settings = {
        # The examples of each step.
        "train_batch_size": data.batch_size,
        "seed": data.seed,
        "bucket_by_length": int(data.bucket_by_length),
        "num_input_streams": data.num_input_streams,
        "masked_lm_prob": data.masking and data.masking.identity[0],
        # The update.
        "losses": objective.key,
        "num_frozen_layers": num_frozen_layers,
        "dtype": objective.model.compute_dtype,
        "optimizer": {"class_name": type(optimizer).__name__, **optimizer.hyperparameters},
        "learning_rate": optimizer.rate_config,
    }
    if data.fingerprint:
        # The number of files, their bytes and a digest of their names and sizes.
        settings["input"] = data.fingerprint
    # The round trip converts NumPy numbers and tuples, as in a restored checkpoint.
    return json.loads(json.dumps(settings, default=float))


def check_training_settings(prefix, training_settings, log=console.warning):
    """Compare the settings of a resumed run with the settings in its checkpoint; log differences.

    Settings that the checkpoint lacks are not compared. Raises UserError if the optimizer class
    differs.
    """
    source = checkpoints.ReleaseCheckpoint(prefix)
    for name, new in training_settings.items():
        if _RUN_STATE + name not in source.shapes:
            continue
        old = json.loads(source.tensor(_RUN_STATE + name).tobytes())
        if not isinstance(new, dict):
            old, new = {name: old}, {name: new}
        for key in sorted(old | new):
            before, after = old.get(key), new.get(key)
            if before == after:
                continue
            change = f"`{key}` changed from {before} to {after} since {prefix}"
            if key == "input":  # the number of files, their bytes and a digest
                before, after = (f"{x[0]} with {x[1]} bytes" for x in (before, after))
                change = f"the training files changed since {prefix} (from {before} to {after})"
            if key in ("class_name", "bias_correction"):
                raise UserError(
                    f"`optimizer`: {change}; continue with the same optimizer, or start a new run "
                    "from its weights with `init_checkpoint`"
                )
            log("%s", change)


def check_optimizer(prefix, optimizer, model):
    """Raise UserError if a checkpoint is of a different optimizer or lacks moments of a weight."""
    settings = {"class_name": type(optimizer).__name__, **optimizer.hyperparameters}
    check_training_settings(prefix, {"optimizer": settings}, log=lambda *_: None)
    trained = trainable_weights(model).items()
    moments = {f"{name}/{slot}": x for name, x in trained for slot in optimizer.slot_names}
    restore(prefix, moments, only_check=True)


def _list_checkpoints(output_dir, last_step=math.inf):
    """Return the prefixes of the checkpoints up to `last_step`, oldest first."""
    if not files.is_folder(output_dir):
        return []
    # A glob would fail for paths that contain brackets.
    matches = filter(None, map(_NAME.fullmatch, files.list_folder(output_dir)))
    steps = sorted(step for match in matches if (step := int(match[1])) <= last_step)
    return [os.path.join(output_dir, f"model.ckpt-{step}") for step in steps]


def remove_incomplete(output_dir, is_locked=True):
    """Remove the data files of checkpoints without an index; see `processes.is_abandoned`."""
    names = set(files.list_folder(output_dir))
    for name in sorted(names):
        match = _DATA_NAME.fullmatch(name)
        path = os.path.join(output_dir, name)
        if match and f"{match[1]}.index" not in names and processes.is_abandoned(path, is_locked):
            files.remove(path)
            console.info("removed %s, which has no index, because a process was killed", path)


def restore_latest(output_dir, variables):
    """Set `variables` from the newest undamaged checkpoint of a run; return its prefix or None.

    Raises UserError if no checkpoint can be read, or one belongs to a different model.
    """
    newest = latest(output_dir)
    if newest is None:
        return None
    prefixes = _list_checkpoints(output_dir)
    older = prefixes[: prefixes.index(newest)] if newest in prefixes else []
    for prefix in (newest, *reversed(older)):
        try:
            restore(prefix, variables)
            return prefix
        except DamagedFile as error:
            console.warning("%s; using the checkpoint before it", error)
    raise UserError(f"`output_dir`: none of the checkpoints in {output_dir} can be read")


def restore(prefix, variables, only_check=False):
    """Set `variables` from a checkpoint; raise UserError if one is missing or its shape differs."""
    source = checkpoints.ReleaseCheckpoint(prefix)
    state = [name for name in variables if name.startswith(_RUN_STATE)]
    if missing := [name for name in state if name not in source.shapes]:
        console.warning("%s has no %s; reinitialized", prefix, abbreviate(missing))
    seeds = {x for x in state if x.startswith(_RUN_STATE + _SEED)}.difference(missing)
    if others := {name for name in seeds if source.tensor(name).dtype != variables[name].dtype}:
        console.warning("%s is from another backend of Keras: dropout starts over", prefix)
    variables = {name: v for name, v in variables.items() if name not in {*missing, *others}}
    for name, variable in variables.items():
        shape = source.shapes.get(name)
        if shape != tuple(variable.shape):
            stored = "is missing" if shape is None else f"is {shape}"
            raise UserError(
                f"`output_dir`: {name} {stored} in {prefix}, expected {tuple(variable.shape)}; "
                "continue with the options of that run, or use another `output_dir`"
            )
    # Reads all values before it assigns the first, because the file may be damaged.
    values = {} if only_check else {name: source.tensor(name) for name in variables}
    for name, value in values.items():
        variables[name].assign(value)


def log_best_checkpoint(output_dir, argument=None):
    """Log how to use the best checkpoint of a run, if it has one."""
    folder = os.path.join(output_dir, BEST)
    if record := _read_record(folder):
        usage = f"`{argument}={folder}`" if argument else f"`best_metric={record['metric']}`"
        console.info(
            f"{folder} has the best checkpoint of that run by {record['metric']} "
            f"(step {record['step']}); use it with {usage}"
        )


def _read_record(folder):
    path = os.path.join(folder, _RECORD)
    return json_files.read(path, _FIELDS, "a training run") if files.exists(path) else {}


def is_lower_better(metric):
    """Return whether a metric is a loss or an error, which is minimized; others are maximized."""
    return "loss" in metric or "error" in metric


class BestCheckpoint:
    """The best evaluation of a run, its weights, and the evaluations since.

    `since` has the steps of the evaluations after the best one, and `data` the fingerprint of the
    evaluation data.
    """

    def __init__(self, output_dir, metric):
        """Read the state of the run; raise UserError if it used a different metric."""
        self.output_dir, self.metric = output_dir, metric
        self.folder = os.path.join(output_dir, BEST)
        record = _read_record(self.folder)
        self.value, self.step = record.get("value"), record.get("step")
        self.since, self.data = record.get("since", []), record.get("data")
        if record and record["metric"] != metric:
            raise UserError(
                f"`best_metric={metric}`: found the best checkpoint by {record['metric']!r} in "
                f"{self.folder}; use that metric, or remove the folder"
            )

    def rewind(self, step):
        """Forget the evaluations after `step`, where the run resumes."""
        self.since = [x for x in self.since if x <= step]
        if self.step is not None and self.step > step:
            console.warning(
                f"{self.folder} is from step {self.step}, but the run is at step {step}: it is "
                "ignored, and the next evaluation replaces it"
            )
            self.value, self.step = None, None

    def use_data(self, data):
        """Forget the evaluations, also for early stopping, unless they were made on `data`.

        `data` is the `fingerprint` of an `EvaluationInput`.
        """
        if self.data not in (None, data):
            console.warning(
                "%s was selected on different development data or with different options: the "
                "comparison starts over, and the next evaluation replaces it",
                self.folder,
            )
            self.value, self.step, self.since = None, None, []
        self.data = data

    def has_seen(self, step):
        """Return whether `step` was evaluated."""
        return step == self.step or step in self.since

    def update(self, results, weights, writes):
        """Record an evaluation, and save the weights if they are the best so far.

        `results` and `weights` include `global_step`. Files are written only if `writes`.
        """
        value, step = float(results[self.metric]), int(results["global_step"])
        sign = -1 if is_lower_better(self.metric) else 1
        if not math.isnan(value) and (self.value is None or sign * value > sign * self.value):
            self.value, self.step, self.since = value, step, []
            if writes:
                # The record is written last, so that a run killed in between evaluates again.
                save(self.folder, weights, keep=1)
                copy_model_files(self.output_dir, self.folder)
        else:
            self.since.append(step)
        if writes:
            record = {name: getattr(self, name) for name in _FIELDS}
            json_files.write(os.path.join(self.folder, _RECORD), record)
        best = "no best value yet"
        if self.step is not None:
            best = f"the best is {self.value:.5g} at step {self.step}"
        console.info("%s %.5g at step %d; %s", self.metric, value, step, best)
