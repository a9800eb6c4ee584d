"""Checkpoints of a run: release files under the release's names, with what a resume needs.

`model.ckpt-1000` holds the weights, `NAME/adam_m`, `NAME/adam_v` and `global_step` as the release
wrote them, and the state of each dropout as `bert_tf/seed_0`, ... So whatever reads the release's
checkpoints reads these.
"""

import os
import re

import tensorflow as tf

from bert_tf import checkpoints, console, files
from bert_tf.errors import DamagedFile, UserError

KEEP = 5

_SEED = "bert_tf/seed_"

# Not those that a killed process was writing, model.ckpt-9.tmp-123.index.
_NAME = re.compile(r"model\.ckpt-(\d+)\.index$")


def weights(model):
    """The model's weights by the release's names, as `tf.Variable`."""
    return {name: variable.value for name, variable in checkpoints.weights(model).items()}


def run_state(model, optimizer):
    """Everything that a run needs to go on: a dict of names to `tf.Variable`."""
    seeds = {
        f"{_SEED}{i}": variable.value for i, variable in enumerate(model.non_trainable_variables)
    }
    return {**weights(model), **optimizer.slots, **seeds, "global_step": optimizer.step}


def latest(output_dir):
    """Returns the prefix of the newest checkpoint of a run, None if it has none yet.

    The file `checkpoint` names it, so a person can send a run back; without that file it is the one
    with the most steps.
    """
    named = tf.train.latest_checkpoint(output_dir)
    return named or max(_all(output_dir), default=(0, None))[1]


def step_of(prefix):
    """The step of a checkpoint, 0 if it has none, as the published models."""
    source = checkpoints.ReleaseCheckpoint(prefix)
    return int(source.tensor("global_step")) if "global_step" in source.shapes else 0


def save(output_dir, variables, keep=KEEP):
    """Writes `model.ckpt-STEP`, points `checkpoint` at it, and removes all but the last `keep`."""
    step = int(variables["global_step"].numpy())
    prefix = os.path.join(output_dir, f"model.ckpt-{step}")
    checkpoints.write(prefix, {name: variable.numpy() for name, variable in variables.items()})
    found = [path for number, path in _all(output_dir) if number <= step]
    # The text of TensorFlow's CheckpointState, with names relative to the folder, so that it can be
    # moved.
    kept = [os.path.basename(path) for path in found[-keep:]]
    lines = [f'model_checkpoint_path: "{kept[-1]}"']
    lines += [f'all_model_checkpoint_paths: "{name}"' for name in kept]
    files.write_text(os.path.join(output_dir, "checkpoint"), "\n".join(lines) + "\n")
    for old in found[:-keep]:
        checkpoints.remove(old)
    console.info("saved %s", prefix)


def _all(output_dir):
    """(step, prefix) of each of a run's checkpoints, oldest first."""
    if not tf.io.gfile.exists(output_dir):
        return []
    # Not by glob: the path is the user's, and may have brackets in it.
    names = filter(None, map(_NAME.fullmatch, tf.io.gfile.listdir(output_dir)))
    return sorted(
        (int(match.group(1)), os.path.join(output_dir, match.group().removesuffix(".index")))
        for match in names
    )


def restore_latest(output_dir, variables):
    """Sets `variables` from the newest checkpoint of a run that is not damaged.

    Returns:
      Its prefix, None if the run has no checkpoint yet.

    Raises:
      UserError: if there are checkpoints and none can be read, or one is of another model.
    """
    newest = latest(output_dir)
    if newest is None:
        return None
    found = [path for _, path in _all(output_dir)]
    older = found[: found.index(newest)] if newest in found else []
    for prefix in (newest, *reversed(older)):
        try:
            restore(prefix, variables)
        except DamagedFile as error:
            console.warning("%s; going back to the checkpoint before", error)
        else:
            return prefix
    raise UserError(f"--output_dir: none of the checkpoints in {output_dir} can be read")


def restore(prefix, variables):
    """Sets `variables` from a checkpoint of a run that has every one of them.

    Raises:
      UserError: if it lacks one or has it in another shape.
    """
    source = checkpoints.ReleaseCheckpoint(prefix)
    seeds = [name for name in variables if name.startswith(_SEED)]
    if seeds and not any(name in source.shapes for name in seeds):
        console.warning(
            "%s has no state of the dropouts, as the release's runs; they begin anew", prefix
        )
        variables = {name: v for name, v in variables.items() if name not in seeds}
    for name, variable in variables.items():
        shape = source.shapes.get(name)
        if shape != tuple(variable.shape):
            found = "is missing" if shape is None else f"is {shape}"
            raise UserError(
                f"--output_dir: {name} {found} in {prefix}, but this run has it as "
                f"{tuple(variable.shape)}; continue with the flags of that run, or give another "
                "--output_dir"
            )
    values = {name: source.tensor(name) for name in variables}
    for name, variable in variables.items():
        variable.assign(values[name])
