"""Architectures whose Hugging Face folders can be loaded."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from bert_tf.errors import UserError


class Architecture(NamedTuple):
    """Differences between an architecture's Hugging Face folders and BERT's.

    Attributes:
      config_names: dict from keys of its config.json to BERT's keys.
      config_values: `BertConfig` values that are hard-coded in transformers.
      weight_names: pairs (its own, BERT's) of substrings of weight names, replaced in this order.
    """

    config_names: Mapping[str, str] = {}
    config_values: Mapping[str, Any] = {}
    weight_names: tuple[tuple[str, str], ...] = ()

    def bert_weight_name(self, name):
        """Return the name of the same weight in transformers' BERT."""
        for own, bert_name in self.weight_names:
            name = name.replace(own, bert_name)
        return name


# DistilBERT (Sanh et al., arXiv:1910.01108).
#
# The encoder is BERT's without segment embeddings. Instead of a pooler, the text classifier of
# transformers has a dense layer with ReLU.
DISTILBERT = Architecture(
    config_names={
        "activation": "hidden_act",
        "attention_dropout": "attention_probs_dropout_prob",
        "dim": "hidden_size",
        "dropout": "hidden_dropout_prob",
        "hidden_dim": "intermediate_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
    },
    # The encoder ignores the two segment ids of pairs.
    config_values={"has_segment_embeddings": False, "pooler_act": "relu", "type_vocab_size": 2},
    weight_names=(
        ("distilbert.", ""),
        ("transformer.layer.", "encoder.layer."),
        (".attention.q_lin.", ".attention.self.query."),
        (".attention.k_lin.", ".attention.self.key."),
        (".attention.v_lin.", ".attention.self.value."),
        (".attention.out_lin.", ".attention.output.dense."),
        (".sa_layer_norm.", ".attention.output.LayerNorm."),
        (".ffn.lin1.", ".intermediate.dense."),
        (".ffn.lin2.", ".output.dense."),
        (".output_layer_norm.", ".output.LayerNorm."),
        ("pre_classifier.", "bert.pooler.dense."),
        ("vocab_transform.", "cls.predictions.transform.dense."),
        ("vocab_layer_norm.", "cls.predictions.transform.LayerNorm."),
        ("vocab_projector.bias", "cls.predictions.bias"),
        ("vocab_projector.weight", "cls.predictions.decoder.weight"),
    ),
)

# ELECTRA, discriminator and generator (Clark et al., arXiv:2003.10555).
#
# The embeddings may be narrower than the layers; a dense layer then projects them. Instead of a
# pooler, the text classifier of transformers has a dense layer with GELU.
ELECTRA = Architecture(
    config_values={"pooler_act": "gelu_erf"},
    weight_names=(
        ("electra.", ""),
        ("embeddings_project.", "bert.embeddings_project."),
        ("classifier.dense.", "bert.pooler.dense."),
        ("classifier.out_proj.", "classifier."),
        ("generator_predictions.dense.", "cls.predictions.transform.dense."),
        ("generator_predictions.LayerNorm.", "cls.predictions.transform.LayerNorm."),
        ("generator_lm_head.bias", "cls.predictions.bias"),
        ("generator_lm_head.weight", "cls.predictions.decoder.weight"),
    ),
)

# By the "model_type" of the folder's config.json.
ARCHITECTURES = {
    "bert": Architecture(),
    "distilbert": DISTILBERT,
    "electra": ELECTRA,
}


def find_architecture(model_type):
    """Return the `Architecture` of a "model_type"; raise UserError if it is not supported."""
    if not isinstance(model_type, str) or model_type not in ARCHITECTURES:
        supported = ", ".join(map(repr, ARCHITECTURES))
        raise UserError(f"model_type is {model_type!r}, expected one of {supported}")
    return ARCHITECTURES[model_type]
