"""The one table of weight names: ours (Keras variable paths) and the release's.

Shapes are the same on both sides, so a name is all that has to be translated.
"""

import re

_NORM = ("gamma", "beta")
_DENSE = ("kernel", "bias")

# (ours, the release's, the variables of that layer); "{}" is the number of the transformer layer.
_TABLE = (
    ("embeddings/word_embeddings", "bert/embeddings/word_embeddings", ()),
    ("embeddings/token_type_embeddings", "bert/embeddings/token_type_embeddings", ()),
    ("embeddings/position_embeddings", "bert/embeddings/position_embeddings", ()),
    ("embeddings/LayerNorm", "bert/embeddings/LayerNorm", _NORM),
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
    ("masked_lm/output_bias", "cls/predictions/output_bias", ()),
    ("next_sentence/output_weights", "cls/seq_relationship/output_weights", ()),
    ("next_sentence/output_bias", "cls/seq_relationship/output_bias", ()),
    ("classifier/output_weights", "output_weights", ()),
    ("classifier/output_bias", "output_bias", ()),
)


def _expand():
    for ours, theirs, variables in _TABLE:
        for variable in variables or ("",):
            yield (f"{ours}/{variable}".rstrip("/"), f"{theirs}/{variable}".rstrip("/"))


_RELEASE_NAMES = dict(_expand())


def release_name(path):
    """Translates a Keras variable path: "layer_3/query/kernel" -> "bert/encoder/layer_3/...".

    Raises:
      KeyError: if the table does not have it, so that a new layer cannot be forgotten here.
    """
    match = re.match(r"layer_(\d+)/", path)
    if not match:
        return _RELEASE_NAMES[path]
    general = path.replace(match.group(0), "layer_{}/", 1)
    return _RELEASE_NAMES[general].format(match.group(1))


def weights(model):
    """The model's trainable variables by the release's names, in the model's order."""
    return {release_name(variable.path): variable for variable in model.trainable_variables}
