"""The architectures whose Hugging Face folders can be read, each in its module.

Each differs from BERT by a few values of `BertConfig`, and by the names of weights and options. To
add one, add its module and its entry here.
"""

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
    """Return an `Architecture`; raise UserError if there is none for this "model_type"."""
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        others = ", ".join(repr(name) for name in ARCHITECTURES if name != "bert")
        raise UserError(
            f"model_type is {model_type!r}, but BERT requires 'bert'; supported are also {others}"
        )
    return ARCHITECTURES[model_type]
