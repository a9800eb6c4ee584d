"""What the layers and models share: call arguments, and how they are saved.

They are saved as their constructor's arguments. What was changed in their sublayers (frozen, LoRA,
quantized) is saved next to them, by the path of each changed sublayer, such as
"bert/layer_0/query".

A model passes these call arguments on to its layers, next to Keras' `training`, see
`PretrainedModel.call`:

- `replica_id`: an int or an integer scalar tensor. Dropout draws from a different random stream
  for each value. A strategy mirrors the state of the generators, so without it all replicas would
  draw the same mask.
- `recompute`: whether to keep only the input of each transformer layer for the backward pass and
  compute the rest again there (Chen et al., arXiv:1604.06174): less memory, about a third more
  time.
- `skip_padding`: whether the transformer layers compute only tokens, see `token_layout`.
"""

import keras

from bert_tf.configs.model import BertConfig

CALL_ARGUMENTS = ("replica_id", "recompute", "skip_padding")

# Keras addresses the weights in a `.keras` file by the class names of the layers: renaming a class
# with weights breaks saved files, see `LayerMix` in `heads`.
register = keras.saving.register_keras_serializable("bert_tf")

_KEY = "layer_states"


def named_layers(layer, without=()):
    """Yield (path, sublayer) of all nested sublayers, each once, parents first."""
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
    """Return the entry of a layer's config with the changes in its sublayers, {} if there is none.

    The sublayers `without` are left out, and those in them.
    """
    states = {}
    for path, child in named_layers(layer, without):
        if state := _state(child):
            states[path] = state
    return {_KEY: states} if states else {}


def split(config):
    """Return the config without the entry of `get_states`, and the states."""
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
    """Apply `states` to the sublayers of a new layer, which may be unbuilt.

    A layer that was created with `trainable=False` is frozen with all its sublayers.

    Raises:
      ValueError: if the layer lacks one of the sublayers.
    """
    children = dict(named_layers(layer))
    for path, state in states.items():
        if path not in children:
            raise ValueError(f"layer {path} of the saved {layer.name} no longer exists")
        _adapt(children[path], state)
    if not layer.trainable:
        layer.trainable = False
    for path, child in children.items():
        trainable = states.get(path, {}).get("trainable", True)
        if child.trainable != trainable:
            child.trainable = trainable


def _adapt(layer, state):
    """Quantize a dense layer and enable LoRA in it, according to its saved state."""
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
    """Base of the layers that a `BertConfig` describes, saved as its dict.

    Sublayers must have names: what was changed in them is saved by name.
    """

    def __init__(self, config, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self._register_call_context_args(*CALL_ARGUMENTS)

    def _layers_saved_elsewhere(self):
        """Return the sublayers whose states are saved by the layer or model they belong to."""
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
