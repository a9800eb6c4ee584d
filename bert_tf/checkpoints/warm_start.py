"""Start a model from somebody's weights, and say what came from where."""

import re
from collections.abc import Sequence

import keras

from bert_tf import console, files
from bert_tf.checkpoints import hugging_face, release
from bert_tf.checkpoints.metadata import beside, labels_beside
from bert_tf.checkpoints.names import weights
from bert_tf.config import BertConfig
from bert_tf.errors import UserError

SLOTS = re.compile(r"/(adam_m|adam_v)$|^global_step$|^bert_tf/")
_LAYER = re.compile(r"^bert/encoder/layer_(\d+)/")
_HEAD = ("output_weights", "output_bias")

# What a checkpoint must have: the encoder without its pooler, which is not in every one that people
# share; or all that answers depend on, for models that use the pooler and for those that do not.
_ENCODER, _ALL, _WITHOUT_POOLER = "bert/(encoder|embeddings)/", "", "(?!bert/pooler/)"


def open_checkpoint(path, flag="init_checkpoint"):
    """Opens weights of any kind: a release checkpoint, one of ours, a Hugging Face folder.

    Args:
      path: what `release.find` accepts, a Hugging Face folder, or its `model.safetensors`.
      flag: the flag it came from, for the error.

    Returns:
      An object with `path`, `shapes` (dict of the release's names to shapes) and `tensor(name)`.

    Raises:
      UserError: if there is nothing to read.
    """
    folder = path.removesuffix(hugging_face.WEIGHTS).removesuffix("/") or "."
    if hugging_face.is_folder(folder):
        return hugging_face.HuggingFaceFolder(folder)
    return release.ReleaseCheckpoint(path, flag)


def check_fits(there, wanted, path, needed=_ENCODER):
    """Compares the weights of a checkpoint with those of a model.

    Args:
      there: dict of names to shapes, of the checkpoint.
      wanted: dict of names to shapes, of the model.
      path: of the checkpoint, for the error.
      needed: regular expression that the names begin with which must not be missing.

    Raises:
      UserError: if nothing fits, a shape differs or the number of layers does.
    """
    hint = "is `bert_config_file` that of the checkpoint?"
    loaded = [name for name in wanted if name in there]
    if not loaded:
        raise UserError(
            f"{path}: nothing in it fits the model; it holds {some(list(there))}, the model wants "
            f"{some(list(wanted))}"
        )
    for name in loaded:
        if there[name] != wanted[name]:
            raise UserError(
                f"{path}: {name} is {there[name]} there, but {wanted[name]} in the model; "
                f"{_guess(name, there[name]) or hint}"
            )
    layers_there, layers_wanted = _layers(there), _layers(wanted)
    if layers_there != layers_wanted:
        raise UserError(f"{path}: it has {layers_there} layers, the model {layers_wanted}; {hint}")
    lacking = [name for name in wanted if name not in there and re.match(needed, name)]
    if lacking:
        raise UserError(f"{path}: it lacks {some(lacking)}; {hint}")


def warm_start(
    model: keras.Model,
    path: str,
    require_all: bool = False,
    labels: Sequence[str] | None = None,
) -> None:
    """Loads into `model` every weight of a checkpoint that has its name.

    Heads may be missing: they keep their random start, and the report names them. A part of the
    encoder may not: then the checkpoint is another model's. Where both have names for the labels of
    a head, its rows are taken by name; a head of other labels counts as missing.

    Args:
      model: a Keras model whose weights the name table knows.
      path: what `open_checkpoint` accepts.
      require_all: whether a missing head is an error too, as it is before an export; a pooler that
        the model does not use may be missing all the same.
      labels: what the rows of the model's head stand for, None if that has no names.

    Raises:
      UserError: if nothing fits, a shape differs or the number of layers does.
    """
    source = open_checkpoint(path)
    wanted = weights(model)
    shapes = {name: tuple(variable.shape) for name, variable in wanted.items()}
    there, rows = dict(source.shapes), None
    theirs = labels_beside(source.path, there.get(_HEAD[0], (0,))[0]) if labels else None
    if labels and theirs and list(theirs) != list(labels):
        said = f"its labels are {some(theirs, 9)}, and those of the model {some(labels, 9)}"
        if sorted(theirs) == sorted(labels):
            rows = [theirs.index(label) for label in labels]
            console.info("weights: the head is put in order: in %s %s", source.path, said)
        elif require_all:
            raise UserError(f"{source.path}: {said}; so its head cannot be used")
        else:
            console.info("weights: the head in %s is not used: %s", source.path, said)
            there = {name: shape for name, shape in there.items() if name not in _HEAD}
    needed = _ENCODER
    if require_all:
        needed = _ALL if model.uses_pooler else _WITHOUT_POOLER
    check_fits(there, shapes, source.path, needed)
    _check_config(model.config, source.path)
    values = {name: source.tensor(name) for name in wanted if name in there}
    for name, value in values.items():
        wanted[name].assign(value if rows is None or name not in _HEAD else value[rows])
    report(source, values, wanted)


def _check_config(config, path):
    """Compares what shapes do not show with the config that lies beside a checkpoint, if one does.

    Raises:
      UserError: if the number of heads differs; another activation or epsilon is a warning.
    """
    found_at = beside(path, (files.CONFIG, hugging_face.CONFIG))
    if found_at is None:
        return
    theirs = BertConfig.from_json_file(found_at)
    for key in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
        found, given = getattr(theirs, key), getattr(config, key)
        if found != given:
            said = f"{found_at} says {key} is {found}, but the model has {given}"
            if key == "num_attention_heads":
                raise UserError(f"{said}; is `bert_config_file` that of the checkpoint?")
            console.warning("%s", said)


def report(source, loaded, wanted):
    """Says which weights came from `source`, which it lacks and which were left over."""
    console.info("weights: %d of %d from %s", len(loaded), len(wanted), source.path)
    missing = [name for name in wanted if name not in loaded]
    if missing:
        console.info("weights: not in it, so they start random: %s", ", ".join(missing))
    left_over = [name for name in source.shapes if name not in loaded]
    slots = sum(bool(SLOTS.search(name)) for name in left_over)
    left_over = [name for name in left_over if not SLOTS.search(name)]
    if slots:
        left_over.append(f"{slots} of the optimizer's")
    if left_over:
        console.info("weights: in it, but not used: %s", ", ".join(left_over))


def some(names, most=3):
    """The first few of a list of names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _layers(shapes):
    """How many transformer layers there are weights of."""
    found = [_LAYER.match(name) for name in shapes]
    return len({match.group(1) for match in found if match})


def _guess(name, shape):
    """The likeliest reason why a shape differs, None if it is just another model."""
    if name == "bert/embeddings/word_embeddings":
        return (
            f"its vocabulary has {shape[0]} entries: is the model's config or vocabulary that of "
            "another language or casing?"
        )
    if name in _HEAD:
        return f"it was trained on {shape[0]} labels"
    return None
