"""Checkpoints of a run: release files under the release's names, with what a resume needs.

`model.ckpt-1000` holds the weights, `NAME/adam_m`, `NAME/adam_v` and `global_step` as the release
wrote them, and what else a run needs under `bert_tf/`: the state of each dropout as
`bert_tf/seed_0`, ..., the loss scale of float16, the batch size and the seed of the input. So
whatever reads the release's checkpoints reads these.
"""

import os
import re

import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, files
from bert_tf.errors import DamagedFile, UserError, reason

KEEP = 5
# The best checkpoint of a run, below its folder.
BEST = "best"

_OURS = "bert_tf/"

# Not those that a killed process was writing, model.ckpt-9.tmp-123.index.
_NAME = re.compile(r"model\.ckpt-(\d+)\.index$")


def weights(model):
    """The model's weights by the release's names, as `tf.Variable`."""
    return {name: variable.value for name, variable in checkpoints.weights(model).items()}


def run_state(model, optimizer, loss_scale=None):
    """Everything that a run needs to go on: a dict of names to `tf.Variable`."""
    ours = {f"seed_{i}": v.value for i, v in enumerate(model.non_trainable_variables)}
    if loss_scale is not None:
        ours |= loss_scale.variables
    ours = {_OURS + name: variable for name, variable in ours.items()}
    return {**weights(model), **optimizer.slots, **ours, "global_step": optimizer.step}


def latest(output_dir):
    """Returns the prefix of the newest checkpoint of a run, None if it has none yet.

    The file `checkpoint` names it, so a person can send a run back; without that file it is the one
    with the most steps.
    """
    try:
        named = tf.train.latest_checkpoint(output_dir)
    except ValueError as error:
        console.warning("%s/checkpoint cannot be read (%s)", output_dir, reason(error))
        named = None
    # The file may name it by another path to the same folder.
    named = named and os.path.join(output_dir, os.path.basename(named))
    return named or max(_all(output_dir), default=(0, None))[1]


def step_of(prefix):
    """The step of a checkpoint, 0 if it has none, as the published models."""
    source = checkpoints.ReleaseCheckpoint(prefix)
    return int(source.tensor("global_step")) if "global_step" in source.shapes else 0


def save(output_dir, variables, notes=None, keep=KEEP):
    """Writes `model.ckpt-STEP`, points `checkpoint` at it, and removes all but the last `keep`.

    Args:
      output_dir: the folder.
      variables: dict of names to `tf.Variable`, `global_step` among them.
      notes: dict of flags to whole numbers that the run depends on, for `check_notes`.
      keep: how many checkpoints to keep.
    """
    step = int(variables["global_step"].numpy())
    prefix = os.path.join(output_dir, f"model.ckpt-{step}")
    values = {name: variable.numpy() for name, variable in variables.items()}
    values |= {_OURS + flag: np.int64(value) for flag, value in (notes or {}).items()}
    checkpoints.write(prefix, values)
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


def check_notes(prefix, notes):
    """Says so if a run goes on with other values of flags than those that its checkpoint notes."""
    source = checkpoints.ReleaseCheckpoint(prefix)
    for flag, value in notes.items():
        if _OURS + flag in source.shapes and (old := int(source.tensor(_OURS + flag))) != value:
            console.warning(
                "%s is of a run with `%s=%d`, which goes on with %d: from here on its examples are "
                "not those that it would have had",
                prefix, flag, old, value,
            )  # fmt: skip


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
    raise UserError(f"`output_dir`: none of the checkpoints in {output_dir} can be read")


def restore(prefix, variables):
    """Sets `variables` from a checkpoint of a run that has every one of them.

    Raises:
      UserError: if it lacks one or has it in another shape.
    """
    source = checkpoints.ReleaseCheckpoint(prefix)
    lacking = [name for name in variables if name.startswith(_OURS) and name not in source.shapes]
    if lacking:
        console.warning(
            "%s has no %s; it begins anew",
            prefix,
            "state of the dropouts, as the release's runs"
            if _OURS + "seed_0" in lacking
            else "loss scale, as runs that are not in float16",
        )
        variables = {name: v for name, v in variables.items() if name not in lacking}
    for name, variable in variables.items():
        shape = source.shapes.get(name)
        if shape != tuple(variable.shape):
            found = "is missing" if shape is None else f"is {shape}"
            raise UserError(
                f"`output_dir`: {name} {found} in {prefix}, but this run has it as "
                f"{tuple(variable.shape)}; continue with the flags of that run, or give another "
                "`output_dir`"
            )
    values = {name: source.tensor(name) for name in variables}
    for name, variable in variables.items():
        variable.assign(values[name])
