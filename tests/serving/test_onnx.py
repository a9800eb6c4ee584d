"""ONNX models give the answers of the SavedModel, by ONNX Runtime without TensorFlow."""

import concurrent.futures
import http.server
import json
import os
import pathlib
import sys
import threading
import urllib.request

import numpy as np
import pytest

import bert_tf
from bert_tf import configs, serving
from tests.common import run_python, tiny
from tests.docs import pages
from tests.serving.conftest import assert_alike
from tests.serving.serving_models import (
    CONFIGS,
    make_servable,
    padded_ids,
    randomized,
    rows_of,
)

onnx, onnxruntime = pytest.importorskip("onnx"), pytest.importorskip("onnxruntime")

ONNX = configs.ServingConfig(format="onnx")
WINDOWS = ("question_answering", "token_classification")


@pytest.fixture
def export(vocab_file, tmp_path):
    """A function from a task to the folder of its exported ONNX model."""

    def export(task, config=ONNX):
        return serving.export(make_servable(task, vocab_file, config), str(tmp_path / task))

    return export


@pytest.mark.parametrize("task", CONFIGS)
def test_outputs(task, export, vocab_file):
    """ONNX Runtime alone computes the outputs of the signature of ids."""
    folder, servable = export(task), make_servable(task, vocab_file, configs.ServingConfig())
    path = os.path.join(folder, "model.onnx")
    onnx.checker.check_model(onnx.load(path), full_check=True)
    session = onnxruntime.InferenceSession(path)
    inputs, mask = padded_ids(servable, 9)
    names = [x.name for x in session.get_outputs()]
    values = session.run(names, {name: x.numpy() for name, x in inputs.items()})
    expected = {name: x.numpy() for name, x in servable.serve_ids(inputs).items()}
    assert set(names) == {*expected} - {"label", "labels"}
    for name, value in zip(names, values, strict=True):
        other = expected[name]
        if value.dtype == object:
            assert value.tolist() == [[[x.decode() for x in y] for y in z] for z in other]
            continue
        assert value.dtype == other.dtype and value.shape == other.shape
        if value.shape[: mask.ndim] == mask.shape:  # of tokens
            value, other = value[mask == 1], other[mask == 1]
        np.testing.assert_allclose(value, other, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("task", [x for x in CONFIGS if x not in WINDOWS])
def test_answers(task, export, vocab_file):
    predictor = serving.Predictor(os.path.dirname(export(task)), num_threads=1)
    expected = serving.Predictor(make_servable(task, vocab_file, configs.ServingConfig()))
    rows = rows_of(task)
    if task == "fill_mask":
        rows += [{"text": "a b"}, {"text": "[MASK] " * 30}]
    assert predictor.inputs == expected.inputs
    answers = predictor(rows)
    assert_alike(answers, expected(rows))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(x == answers for x in pool.map(predictor, [rows] * 8))


@pytest.mark.parametrize(
    "changes",
    [{"hidden_act": "gelu_erf"}, {"hidden_act": "relu", "pooler_act": "gelu_erf"},
     {"embedding_size": 8, "has_segment_embeddings": False}],
)  # fmt: skip
def test_architectures(changes, vocab_file, tmp_path):
    """Activations, ELECTRA's projection and DistilBERT's embeddings; the same bytes each time."""
    config = tiny(**changes)
    model = randomized(bert_tf.BertClassifier(config, 2))
    task_config = bert_tf.TextClassifier.config_class(
        config, vocab_file, labels=("x", "y"), num_texts=2, max_seq_length=12
    )
    classifier = bert_tf.TextClassifier(model, task_config)
    folders = [classifier.export(tmp_path, format="onnx") for _ in range(2)]
    one, other = (pathlib.Path(x, "model.onnx").read_bytes() for x in folders)
    assert one == other
    rows = [{"text_a": "a b", "text_b": "c"}, {"text_a": "a b c d e f g h i j", "text_b": "a b"},
            {"text_a": "c", "text_b": ""}]  # fmt: skip
    expected = classifier.predict([(row["text_a"], row["text_b"]) for row in rows])
    assert_alike(serving.Predictor(tmp_path)(rows), expected)


@pytest.mark.parametrize(
    "pooling", ["cls", "max", "weightedmean,lasttoken", "mean_sqrt_len_tokens"]
)
def test_poolings(pooling, vocab_file, tmp_path):
    config = bert_tf.SentenceEncoder.config_class(
        tiny(), vocab_file, max_seq_length=9, pooling=pooling, normalize=True, truncate_dim=6,
        prompt="a b ",
    )  # fmt: skip
    model = randomized(bert_tf.SentenceEncoder.make_model(config))
    encoder, texts = bert_tf.SentenceEncoder(model, config), ["a b c", "c", "d e f g h i j a b"]
    encoder.export(tmp_path, format="onnx")
    answers = serving.Predictor(tmp_path)(texts)
    vectors = np.array([x["vectors"] for x in answers])
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)


