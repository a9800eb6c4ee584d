"""Call arguments and serialization shared by the layers and models.

Changes in sublayers (frozen, LoRA, quantized) are saved with the constructor's arguments, by the
path of the sublayer, such as "bert/layer_0/query".

In addition to Keras' `training`, a model passes these call arguments to its layers:

- `replica_id`: an int or an integer scalar tensor. Dropout has a random stream for each value.
  Without it all replicas draw the same mask, because a strategy mirrors the state of generators.
- `recompute`: whether to keep only the input of each transformer layer and recompute the rest in
  the backward pass (Chen et al., arXiv:1604.06174). It saves memory and takes about a third more
  time.
- `skip_padding`: whether the transformer layers skip padding, see `token_layout`.
"""

import keras

from bert_tf.configs.model import BertConfig

CALL_ARGUMENTS = ("replica_id", "recompute", "skip_padding")

# Keras finds the weights in a `.keras` file by the names of layer classes, so renaming a class with
# weights breaks saved files.
register = keras.saving.register_keras_serializable("bert_tf")

_KEY = "layer_states"


def named_layers(layer, without=()):
    """Yield (path, sublayer) for each nested sublayer once, parents first."""
    seen = {id(layer), *map(id, without)}
    level = [("", layer)]
    while level:
        below = []
        for path, parent in level:
            for child in parent._layers:
                if id(child) not in seen and not isinstance(child, keras.layers.InputLayer):
                    seen.add(id(child))
                    below.append((f"{path}{child.name}/", child))
        yield from ((path[:-1], child) for path, child in below)
        level = below


def get_states(layer, without=()):
    """Return a config entry with the changes in sublayers, except those in `without`."""
    states = {}
    for path, child in named_layers(layer, without):
        if state := _state(child):
            states[path] = state
    return {_KEY: states} if states else {}


def split(config):
    options = dict(config)
    states = options.pop(_KEY, {})
    return options, states


def _state(layer):
    state = {}
    if not layer.trainable:
        state["trainable"] = False
    if getattr(layer, "lora_rank", None):
        state["lora_rank"], state["lora_alpha"] = layer.lora_rank, layer.lora_alpha
    if isinstance(layer, keras.layers.Dense) and layer.quantization_mode:
        state["dtype"] = keras.dtype_policies.serialize(layer.dtype_policy)
        state["quantization_config"] = keras.saving.serialize_keras_object(
            layer.quantization_config
        )
    return state


def restore(layer, states):
    """Apply `states` to the sublayers of a new layer."""
    children = dict(named_layers(layer))
    for path, state in states.items():
        _adapt(children[path], state)
    if not layer.trainable:
        layer.trainable = False
    for path, child in children.items():
        trainable = states.get(path, {}).get("trainable", True)
        if child.trainable != trainable:
            child.trainable = trainable


def _adapt(layer, state):
    if "dtype" in state:
        policy = keras.dtype_policies.deserialize(state["dtype"])
        layer.quantization_config = keras.saving.deserialize_keras_object(
            state["quantization_config"]
        )
        if layer.built:
            layer.quantize(policy.quantization_mode, config=layer.quantization_config)
        else:
            layer.dtype_policy = policy
    if "lora_rank" in state:
        if layer.built:
            layer.enable_lora(state["lora_rank"], state["lora_alpha"])
        else:
            layer.lora_rank, layer.lora_alpha = state["lora_rank"], state["lora_alpha"]


class ConfigLayer(keras.layers.Layer):
    """Base class of the layers that a `BertConfig` describes; sublayers are saved by name."""

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self._register_call_context_args(*CALL_ARGUMENTS)

    def _layers_saved_elsewhere(self):
        """Return the sublayers that another layer owns and saves."""
        return ()

    def get_config(self):
        config = {**super().get_config(), "config": self.config.to_dict()}
        return {**config, **get_states(self, self._layers_saved_elsewhere())}

    @classmethod
    def from_config(cls, config):
        options, states = split(config)
        options["config"] = BertConfig.from_dict(options["config"])
        layer = super().from_config(options)
        restore(layer, states)
        return layer
