"""Initialize a model from a checkpoint and report which weights were loaded."""

import os
import re
from collections.abc import Callable, Sequence

import keras
import numpy as np

from bert_tf import console
from bert_tf.checkpoints import hugging_face, metadata, release
from bert_tf.checkpoints.names import find_weights
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files
from bert_tf.modeling.base import PretrainedModel
from bert_tf.modeling.layer_states import is_quantized_preset, named_layers

# Variables of the optimizer and the training loop.
TRAINING_STATE = re.compile(r"/(adam_m|adam_v)$|^global_step$|^bert_tf/")
_LAYER = re.compile(r"^bert/encoder/layer_(\d+)/")
_HEAD = ("output_weights", "output_bias")

# Patterns of required weights. Initialization requires the encoder except the pooler, which many
# shared checkpoints lack. Prediction requires all weights that it uses.
_ENCODER, _ALL, _ALL_BUT_POOLER = "bert/(encoder|embeddings)/", "", "(?!bert/pooler/)"


def open_checkpoint(path, argument="init_checkpoint"):
    """Open a release or training checkpoint, or a Hugging Face folder or its `model.safetensors`.

    Returns:
      An object with `path`, `shapes` (dict from the release's names to shapes) and `tensor(name)`.

    Raises:
      UserError: if no checkpoint can be read; the message names `argument`.
    """
    path = files.expand_home(path)
    if is_quantized_preset(path):
        raise UserError(
            f"`{argument}`: {path} has a quantized model; only `from_preset` of its class loads it"
        )
    folder = path.removesuffix(hugging_face.WEIGHTS).removesuffix("/") or "."
    if hugging_face.is_folder(folder):
        return hugging_face.HuggingFaceFolder(folder)
    return release.ReleaseCheckpoint(path, argument)


def weight_files(path):
    """Return the paths of a checkpoint's files."""
    source = open_checkpoint(path).path
    if hugging_face.is_folder(source):
        return [os.path.join(source, name) for name in hugging_face.shards(source)]
    return sorted(release.find_files(f"{source}."))


def read_weights(source, names):
    """Return a dict from name to tensor; raise UserError if a value is not finite."""
    values = {name: source.tensor(name) for name in names}
    for name, value in values.items():
        if value.dtype == object:  # in a damaged checkpoint
            raise UserError(f"{source.path}: {name} contains strings, expected numbers")
        if count := np.count_nonzero(~np.isfinite(value)):
            raise UserError(
                f"{source.path}: {count} of the {value.size} values of {name} are NaN or infinite; "
                "the file is damaged, or training diverged before it was saved"
            )
    return values


def check_compatible(checkpoint_shapes, model_shapes, path, required=_ENCODER, num_layers=None):
    """Raise UserError unless a checkpoint's weights fit a model, given dicts from name to shape."""
    hint = "does `bert_config_file` belong to the checkpoint?"
    if not (common := [name for name in model_shapes if name in checkpoint_shapes]):
        raise UserError(
            f"{path}: none of its weights is in the model; found "
            f"{abbreviate([*checkpoint_shapes])}, expected {abbreviate([*model_shapes])}"
        )
    for name in common:
        found, expected = checkpoint_shapes[name], model_shapes[name]
        if found != expected:
            raise UserError(
                f"{path}: {name}: found the shape {found}, expected {expected} as in the model; "
                "do its configuration, vocabulary and labels belong to the checkpoint?"
            )
    found, expected = _count_layers(checkpoint_shapes), num_layers or _count_layers(model_shapes)
    if found != expected:
        raise UserError(f"{path}: {found} layers, expected {expected} as in the model; {hint}")
    if missing := [x for x in model_shapes if x not in checkpoint_shapes and re.match(required, x)]:
        if not any(name.startswith("bert/") for name in missing):
            kind = hugging_face.detect_architecture(checkpoint_shapes)
            hint = f"found the weights of {kind}, which is not fine-tuned for this task"
        raise UserError(f"{path}: the checkpoint lacks {abbreviate(missing)}; {hint}")


