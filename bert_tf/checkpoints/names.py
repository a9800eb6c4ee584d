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

# Hugging Face's name is the release's, with dots instead of slashes.
_DOTTED = "dotted"

# Rows: Keras path, the release's name, Hugging Face's name, and the variables of the layer (empty
# if the row is a variable). "{}" is the index of the transformer layer.
_TABLE = (
    ("embeddings/word_embeddings", "bert/embeddings/word_embeddings", _DOTTED, ()),
    ("embeddings/token_type_embeddings", "bert/embeddings/token_type_embeddings", _DOTTED, ()),
    ("embeddings/position_embeddings", "bert/embeddings/position_embeddings", _DOTTED, ()),
    ("embeddings/LayerNorm", "bert/embeddings/LayerNorm", _DOTTED, _NORM),
    # Only if the embeddings and the layers differ in width.
    ("embeddings/projection", "bert/embeddings_project", _DOTTED, _DENSE),
    ("layer_{}/query", "bert/encoder/layer_{}/attention/self/query", _DOTTED, _DENSE),
    ("layer_{}/key", "bert/encoder/layer_{}/attention/self/key", _DOTTED, _DENSE),
    ("layer_{}/value", "bert/encoder/layer_{}/attention/self/value", _DOTTED, _DENSE),
    ("layer_{}/attention_dense", "bert/encoder/layer_{}/attention/output/dense", _DOTTED, _DENSE),
    ("layer_{}/attention_norm", "bert/encoder/layer_{}/attention/output/LayerNorm", _DOTTED, _NORM),
    ("layer_{}/intermediate", "bert/encoder/layer_{}/intermediate/dense", _DOTTED, _DENSE),
    ("layer_{}/output_dense", "bert/encoder/layer_{}/output/dense", _DOTTED, _DENSE),
    ("layer_{}/output_norm", "bert/encoder/layer_{}/output/LayerNorm", _DOTTED, _NORM),
    ("pooler", "bert/pooler/dense", _DOTTED, _DENSE),
    ("masked_lm/dense", "cls/predictions/transform/dense", _DOTTED, _DENSE),
    ("masked_lm/LayerNorm", "cls/predictions/transform/LayerNorm", _DOTTED, _NORM),
    ("masked_lm/output_bias", "cls/predictions/output_bias", "cls.predictions.bias", ()),
    ("next_sentence", "cls/seq_relationship", _DOTTED, _OUTPUT),
    # Classifies a text or, in a token classifier, each token.
    ("classifier", "", "classifier", _OUTPUT),
    ("spans", "cls/squad", "qa_outputs", _OUTPUT),
)

# Variable -> Hugging Face's name.
_HUGGING_FACE = {
    **dict.fromkeys(("kernel", "gamma", "output_weights"), "weight"),
    **dict.fromkeys(("bias", "beta", "output_bias"), "bias"),
}


def _expand_table():
    for path, release, hugging_face, variables in _TABLE:
        if hugging_face == _DOTTED:
            hugging_face = release.replace("layer_{}", "layer.{}").replace("/", ".")
            hugging_face += "" if variables else ".weight"
        if not variables:
            yield path, release, hugging_face
        for variable in variables:
            yield (
                f"{path}/{variable}",
                f"{release}/{variable}".lstrip("/"),
                f"{hugging_face}.{_HUGGING_FACE[variable]}",
            )


_ROWS = tuple(_expand_table())
_KERAS_TO_RELEASE = {path: release for path, release, _ in _ROWS}
_HUGGING_FACE_TO_RELEASE = {name: release for _, release, name in _ROWS}
_RELEASE_TO_HUGGING_FACE = {release: name for _, release, name in _ROWS}


def _translate(table, name, layer_pattern):
    """Look up `name`, whose layer index matches `layer_pattern`, or return None."""
    match = re.search(layer_pattern, name)
    if match is None:
        return table.get(name)
    template = table.get(name[: match.start(1)] + "{}" + name[match.end(1) :])
    return template and template.format(match.group(1))


def release_name(path):
    """Return the release's name of a Keras variable at any nesting depth, None if it has none.

    >>> release_name("model/layer_3/query/kernel")
    'bert/encoder/layer_3/attention/self/query/kernel'
    """
    parts = path.split("/")
    suffixes = ("/".join(parts[i:]) for i in range(len(parts)))
    names = (_translate(_KERAS_TO_RELEASE, suffix, r"^layer_(\d+)/") for suffix in suffixes)
    return next(filter(None, names), None)


def from_hugging_face(name):
    """Return the release's name of a Hugging Face weight, None if the table lacks it.

    Models without a head omit the prefix "bert."; old folders name layer-norm weights gamma, beta.
    """
    name = name.replace("LayerNorm.gamma", "LayerNorm.weight")
    name = name.replace("LayerNorm.beta", "LayerNorm.bias")
    if name.startswith(("embeddings.", "encoder.", "pooler.")):
        name = f"bert.{name}"
    return _translate(_HUGGING_FACE_TO_RELEASE, name, r"\.layer\.(\d+)\.")


def to_hugging_face(name):
    """Return Hugging Face's name for a release name, None if the table lacks it."""
    return _translate(_RELEASE_TO_HUGGING_FACE, name, r"/layer_(\d+)/")


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
        name = release_name(variable.path)
        if name in named:
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
    variables = find_weights(model)
    values = {name: keras.ops.convert_to_numpy(x) for name, x in variables.items()}
    names = {id(variable): name for name, variable in variables.items()}
    for layer in lora_layers(model):
        if name := names.get(id(layer._kernel)):
            matrices = (layer.lora_kernel_a, layer.lora_kernel_b)
            a, b = (keras.ops.convert_to_numpy(matrix) for matrix in matrices)
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
