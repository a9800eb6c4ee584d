"""SavedModels of ids in other formats, each answered by its own runtime.

Skipped where these runtimes are not installed: `pip install ai-edge-litert tf2onnx onnxruntime`.
"""

import os
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from test_modeling import TINY
from test_scripts import WORDS
from test_serving import LENGTH, shaken

import bert_tf
from bert_tf import serving, tasks

SHAPES = [(1, 5), (3, 9)]


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """A SavedModel of a classifier with the exact GELU; inputs of two shapes, and its answers."""
    folder = tmp_path_factory.mktemp("other")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    config = bert_tf.BertConfig.from_dict({**TINY.to_dict(), "hidden_act": "gelu_erf"})
    common = (LENGTH, True, config, str(folder / "vocab.txt"), "classification")
    settings = tasks.Settings(("x", "y", "z"), *common)
    options = serving.Options(inputs="ids", warm_up=False)
    model = shaken(bert_tf.BertClassifier(config, 3))
    saved = serving.export(serving.classifier(model, settings, options), str(folder / "m"))
    serve = tf.saved_model.load(saved).signatures["serving_default"]
    rng = np.random.default_rng(0)
    cases = []
    for shape in SHAPES:
        mask = (np.arange(shape[1]) < shape[1] - np.arange(shape[0])[:, None]).astype("int32")
        inputs = {
            "input_ids": rng.integers(1, 18, shape).astype("int32"),
            "input_mask": mask,
            "segment_ids": rng.integers(0, 2, shape).astype("int32"),
        }
        outputs = serve(**{name: tf.constant(value) for name, value in inputs.items()})
        cases.append((inputs, {name: value.numpy() for name, value in outputs.items()}))
    return saved, cases


def test_litert(answered):
    """By the converter of TensorFlow, without operations of TensorFlow in what it makes."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter", reason="no ai-edge-litert")
    saved, cases = answered
    made = tf.lite.TFLiteConverter.from_saved_model(saved).convert()
    runner = interpreter.Interpreter(model_content=made).get_signature_runner("serving_default")
    for inputs, expected in cases:
        found = runner(**inputs)
        assert found.keys() == expected.keys()
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def test_onnx(answered, root, tmp_path):
    pytest.importorskip("tf2onnx", reason="no tf2onnx")
    runtime = pytest.importorskip("onnxruntime", reason="no onnxruntime")
    saved, cases = answered
    script, made = str(root / "tools" / "convert_to_onnx.py"), str(tmp_path / "m.onnx")
    done = subprocess.run(
        [sys.executable, script, "--saved-model", saved, "--output", made],
        capture_output=True,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0 and "not supported" not in done.stderr, done.stderr
    session = runtime.InferenceSession(made)
    names = [output.name for output in session.get_outputs()]
    for inputs, expected in cases:
        found = dict(zip(names, session.run(names, inputs), strict=True))
        assert found.keys() == expected.keys()
        for name in expected:
            np.testing.assert_allclose(found[name], expected[name], atol=1e-5)