def warm_start(
    model: keras.Model,
    path: str,
    require_all: bool = False,
    labels: Sequence[str] | None = None,
    argument: str = "init_checkpoint",
    on_missing: Callable = console.info,
) -> list[str]:
    """Load every weight of `model` that a checkpoint has, by name.

    The encoder must be complete. A missing head stays randomly initialized and is logged. If both
    heads have known labels, rows are matched by label; a head with different labels is not used.

    >>> model = bert_tf.BertModel(bert_tf.BertConfig.from_json_file("bert_config.json"))
    >>> warm_start(model, "bert_model.ckpt")

    Args:
      model: a bert_tf model, or any Keras model with bert_tf layers named as in `BertModel`. With
        LoRA, only the kernels are loaded; the matrices A and B stay unchanged.
      path: anything that `open_checkpoint` accepts.
      require_all: whether a missing head is an error, as for an export. A pooler that the model
        does not use may still be missing.
      labels: labels of the rows of the model's head, None if unknown.
      argument: name of the argument with the path, for messages.
      on_missing: logging function for the weights that stay randomly initialized.

    Returns:
      The names of the loaded weights.

    Raises:
      UserError: if the checkpoint does not fit the model, or a weight is not finite.
    """
    source = open_checkpoint(path, argument)
    if not (variables := find_weights(model)):
        raise UserError(
            f"{model.name} has no BERT weights; they are found by layer names, such as embeddings, "
            "layer_0 and pooler in BertModel"
        )
    model_shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    shapes = dict(source.shapes)
    rows = None
    if labels and _HEAD[0] in shapes:
        saved_labels = metadata.read_labels(source.path, shapes[_HEAD[0]][0])
        if saved_labels and list(saved_labels) != list(labels):
            found, expected = abbreviate(saved_labels, 9), abbreviate(labels, 9)
            difference = f"the checkpoint has the labels {found}, the model has {expected}"
            if sorted(saved_labels) == sorted(labels):
                rows = [saved_labels.index(label) for label in labels]
                console.info("weights: head of %s reordered: %s", source.path, difference)
            elif require_all:
                raise UserError(f"{source.path}: cannot use its head: {difference}")
            else:
                console.notice("weights: head of %s not used: %s", source.path, difference)
                shapes = {name: shape for name, shape in shapes.items() if name not in _HEAD}
    required = _ENCODER
    if require_all:
        required = _ALL if getattr(model, "uses_pooler", True) else _ALL_BUT_POOLER
    layers = [model, *(layer for _, layer in named_layers(model))]
    configs = (getattr(layer, "config", None) for layer in layers)
    config = next((x for x in configs if isinstance(x, BertConfig)), None)
    # A user's model may use only the lower layers.
    num_layers = None if isinstance(model, PretrainedModel) else config and config.num_hidden_layers
    check_compatible(shapes, model_shapes, source.path, required, num_layers)
    if config:
        _check_config(config, source.path)
    values = read_weights(source, [name for name in variables if name in shapes])
    for name, value in values.items():
        variables[name].assign(value if rows is None or name not in _HEAD else value[rows])
    _log_loaded(source, values, variables, on_missing)
    return list(values)


def weight_shapes(path: str) -> dict[str, tuple]:
    """Return the `shapes` of `open_checkpoint`, {} if the folder has no weights."""
    folder = metadata.containing_folder(path)
    names = files.list_folder(folder)
    has_weights = hugging_face.is_folder(folder) or any(x.endswith(".index") for x in names)
    return open_checkpoint(path, "preset").shapes if has_weights else {}


def count_labels(path: str) -> int:
    """Return the number of labels in a checkpoint's classifier, or in the files next to it.

    Raises UserError if there is neither.
    """
    shapes = weight_shapes(path)
    if all(name in shapes for name in _HEAD):  # the head for multiple choice has no bias
        return shapes["output_weights"][0]
    saved = metadata.read_metadata(path)
    if not (labels := saved.get("labels") or saved.get("id2label")):
        raise UserError(f"`num_labels` must be given: {path} has neither a classifier nor labels")
    return len(labels)


def _check_config(config, path):
    """Warn about settings that differ from the checkpoint's; the number of heads is an error."""
    if (config_file := metadata.find_companion_file(path, metadata.CONFIG_FILES)) is None:
        return
    saved_config = BertConfig.from_json_file(config_file)
    for key in ("num_attention_heads", "hidden_act", "layer_norm_eps", "pooler_act"):
        saved, given = getattr(saved_config, key), getattr(config, key)
        if saved != given:
            difference = f"{config_file}: found {key}={saved}, expected {given} as in the model"
            if key == "num_attention_heads":
                raise UserError(f"{difference}; does `bert_config_file` belong to the checkpoint?")
            console.warning("%s", difference)


def _log_loaded(source, loaded, variables, on_missing):
    console.info("weights: %d of %d from %s", len(loaded), len(variables), source.path)
    if missing := ", ".join(name for name in variables if name not in loaded):
        on_missing("weights: not in %s, randomly initialized: %s", source.path, missing)
    others = [name for name in source.shapes if name not in loaded]
    unused = [name for name in others if not TRAINING_STATE.search(name)]
    if num_state := len(others) - len(unused):
        unused.append(f"{num_state} optimizer variables")
    if unused:
        console.info("weights: not used: %s", ", ".join(unused))


def _count_layers(shapes):
    return len({match[1] for match in map(_LAYER.match, shapes) if match})
