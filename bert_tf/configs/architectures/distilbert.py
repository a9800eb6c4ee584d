"""DistilBERT (Sanh et al., arXiv:1910.01108).

The encoder is BERT's without segment embeddings. Instead of a pooler, the text classifier of
transformers has a dense layer with ReLU.
"""

from bert_tf.configs.architectures.architecture import Architecture

ARCHITECTURE = Architecture(
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
