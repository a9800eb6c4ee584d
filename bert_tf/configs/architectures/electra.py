"""ELECTRA, discriminator and generator (Clark et al., arXiv:2003.10555).

The embeddings may be narrower than the layers; a dense layer then projects them. Instead of a
pooler, the text classifier of transformers has a dense layer with GELU.
"""

from bert_tf.configs.architectures.architecture import Architecture

ARCHITECTURE = Architecture(
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