def test_int8(export):
    """The products of ONNX Runtime are quantized, and the answers are similar."""
    rows = rows_of("classification")
    plain, int8 = (
        serving.Predictor(export("classification", configs.ServingConfig(format="onnx", weights=x)))
        for x in ("float32", "int8")
    )
    operators = {x.op_type for x in onnx.load(os.path.join(int8.path, "model.onnx")).graph.node}
    assert "MatMulInteger" in operators and "MatMul" not in operators
    pairs = zip(plain(rows), int8(rows), strict=True)
    differences = [abs(x["probabilities"]["no"] - y["probabilities"]["no"]) for x, y in pairs]
    assert 0 < max(differences) < 0.2


def test_without_tensorflow(export, tmp_path):
    """Neither TensorFlow nor Keras is imported, by `Predictor` or `bert-tf predict`."""
    folder, rows = export("multiple_choice"), rows_of("multiple_choice")
    expected = serving.Predictor(folder)(rows)
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    arguments = ["--json", f"--model={os.path.dirname(folder)}", f"--input_file={path}"]
    program = f"""
import json, sys, bert_tf
from bert_tf.__main__ import run
for answer in bert_tf.serving.Predictor({folder!r})({rows}):
    print(json.dumps(answer))
try:
    run("predict", {arguments})
except SystemExit:
    assert not {{"tensorflow", "keras", "jax"}} & sys.modules.keys()
"""
    answers = run_python("-c", program).splitlines()
    assert [*map(json.loads, answers)] == expected * 2


def test_web_service(root, export, monkeypatch):
    """The block of docs/serving.md answers a request."""
    (text,) = (x.text for x in pages.blocks(root) if "http.server" in x.text)
    folder, rows = export("multi_label"), rows_of("multi_label")
    monkeypatch.setattr(http.server.ThreadingHTTPServer, "serve_forever", lambda server: None)
    namespace = {}
    exec(text.replace("/models/mrpc_onnx", folder).replace("8000", "0"), namespace)
    server, body = namespace["server"], json.dumps(rows).encode()
    threading.Thread(target=server.handle_request).start()
    with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}", body) as response:
        assert json.load(response) == serving.Predictor(folder)(rows)
    server.server_close()


def test_refusals(export, vocab_file, monkeypatch):
    for options in ({"inputs": "text"}, {"weights": "bfloat16"}, {"sequence_buckets": (4,)}):
        (name,) = options
        with pytest.raises(bert_tf.UserError, match=f"`{name}=.*format=onnx"):
            configs.ServingConfig(format="onnx", **options)
    with pytest.raises(bert_tf.UserError, match=r"question_answering, takes token ids; .*Saved"):
        serving.Predictor(export("question_answering"))
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(bert_tf.UserError, match=r"pip install '.\[onnx\]'"):
        serving.Predictor(export("regression"))
