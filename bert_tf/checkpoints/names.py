"""Table of weight names: Keras variable paths, the release's names, Hugging Face's names.

The Keras variables have the release's shapes. Hugging Face stores the kernels of dense layers
transposed, as (out, in).
"""

import re

import keras
import numpy as np

from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.modeling.base import PretrainedModel
from bert_tf.modeling.layer_states import is_quantized, named_layers
from bert_tf.modeling.models import BertModel

_NORM = ("gamma", "beta")
_DENSE = ("kernel", "bias")
_OUTPUT = ("output_weights", "output_bias")
_EMBEDDINGS = ("word_embeddings", "token_type_embeddings", "position_embeddings")

# Rows: path of the Keras layer, the release's name, and the variables of the layer. "{}" is the
# index of the transformer layer.
_TABLE = (
    ("embeddings", "bert/embeddings", _EMBEDDINGS),
    ("embeddings/LayerNorm", "bert/embeddings/LayerNorm", _NORM),
    # Only if the embeddings and the layers differ in width.
    ("embeddings/projection", "bert/embeddings_project", _DENSE),
    ("layer_{}/query", "bert/encoder/layer_{}/attention/self/query", _DENSE),
    ("layer_{}/key", "bert/encoder/layer_{}/attention/self/key", _DENSE),
    ("layer_{}/value", "bert/encoder/layer_{}/attention/self/value", _DENSE),
    ("layer_{}/attention_dense", "bert/encoder/layer_{}/attention/output/dense", _DENSE),
    ("layer_{}/attention_norm", "bert/encoder/layer_{}/attention/output/LayerNorm", _NORM),
    ("layer_{}/intermediate", "bert/encoder/layer_{}/intermediate/dense", _DENSE),
    ("layer_{}/output_dense", "bert/encoder/layer_{}/output/dense", _DENSE),
    ("layer_{}/output_norm", "bert/encoder/layer_{}/output/LayerNorm", _NORM),
    ("pooler", "bert/pooler/dense", _DENSE),
    ("masked_lm/dense", "cls/predictions/transform/dense", _DENSE),
    ("masked_lm/LayerNorm", "cls/predictions/transform/LayerNorm", _NORM),
    ("masked_lm", "cls/predictions", ("output_bias",)),
    ("next_sentence", "cls/seq_relationship", _OUTPUT),
    # Classifies a text or, in a token classifier, each token.
    ("classifier", "", _OUTPUT),
    ("spans", "cls/squad", _OUTPUT),
)

# The release's name of a layer -> Hugging Face's, if they differ by more than dots and slashes.
_RENAMED = {"": "classifier", "cls/squad": "qa_outputs"}
# Variable -> Hugging Face's name.
_HUGGING_FACE = {name: f"{name}.weight" for name in _EMBEDDINGS}
_HUGGING_FACE |= dict.fromkeys(("kernel", "gamma", "output_weights"), "weight")
_HUGGING_FACE |= dict.fromkeys(("bias", "beta", "output_bias"), "bias")

_KERAS_TO_RELEASE: dict[str, str] = {}
_RELEASE_TO_HUGGING_FACE: dict[str, str] = {}
for _path, _release, _variables in _TABLE:
    _layer = _RENAMED.get(_release) or _release.replace("layer_", "layer.").replace("/", ".")
    for _variable in _variables:
        _name = f"{_release}/{_variable}".lstrip("/")
        _KERAS_TO_RELEASE[f"{_path}/{_variable}"] = _name
        _RELEASE_TO_HUGGING_FACE[_name] = f"{_layer}.{_HUGGING_FACE[_variable]}"
_HUGGING_FACE_TO_RELEASE = {name: release for release, name in _RELEASE_TO_HUGGING_FACE.items()}


_LAYER = re.compile(r"(?<=layer[_.])\d+(?=[/.])")


