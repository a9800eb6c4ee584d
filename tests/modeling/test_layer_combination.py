"""Frozen features: the ways of the paper, and the BiLSTM on them."""

import importlib

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY, features

import bert_tf
from bert_tf.modeling import LAYER_COMBINATIONS, BertFeatureTokenClassifier, LayerCombination


def test_each_way_is_what_the_paper_says():
    """`LayerCombination` beside the same by NumPy; an even weighted sum is a mean."""
    values = TINY.to_dict() | {"num_hidden_layers": 6, "hidden_dropout_prob": 0.0}
    config = bert_tf.BertConfig.from_dict(values)
    inputs = {"input_ids": np.array([[2, 5, 6, 3]]), "input_mask": np.ones((1, 4), int),
              "segment_ids": np.zeros((1, 4), int)}  # fmt: skip
    model = bert_tf.BertModel(config)
    outputs = model(inputs)
    layers = [np.array(x) for x in outputs["all_encoder_layers"]]
    expected = {
        "embeddings": np.array(outputs["embedding_output"]),
        "second_to_last": layers[4],
        "last": layers[5],
        "weighted_sum_last_four": np.mean(layers[2:], 0),
        "concat_last_four": np.concatenate(layers[2:], -1),
        "weighted_sum_all": np.mean(layers, 0),
    }
    assert expected.keys() == LAYER_COMBINATIONS.keys()
    for way, value in expected.items():
        mix = LayerCombination(way, 6)
        found = mix(outputs["embedding_output"], *outputs["all_encoder_layers"])
        np.testing.assert_allclose(np.array(found), value, atol=1e-6, err_msg=way)
    tagger = BertFeatureTokenClassifier(config, 3, "concat_last_four", 5)
    with pytest.raises(bert_tf.UserError, match="wants 4 layers, the model has 2"):
        BertFeatureTokenClassifier(TINY, 3, "concat_last_four")
    # Padding changes nothing.
    padded = {name: np.pad(x, [[0, 0], [0, 3]]) for name, x in inputs.items()}
    np.testing.assert_allclose(
        np.array(tagger(padded)["logits"])[:, :4], np.array(tagger(inputs)["logits"]), atol=1e-6
    )


def test_the_frozen_encoder_never_drops_out():
    rates = {"hidden_dropout_prob": 0.5, "attention_probs_dropout_prob": 0.5}
    config = bert_tf.BertConfig.from_dict({**TINY.to_dict(), **rates})
    tagger = BertFeatureTokenClassifier(config, 3, "last", 5)
    inputs = {name: x for name, x in features().items() if name in tagger.input}
    mixed = keras.Model(tagger.input, tagger.get_layer("mix").output)
    still, trained = (np.array(mixed(inputs, training=mode)) for mode in (False, True))
    np.testing.assert_array_equal(trained, still)
    # What is trained does drop out, and the model remembers its rates.
    still, trained = (np.array(tagger(inputs, training=x)["logits"]) for x in (False, True))
    assert np.abs(trained - still).max() > 1e-3
    assert tagger.get_config()["config"]["hidden_dropout_prob"] == 0.5


def test_no_operation_is_a_gpu_s_alone(monkeypatch):
    """As if there were a GPU: what is traced there must run on CPUs and under XLA too."""
    module = importlib.import_module("keras.src.backend.tensorflow.rnn")
    monkeypatch.setattr(module, "_is_gpu_available", lambda: True)
    tagger = BertFeatureTokenClassifier(TINY, 3, "last", 5)
    graph = tf.function(tagger).get_concrete_function(features()).graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    assert nodes and not [node.op for node in nodes if "Cudnn" in node.op]
