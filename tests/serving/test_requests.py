"""The requests to TF Serving in the documentation, answered by a SavedModel in this process."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs, serving
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tasks.classification.served import classification_servable
from tests.common import tiny
from tests.docs import pages
from tests.serving.serving_models import LENGTH, randomized


def test_requests_of_the_documentation(root, vocab_file, tmp_path, monkeypatch):
    requests = pytest.importorskip("requests")
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    config = tiny(vocab_size=2200, num_hidden_layers=1)
    options = {"labels": ("0", "1"), "num_texts": 2, "max_seq_length": LENGTH}
    task_config = ClassificationConfig(config, vocab_file, **options)
    model = randomized(bert_tf.BertClassifier(config, 2))
    servable = classification_servable(model, task_config, configs.ServingConfig(warm_up=False))
    path = serving.export(servable, str(tmp_path))
    signatures = tf.saved_model.load(path).signatures

    def run(columns, name="serving_default"):
        serve = signatures[name]
        specs = serve.structured_input_signature[1]
        outputs = serve(**{x: tf.constant(y, specs[x].dtype) for x, y in columns.items()})
        return {x: y.numpy() for x, y in outputs.items()}

    def post(url, timeout, **options):
        assert url == "http://localhost:8501/v1/models/mrpc:predict"
        rows = options["json"]["instances"]
        outputs = run({name: [row[name] for row in rows] for name in rows[0]})
        values = zip(*(x.tolist() for x in outputs.values()), strict=True)
        predictions = [dict(zip(outputs, row, strict=True)) for row in values]
        response = requests.Response()
        response.status_code = 200
        response._content = json.dumps({"predictions": predictions}, default=bytes.decode).encode()
        return response

    def predict(request, timeout):
        assert request.model_spec.name == "mrpc"
        columns = {name: tf.make_ndarray(x) for name, x in request.inputs.items()}
        outputs = run(columns, request.model_spec.signature_name)
        tensors = {name: tf.make_tensor_proto(x) for name, x in outputs.items()}
        return predict_pb2.PredictResponse(outputs=tensors)

    monkeypatch.setattr(requests, "post", post)
    stub = types.SimpleNamespace(Predict=predict)
    monkeypatch.setattr(prediction_service_pb2_grpc, "PredictionServiceStub", lambda channel: stub)
    names = {}
    for block in pages.blocks(root):
        if block.language == "python" and "localhost:850" in block.text:
            namespace = {}
            exec(block.text, namespace)
            names |= namespace
    rest, strings, ids = names["response"], names["texts"], names["ids"]
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