def _translate(table, name):
    """Look up `name`, with "{}" in place of a layer's index, or return None."""
    template = table.get(_LAYER.sub("{}", name, count=1))
    return template and template.format(*_LAYER.findall(name))


def release_name(path):
    """Return the release's name of a Keras variable at any nesting depth, None if it has none.

    >>> release_name("model/layer_3/query/kernel")
    'bert/encoder/layer_3/attention/self/query/kernel'
    """
    parts = path.split("/")
    suffixes = ("/".join(parts[i:]) for i in range(len(parts)))
    return next(filter(None, (_translate(_KERAS_TO_RELEASE, suffix) for suffix in suffixes)), None)


def from_hugging_face(name):
    """Return the release's name of a Hugging Face weight, None if the table lacks it.

    Models without a head omit the prefix "bert."; old folders name layer-norm weights gamma, beta.
    """
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    name = name.replace("LayerNorm.beta", "LayerNorm.bias")
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    return _translate(_HUGGING_FACE_TO_RELEASE, name)


def to_hugging_face(name):
    """Return Hugging Face's name for a release name, None if the table lacks it."""
    return _translate(_RELEASE_TO_HUGGING_FACE, name)


def is_transposed(name):
    return name.endswith("/kernel")


def weights(model):
    """Return a dict from release name to variable with all weights of a model, frozen or not.

    In other Keras models, only bert_tf's layers are included; they must keep their names.

    Raises:
      UserError: if the model is quantized, uses LoRA or has two encoders.
      KeyError: if the table lacks a weight of a bert_tf model.
    """
    if lora_layers(model):
        raise UserError(
            f"{model.name} uses LoRA, whose updates are not in the kernels; use "
            "`checkpoints.tensors(model)`, which merges them"
        )
    return find_weights(model)


def find_weights(model):
    """Return `weights` of a model that may use LoRA, without LoRA's variables."""
    if is_quantized(model):
        raise UserError(
            f"{model.name} is quantized, so its weights cannot be accessed by name; save it with "
            "`save_to_preset`, or load and write checkpoints before `quantize`"
        )
    named = {}
    for variable in model.weights:
        if variable.path.endswith(("/lora_kernel_a", "/lora_kernel_b")):
            continue
        if (name := release_name(variable.path)) in named:
            raise UserError(
                f"{model.name} has two weights {name}: {named[name].path} and {variable.path}; "
                "pass its encoders separately"
            )
        if name:
            named[name] = variable
        elif isinstance(model, PretrainedModel):
            raise KeyError(f"{variable.path} is not in the table of weight names")
    return named


def lora_layers(model):
    layers = (layer for _, layer in named_layers(model))
    return [layer for layer in layers if getattr(layer, "lora_enabled", False)]


def tensors(model):
    """Return a dict from release name to array with the weights of a model, with LoRA merged.

    >>> checkpoints.write("folder/bert_model.ckpt", checkpoints.tensors(model))

    Raises:
      UserError: if the model is quantized or has two encoders.
    """
    values = {x: keras.ops.convert_to_numpy(y) for x, y in find_weights(model).items()}
    for layer in lora_layers(model):
        # Not `layer.kernel`, which mixed precision rounds.
        if name := release_name(f"{layer.path}/kernel"):
            a, b = map(keras.ops.convert_to_numpy, (layer.lora_kernel_a, layer.lora_kernel_b))
            values[name] = values[name] + np.float32(layer.lora_alpha / layer.lora_rank) * (a @ b)
    return values


def encoder_shapes(config):
    """Return a dict from release name to shape with the encoder weights."""
    # All layers have the same shapes.
    one_layer = BertConfig.from_dict({**config.to_dict(), "num_hidden_layers": 1})
    shapes = {}
    for name, variable in find_weights(BertModel(one_layer)).items():
        for number in range(config.num_hidden_layers if "/layer_0/" in name else 1):
            shapes[name.replace("/layer_0/", f"/layer_{number}/")] = tuple(variable.shape)
    return shapes
