"""The pipelines give the same numbers on Keras' JAX backend as with TensorFlow.

As a script, it prints the results of a class: `KERAS_BACKEND=jax python test_other_backend.py
TextClassifier PRESET FOLDER`.
"""

import json
import sys

import keras
import numpy as np
import pytest

import bert_tf
from bert_tf import modeling
from bert_tf.modeling.layer_states import named_layers
from tests.common import run_python

TEXTS = ["a b c", "d e", "f g h i", "j", "a c", "b d f", "e", "g a"]
LABELS = ["x", "y"] * 4
SPANS = [[{"start": 0, "end": 1, "label": "L"}]] * 8
# The options of a preset, the arguments of `fit`, and the arguments of `predict`.
CASES = {
    "TextClassifier": ({"labels": ["x", "y"]}, (TEXTS, LABELS), ("text",)),
    "TokenClassification": ({"labels": ["O", "B-L", "I-L"]}, (TEXTS, SPANS), ("text",)),
    "QuestionAnswering": (
        {"max_query_length": 4, "doc_stride": 4}, (["a"] * 8, TEXTS, [x[0] for x in TEXTS]),
        ("question", "context"),
    ),
    "MultipleChoice": (
        {}, (TEXTS, [["a", "b c"]] * 8, [0, 1] * 4), ("context", "endings"),
    ),
    "SentenceEncoder": ({}, (TEXTS,), ("text",)),
}  # fmt: skip


def compute(name, preset, folder, batch_size=3):
    """Return the losses, evaluation and predictions of a pipeline, and export its model."""
    _, data, names = CASES[name]
    pipeline = getattr(bert_tf, name).from_preset(preset)
    for _, layer in named_layers(pipeline.model):
        if isinstance(layer, modeling.Dropout):
            layer.rate = 0.0
    pairs = (list(zip(TEXTS, TEXTS[::-1], strict=True)),) if name == "SentenceEncoder" else data
    history = pipeline.fit(
        *pairs, validation_data=pairs, epochs=2, batch_size=int(batch_size), learning_rate=1e-3,
        shuffle=False, verbose=0,
    )  # fmt: skip
    run = pipeline.fit(
        *pairs, validation_data=pairs, epochs=2, batch_size=8, learning_rate=1e-3,
        output_dir=f"{folder}/run",
    )  # fmt: skip
    pipeline.save_to_preset(f"{folder}/saved", overwrite=True)
    path = pipeline.export(f"{folder}/export", warm_up=False)
    inputs = data[: len(names)]
    row = dict(zip(names, (x[0] for x in inputs), strict=True))
    return {
        "backend": keras.backend.backend(),
        "history": {key: list(map(float, x)) for key, x in history.history.items()},
        "run": {key: list(map(float, x)) for key, x in run.history.items()},
        "evaluation": pipeline.evaluate(*pairs),
        "answers": np.asarray(pipeline.predict(*inputs)).tolist(),
        "path": path,
        "row": row,
    }


def make_preset(name, folder, tmp_path):
    """Write a model with a head; the backends would initialise heads differently."""
    options = {**CASES[name][0], "max_seq_length": 12}
    pipeline = getattr(bert_tf, name).from_preset(str(folder), **options)
    pipeline.save_to_preset(tmp_path / "preset")
    return str(tmp_path / "preset")


def numbers(value):
    """Return the numbers in nested lists and dicts."""
    return [x for x in keras.tree.flatten(value) if isinstance(x, (int, float))]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_jax_gives_the_numbers_of_tensorflow(name, encoder_folder, tmp_path):
    """Trains, evaluates, predicts and exports with batches of several sizes and lengths."""
    pytest.importorskip("jax")
    preset = make_preset(name, encoder_folder, tmp_path)
    expected = compute(name, preset, str(tmp_path / "tf"))
    environment = {"KERAS_BACKEND": "jax", "PYTHONPATH": ":".join(sys.path)}
    arguments = (__file__, name, preset, tmp_path / "jax")
    found = json.loads(run_python(*arguments, **environment).splitlines()[-1])
    assert found.pop("backend") == "jax" and expected.pop("backend") == "tensorflow"
    paths = found.pop("path"), expected.pop("path")
    row = found.pop("row"), expected.pop("row")
    np.testing.assert_allclose(numbers(found), numbers(expected), atol=2e-5)
    answers = [numbers(bert_tf.serving.Predictor(path)([row[1]])) for path in paths]
    np.testing.assert_allclose(*answers, atol=2e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["TextClassifier", "SentenceEncoder"])
def test_devices_of_jax_make_the_same_steps(name, encoder_folder, tmp_path):
    """Uses four simulated devices and batches that do not divide evenly."""
    pytest.importorskip("jax")
    environment = {"KERAS_BACKEND": "jax", "PYTHONPATH": ":".join(sys.path)}
    preset, results = make_preset(name, encoder_folder, tmp_path), []
    for count in (1, 4):
        environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={count}"
        # The other losses compare examples, so batches cannot be filled by repeating some.
        size = 3 if name == "TextClassifier" else 4
        arguments = (__file__, name, preset, tmp_path / str(count), size)
        results.append(json.loads(run_python(*arguments, **environment).splitlines()[-1]))
    # Reported losses count a filled batch as a full batch.
    keys = ["answers", "run"] if name == "TextClassifier" else ["answers", "run", "history"]
    one, four = (numbers({key: x[key] for key in keys}) for x in results)
    np.testing.assert_allclose(four, one, atol=1e-5)


def test_torch_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    with pytest.raises(bert_tf.UserError, match="Keras' backend torch is not supported"):
        bert_tf.BertModel(bert_tf.BertConfig(9, 8, 1, 2, 8))


if __name__ == "__main__":
    print(json.dumps(compute(*sys.argv[1:])))
