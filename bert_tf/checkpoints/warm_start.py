"""Start a model from somebody's weights, and say what came from where."""

import re

from bert_tf import console
from bert_tf.checkpoints import release
from bert_tf.checkpoints.names import weights
from bert_tf.errors import UserError

_SLOTS = re.compile(r"/(adam_m|adam_v)$|^global_step$|^bert_tf/")


def warm_start(model, path, require_all=False):
    """Loads into `model` every weight of a checkpoint that has its name.

    Heads may be missing: they keep their random start, and the report names them. A part of
    the encoder may not: then the checkpoint is another model's.

    Args:
      model: a Keras model whose weights the name table knows.
      path: what `find` accepts.
      require_all: whether a missing head is an error too, as it is before an export.

    Raises:
      UserError: if nothing fits, a shape differs or the number of layers does.
    """
    prefix = release.find(path)
    reader = release.read(prefix)
    there = reader.get_variable_to_shape_map()
    wanted = weights(model)
    loaded = [name for name in wanted if name in there]
    missing = [name for name in wanted if name not in there]
    left_over = sorted(name for name in there if name not in wanted and not _SLOTS.search(name))
    if not loaded:
        raise UserError(
            f"{prefix}: nothing in it fits the model; it holds "
            f"{_some(sorted(there))}, the model wants {_some(list(wanted))}"
        )
    for name in loaded:
        if tuple(there[name]) != tuple(wanted[name].shape):
            raise UserError(
                f"{prefix}: {name} is {tuple(there[name])} there, but "
                f"{tuple(wanted[name].shape)} in the model; is --bert_config_file that of the "
                "checkpoint?"
            )
    # The pooler may be missing: it is not in every encoder that people share.
    needed = "" if require_all else "bert/(encoder|embeddings)/"
    lacking = [name for name in missing if re.match(needed, name)]
    layers = [name for name in left_over if name.startswith("bert/encoder/")]
    if lacking or layers:
        what = f"lacks {_some(lacking)}" if lacking else f"also has {_some(layers)}"
        raise UserError(f"{prefix}: it {what}; is --bert_config_file that of the checkpoint?")
    values = {name: release.tensor(reader, prefix, name) for name in loaded}
    for name, value in values.items():
        wanted[name].assign(value)
    console.info("weights: %d of %d from %s", len(loaded), len(wanted), prefix)
    if missing:
        console.info("weights: not in it, so they start random: %s", ", ".join(missing))
    slots = len(there) - len(loaded) - len(left_over)
    if left_over or slots:
        console.info(
            "weights: in it, but not used: %s",
            ", ".join([*left_over, *([f"{slots} of the optimizer's"] if slots else [])]),
        )


def _some(names, most=3):
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
