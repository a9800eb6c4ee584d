"""SavedModels of ids, converted to other formats and run by their runtimes.

Skipped unless these are installed: `pip install ai-edge-litert tf2onnx onnxruntime`.
"""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs, serving
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.tasks.classification.served import classification_servable
from tests.common import python_process
from tests.serving.serving_models import TINY, padded_ids, randomized

SHAPES = [(1, 5), (2, 9)]


@pytest.fixture(scope="module")
def litert():
    return pytest.importorskip("ai_edge_litert.interpreter", reason="ai-edge-litert is missing")


@pytest.fixture(scope="module")
def onnxruntime():
    pytest.importorskip("tf2onnx", reason="tf2onnx is missing")
    return pytest.importorskip("onnxruntime", reason="onnxruntime is missing")


@pytest.fixture(scope="module")
def saved(vocab_file, tmp_path_factory):
    """A classifier with the exact GELU as a SavedModel, inputs of two shapes, and the outputs."""
    config = bert_tf.BertConfig.from_dict({**TINY.to_dict(), "hidden_act": "gelu_erf"})
    task_config = ClassificationConfig(
        config, vocab_file, labels=("x", "y", "z"), num_texts=1, max_seq_length=12
    )
    serving_config = configs.ServingConfig(inputs="ids", warm_up=False)
    model = randomized(bert_tf.BertClassifier(config, 3))
    servable = classification_servable(model, task_config, serving_config)
    path = serving.export(servable, str(tmp_path_factory.mktemp("runtimes")))
    serve = tf.saved_model.load(path).signatures["serving_default"]
    cases = []
    for count, length in SHAPES:
        inputs = {name: x[:count] for name, x in padded_ids(servable, length)[0].items()}
        outputs = serve(**inputs)
        arrays = ({name: x.numpy() for name, x in values.items()} for values in (inputs, outputs))
        cases.append(tuple(arrays))
    return path, cases


def assert_alike(outputs, expected):
    assert outputs.keys() == expected.keys()
    for name in expected:
        np.testing.assert_allclose(outputs[name], expected[name], atol=1e-5)


def test_litert(litert, saved):
    """TensorFlow converts the model; the result has no TensorFlow operations."""
    path, cases = saved
    converted = tf.lite.TFLiteConverter.from_saved_model(path).convert()
    interpreter = litert.Interpreter(model_content=converted)
    runner = interpreter.get_signature_runner("serving_default")
    for inputs, expected in cases:
        assert_alike(runner(**inputs), expected)


@pytest.mark.slow
def test_onnx(onnxruntime, saved, root, tmp_path):
    path, cases = saved
    script, output = str(root / "tools" / "convert_to_onnx.py"), str(tmp_path / "m.onnx")
    arguments = (script, "--saved-model", path, "--output", output)
    done = python_process(*arguments, CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 0 and "not supported" not in done.stderr, done.stderr
    session = onnxruntime.InferenceSession(output)
    names = [output.name for output in session.get_outputs()]
    for inputs, expected in cases:
        assert_alike(dict(zip(names, session.run(names, inputs), strict=True)), expected)
