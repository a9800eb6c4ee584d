"""Architectures whose Hugging Face folders can be loaded, one per module."""

from bert_tf.configs.architectures import distilbert, electra
from bert_tf.configs.architectures.architecture import Architecture
from bert_tf.errors import UserError

# By the "model_type" of the folder's config.json.
ARCHITECTURES = {
    "bert": Architecture(),
    "distilbert": distilbert.ARCHITECTURE,
    "electra": electra.ARCHITECTURE,
}


def find_architecture(model_type):
    """Return the `Architecture` of a "model_type"; raise UserError if it is not supported."""
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        supported = ", ".join(map(repr, ARCHITECTURES))
        raise UserError(f"model_type is {model_type!r}, expected one of {supported}")
    return ARCHITECTURES[model_type]
