"""The requests to TF Serving in the documentation, sent to a stand-in."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs, serving
from bert_tf.tasks.classification.served import classification_servable
from tests.common import tiny
from tests.docs import pages
from tests.serving.serving_models import classifier_config, randomized


def test_requests_of_the_documentation(root, vocab_file, tmp_path):
    pytest.importorskip("tensorflow_serving")
    from tests.serving.serving_stand_in import StandIn

    config = tiny(vocab_size=2200, num_hidden_layers=1)
    task_config = classifier_config(vocab_file, config, labels=("0", "1"), num_texts=2)
    model = randomized(bert_tf.BertClassifier(config, 2))
    servable = classification_servable(model, task_config, configs.ServingConfig(warm_up=False))
    path = serving.export(servable, str(tmp_path))
    stand_in, responses = StandIn(path, "mrpc"), []
    try:
        for block in pages.blocks(root):
            if block.language == "python" and "localhost:850" in block.text:
                text = block.text.replace("localhost:8501", stand_in.rest)
                namespace = {}
                exec(text.replace("localhost:8500", stand_in.grpc), namespace)
                responses.append(namespace["response"])
    finally:
        stand_in.stop()
    rest, *messages = responses
    strings, ids = (
        {name: tf.make_ndarray(x) for name, x in message.outputs.items()} for message in messages
    )
    (expected,) = serving.Predictor(path)([{"text_a": "He slept.", "text_b": "He was asleep."}])
    (row,) = rest.json()["predictions"]
    assert row["label"] == expected["label"] == strings["label"][0].decode()
    for probabilities in (row["probabilities"], strings["probabilities"][0]):
        expected_values = list(expected["probabilities"].values())
        np.testing.assert_allclose(probabilities, expected_values, atol=1e-5)
    inputs = {"input_ids": [[101, 2002, 102]], "input_mask": [[1] * 3], "segment_ids": [[0] * 3]}
    inputs = {name: tf.constant(value) for name, value in inputs.items()}
    expected = servable.serve_ids(inputs)["probabilities"]
    np.testing.assert_allclose(ids["probabilities"], expected, atol=1e-5)
