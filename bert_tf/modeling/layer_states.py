"""Changes in the sublayers of a layer or model: frozen, LoRA, quantized.

They are saved with the constructor's arguments, by the path of the sublayer, such as
"bert/layer_0/query".
"""

import contextlib
import gc
import os

import keras

from bert_tf.errors import UserError
from bert_tf.io import files

_KEY = "layer_states"
# The file of a quantized model in a preset, which `keras.models.load_model` also reads.
QUANTIZED = "quantized.keras"


def named_layers(layer, without=()):
    """Yield (path, sublayer) for each nested sublayer once, parents first."""
    seen = {id(layer), *map(id, without)}
    parents = [("", layer)]
    for path, parent in parents:
        for child in parent._layers:
            if id(child) not in seen and not isinstance(child, keras.layers.InputLayer):
                seen.add(id(child))
                parents.append((f"{path}{child.name}/", child))
                yield f"{path}{child.name}", child


def get_states(layer, without=()):
    """Return a config entry with the changes in a layer and its sublayers, except `without`."""
    layers = [("", layer), *named_layers(layer, without)]
    states = {path: state for path, child in layers if (state := _state(child))}
    return {_KEY: states} if states else {}


def split(config):
    """Return the constructor's arguments and the `states` in a config."""
    return {x: y for x, y in config.items() if x != _KEY}, config.get(_KEY, {})


def _state(layer):
    state = {} if layer.trainable else {"trainable": False}
    if getattr(layer, "lora_rank", None):
        state["lora_rank"], state["lora_alpha"] = layer.lora_rank, layer.lora_alpha
    if isinstance(layer, keras.layers.Dense) and layer.quantization_mode:
        state["dtype"] = keras.dtype_policies.serialize(layer.dtype_policy)
        config = layer.quantization_config
        state["quantization_config"] = keras.saving.serialize_keras_object(config)
    return state


@contextlib.contextmanager
def frozen_garbage():
    """Shorten the garbage collections that Keras runs for each kernel that it quantizes."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def restore(layer, states):
    """Apply `states` to a new layer and its sublayers."""
    children = {"": layer, **dict(named_layers(layer))}
    with frozen_garbage():
        for path, state in states.items():
            _adapt(children[path], state)
    for path, child in children.items():
        trainable = states.get(path, {}).get("trainable", True)
        if child.trainable != trainable:
            child.trainable = trainable


def _adapt(layer, state):
    if "dtype" in state and not layer.quantization_mode:  # which a `DTypePolicyMap` has set
        policy = keras.dtype_policies.deserialize(state["dtype"])
        config = keras.saving.deserialize_keras_object(state["quantization_config"])
        layer.quantization_config = config
        if layer.built:
            layer.quantize(policy.quantization_mode, config=config)
        else:
            layer.dtype_policy = policy
    if "lora_rank" in state:
        if layer.built:
            layer.enable_lora(state["lora_rank"], state["lora_alpha"])
        else:
            layer.lora_rank, layer.lora_alpha = state["lora_rank"], state["lora_alpha"]


def is_quantized(model):
    return any(getattr(layer, "quantization_mode", None) for _, layer in named_layers(model))


def is_quantized_preset(folder):
    return files.exists(os.path.join(folder, QUANTIZED))


def save_quantized(model, folder):
    """Write a model, if it is quantized, to a folder; return whether it is.

    The state of its optimizer is left out.
    """
    if not is_quantized(model):
        return False
    files.make_folder(folder)
    optimizer = getattr(model, "optimizer", None)
    model.optimizer = None
    try:
        model.save(os.path.join(folder, QUANTIZED))
    finally:
        model.optimizer = optimizer
    return True


def load_quantized(folder, model_class, options):
    """Return the quantized model that `save_to_preset` wrote to a folder, None if there is none.

    Raises UserError unless it is a `model_class` with these `options`; None matches any value.
    """
    if not is_quantized_preset(folder):
        return None
    path = os.path.join(folder, QUANTIZED)
    model = keras.saving.load_model(path, compile=False)
    saved = {**model.get_config(), "dtype": model.dtype_policy.name, "class": type(model).__name__}
    if options.get("dtype") is not None:
        options = {**options, "dtype": keras.dtype_policies.get(options["dtype"]).name}
    for name, value in {"class": model_class.__name__, **options}.items():
        if value not in (None, saved.get(name)):
            raise UserError(f"`{name}={value}`: {path} is quantized with {name}={saved.get(name)}")
    return model
