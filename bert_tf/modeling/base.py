"""Bases of the layers and models: call arguments, saving, presets, freezing, LoRA, quantization.

In addition to Keras' `training`, a model passes these call arguments to its layers:

- `replica_id`: an int or an integer scalar tensor. Dropout has a random stream for each value.
  Without it all replicas draw the same mask, because a strategy mirrors the state of generators.
- `recompute`: whether to keep only the input of each transformer layer and recompute the rest in
  the backward pass (Chen et al., arXiv:1604.06174). It saves memory and takes about a third more
  time.
- `skip_padding`: whether the transformer layers skip padding, see `token_layout`.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
from keras import ops

from bert_tf import console
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling import cpu_graph, layer_states
from bert_tf.modeling.objective_model import ObjectiveModel

CALL_ARGUMENTS = ("replica_id", "recompute", "skip_padding")

# Keras finds the weights in a `.keras` file by the names of layer classes, so renaming a class with
# weights breaks saved files.
register = keras.saving.register_keras_serializable("bert_tf")


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
        return {**config, **layer_states.get_states(self, self._layers_saved_elsewhere())}

    @classmethod
    def from_config(cls, config):
        options, states = layer_states.split(config)
        options["config"] = BertConfig.from_dict(options["config"])
        layer = super().from_config(options)
        layer_states.restore(layer, states)
        return layer


class EncoderModel(ObjectiveModel):
    """Base class of models with an encoder: freezing, LoRA, quantization."""

    # Default of the call argument `skip_padding`, which Keras' `fit` does not pass.
    skip_padding = False

    def _encoder(self):
        """Return the `BertModel` in this model, or the model itself.

        This is not a property, because Keras saves weights under the names of properties.
        """
        return next((x for _, x in layer_states.named_layers(self) if x.name == "bert"), self)

    def freeze(self, num_layers: int | None = None) -> None:
        """Exclude the embeddings and the lowest layers of the encoder from training.

        It sets `trainable`, which is saved with the model. Call it before `compile`.

        >>> model.freeze(8)

        Args:
          num_layers: number of transformer layers; 0 for the embeddings only, None for the whole
            encoder including the pooler.

        Raises:
          UserError: if the encoder has fewer layers.
        """
        encoder = self._encoder()
        if num_layers is None:
            encoder.trainable = False
            return
        limit = encoder.config.num_hidden_layers
        if not 0 <= num_layers <= limit:
            raise UserError(f"`num_layers={num_layers}`: expected 0 to {limit}")
        for name in ("embeddings", *(f"layer_{i}" for i in range(num_layers))):
            encoder.get_layer(name).trainable = False

    def enable_lora(
        self,
        rank: int,
        target_layer_names: Sequence[str] = ("query", "value"),
        alpha: float | None = None,
    ) -> None:
        """Freeze the encoder except for low-rank updates of some kernels (arXiv:2106.09685).

        A target's kernel becomes kernel + alpha / rank * A B. A, B, the bias and the head are
        trained. `.keras` files keep A and B, so that training can continue; `checkpoints.tensors`
        merges them into the kernels. Call it before `compile`.

        >>> model.enable_lora(8)

        Args:
          rank: number of columns in A and rows in B, at least 1.
          target_layer_names: dense layers of the encoder: "query", "key", "value",
            "attention_dense", "intermediate", "output_dense" and "pooler".
          alpha: scale of the update; None for `rank`.

        Raises:
          UserError: if `rank` is less than 1, there are no names, or the encoder has no layer with
            one of them.
        """
        if rank < 1:
            raise UserError(f"`rank={rank}`: expected at least 1")
        layers = [layer for _, layer in layer_states.named_layers(self._encoder())]
        dense = [layer for layer in layers if isinstance(layer, keras.layers.Dense)]
        names = dict.fromkeys(layer.name for layer in dense)
        if isinstance(target_layer_names, str):
            target_layer_names = (target_layer_names,)
        unknown = ", ".join(name for name in target_layer_names if name not in names)
        if unknown or not target_layer_names:
            found, expected = unknown or "none", ", ".join(names)
            raise UserError(f"`target_layer_names`: found {found}, expected some of {expected}")
        targets = [layer for layer in dense if layer.name in target_layer_names]
        for layer in targets:
            layer.enable_lora(rank, alpha)
        # A layer that contains a target stays trainable, because freezing it freezes the target.
        for layer in layers:
            children = [layer, *(child for _, child in layer_states.named_layers(layer))]
            layer.trainable = any(child in targets for child in children)

    def quantize(self, mode=None, config=None, filters=None, **kwargs):
        """Quantize the kernels of the dense layers; see `keras.Model.quantize`.

        Embeddings and layer normalization are not quantized. `.keras` files keep the integers.

        >>> model.quantize("int8")
        """
        # Keras warns about each layer that cannot be quantized.
        filters = filters or (lambda layer: isinstance(layer, keras.layers.Dense))
        with layer_states.frozen_garbage():
            super().quantize(mode, config=config, filters=filters, **kwargs)


# Optional inputs, as functions of the ids.
_DEFAULTS = {"input_mask": ops.ones_like, "segment_ids": ops.zeros_like}

# Options with the number of valid ids.
_SIZES = {"input_ids": "vocab_size", "segment_ids": "type_vocab_size"}

# Names of the inputs in transformers, keras-hub and the models of TensorFlow Hub.
_ALIASES = {
    "attention_mask": "input_mask",
    "token_type_ids": "segment_ids",
    "token_ids": "input_ids",
    "padding_mask": "input_mask",
    "mask_positions": "masked_lm_positions",
    "input_word_ids": "input_ids",
    "input_type_ids": "segment_ids",
}

_Model = TypeVar("_Model", bound="PretrainedModel")


class PretrainedModel(EncoderModel, keras.Model):
    """Base class: a functional model that is saved as its constructor's arguments."""

    # Whether the outputs depend on the pooler. If not, checkpoints may lack its weights.
    uses_pooler = True

    def __init__(self, config, dtype, name, inputs, outputs, **options):
        """Create a model with its graph; `options` are the other arguments of its constructor."""
        if keras.backend.backend() == "torch":
            raise UserError(
                "Keras' backend torch is not supported: the dropout of bert_tf is wrong there (at "
                "a rate of 10 % it drops 75 %); set KERAS_BACKEND to tensorflow or jax"
            )
        super().__init__(inputs=inputs, outputs=outputs, name=name)
        self.config = config
        self._options = options
        # A file is loaded in its saved precision, regardless of the current default.
        self.dtype_policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        self._register_call_context_args(*CALL_ARGUMENTS)

    @classmethod
    def from_preset(
        cls: type[_Model],
        preset: str,
        load_weights: bool = True,
        trainable: bool = True,
        **options: Any,
    ) -> _Model:
        """Create a model from a published preset or a folder with weights and config.

        >>> bert_tf.BertModel.from_preset("uncased_L-12_H-768_A-12")

        Args:
          preset: a folder from the release, a training run or Hugging Face; or a name in
            `bert_tf.checkpoints.MODELS` or "OWNER/NAME", downloaded if it is not cached.
          load_weights: whether to load the weights or keep the random initialization.
          trainable: False excludes all weights from training.
          **options: constructor arguments, such as `num_labels` of a classifier, whose default is
            the preset's number of labels.

        Raises:
          UserError: if the model does not exist or its weights do not fit.
        """
        # Imported on use, because `checkpoints` imports this package.
        from bert_tf.checkpoints.resolver import resolve
        from bert_tf.checkpoints.warm_start import count_labels, warm_start

        found = resolve(preset, needs=["bert_config_file"])
        model = layer_states.load_quantized(found.folder, cls, options) if load_weights else None
        if model is None:
            if "num_labels" in inspect.signature(cls).parameters and "num_labels" not in options:
                options["num_labels"] = count_labels(found.checkpoint)
            model = cls(found.bert_config, **options)
            if load_weights:
                warm_start(model, found.checkpoint, argument="preset", on_missing=console.warning)
        if not trainable:
            model.trainable = False
        return model

    def save_to_preset(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Write the model to a folder that `from_preset` loads, without a vocabulary.

        The weights are a checkpoint of the release, or `quantized.keras` if they are quantized.
        `overwrite` replaces a model in a folder without other files. Raises UserError if the
        folder exists otherwise, or cannot be written.
        """
        # Imported on use, because `checkpoints` imports this package.
        from bert_tf.checkpoints import metadata, release, tensors

        release.check_path(folder, "folder")
        with metadata.replacing_preset(folder, overwrite) as temporary:
            files.write_text(os.path.join(temporary, files.CONFIG), self.config.to_json_string())
            if not layer_states.save_quantized(self, temporary):
                release.write(os.path.join(temporary, release.RELEASE_CHECKPOINT), tensors(self))

    def __call__(self, inputs, *args, **kwargs):
        # Keras would reject incomplete inputs before `call`.
        return super().__call__(self._complete(inputs), *args, **kwargs)

    def _complete(self, inputs):
        """Return a dict of exactly the model's inputs.

        Keras matches a dict with additional keys by position, with wrong results.
        """
        names = [tensor.name for tensor in self.inputs]
        inputs = inputs if isinstance(inputs, Mapping) else {names[0]: inputs}
        provided = [name for name in inputs if inputs[name] is not None]
        batch = {_ALIASES.get(name, name): inputs[name] for name in provided}
        missing = [name for name in names if name not in batch]
        # A complete batch may also have labels, but positions that count from 0 are built in.
        unknown = batch.keys() - names if missing else batch.keys() & {"position_ids"}
        if unknown or len(batch) < len(provided) or not _DEFAULTS.keys() >= {*missing}:
            raise UserError(f"`inputs`: found {', '.join(provided)}, expected {', '.join(names)}")
        if not keras.utils.is_keras_tensor(batch["input_ids"]):
            batch = {name: self._convert(name, batch[name]) for name in names if name in batch}
            shape, rank = batch["input_ids"].shape, len(self.inputs[0].shape)
            if len(shape) != rank:  # such as the ids of one text, without a batch
                raise UserError(f"`inputs`: found the shape {shape}, expected {rank} dimensions")
        batch |= {name: _DEFAULTS[name](batch["input_ids"]) for name in missing}
        return {name: batch[name] for name in names}

    def _convert(self, name, x):
        """Return an input as a tensor, of int32 unless it is `numbers`.

        Invalid ids raise UserError, except on JAX if they are tensors. In a TensorFlow graph, a
        cast could change ids of other types to valid ids, so they are clipped to invalid ones.
        """
        is_tensor = ops.is_tensor(x)
        if name == "numbers" or (is_tensor and keras.backend.backend() == "jax"):
            return ops.convert_to_tensor(x, "float32" if name == "numbers" else "int32")
        if is_tensor and cpu_graph.is_traced():
            x = x if x.dtype == "int32" else ops.clip(ops.cast(x, "int64"), -1, 2**31 - 1)
            return ops.cast(x, "int32")
        array = np.asarray(x)
        option = _SIZES.get(name)
        size = getattr(self.config, option) if option else 2**31
        is_valid = (array >= 0) & (array < size) & (array == np.floor(array))
        if not is_valid.all():
            limit = f" ({option} {size})" if option else ""
            expected = f"expected ids from 0 to {size - 1}{limit}"
            raise UserError(f"`{name}`: found {array[~is_valid][0]}, {expected}")
        return ops.convert_to_tensor(array.astype("int32"))

    def call(self, inputs, training=None, mask=None, skip_padding=None, **context):
        """Return the outputs for a dict of inputs, which may have the names of other libraries.

        `input_mask` defaults to 1 and `segment_ids` to 0. A tensor instead of a dict is
        `input_ids`. Unknown names raise UserError, except in a complete batch, whose other
        features, such as labels, are ignored. `modeling.base` describes `replica_id`, `recompute`
        and `skip_padding`.
        """
        context["skip_padding"] = self.skip_padding if skip_padding is None else skip_padding
        inputs = self._complete(inputs)  # again, because `stateless_call` skips `__call__`
        return super().call(inputs, training=training, mask=mask, **context)

    def compute_output_spec(self, inputs, training=None, mask=None, **_):
        """Return the symbolic outputs; Keras' method rejects `call`'s other arguments."""
        return super().compute_output_spec(self._complete(inputs))

    def get_config(self):
        policy = keras.saving.serialize_keras_object(self.dtype_policy)
        config = {"config": self.config.to_dict(), **self._options, "dtype": policy}
        return {**config, "name": self.name, **layer_states.get_states(self)}

    @classmethod
    def from_config(cls, config, custom_objects=None):
        """Create a model from a config."""
        options, states = layer_states.split(config)
        options["dtype"] = keras.saving.deserialize_keras_object(options["dtype"])
        model = cls(BertConfig.from_dict(options.pop("config")), **options)
        layer_states.restore(model, states)
        return model
