"""`bert-tf ask` and its client give the answers of predict.py, through a stand-in server."""

import json
import os
import socket
import threading
import time

import numpy as np
import pytest

import bert_tf
from bert_tf import serving
from bert_tf.serving.predictor import METADATA
from tests import scripts_alone
from tests.common import run_python
from tests.serving.serving_batches import Refused
from tests.serving.serving_stand_in import StandIn, Version, signature


@pytest.fixture(params=["rest", pytest.param("grpc", marks=pytest.mark.slow)])
def api(request):
    if request.param == "grpc":
        pytest.importorskip("tensorflow_serving")
    return request.param


@pytest.fixture
def metadata_path(predictor):
    return os.path.join(predictor.path, METADATA)


@pytest.fixture
def connect(served, api, metadata_path):
    """A function that makes a client of the stand-in for either API."""
    metadata = serving.read_metadata(metadata_path)

    def make(**changes):
        server = changes.pop("server", getattr(served, api))
        options = {"api": api, "metadata": metadata, "retries": 0, **changes}
        return serving.Client(server, options.pop("model", "m"), **options)

    return make


def rows_of(count):
    return [{"text": " ".join("abcdefghij"[: 1 + i % 10]), "numbers": [i, 0.5]}
            for i in range(count)]  # fmt: skip


def assert_alike(answers, expected):
    assert len(answers) == len(expected)
    for one, other in zip(answers, expected, strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=2e-6)


def test_lines_and_answers_are_those_of_predict(
    run_predict, served, classifier, metadata_path, api, tmp_path
):
    lines = [f"{row['text']}\t{row['numbers'][0]}\t0.5" for row in rows_of(40)]
    (tmp_path / "in").write_text("\n".join([*lines[:20], "bad", *lines[20:]]))
    flags = [f"--input_file={tmp_path}/in", "--batch_size=7"]
    with pytest.raises(bert_tf.UserError, match="1 lines"):
        run_predict(f"--model={classifier}", f"--output_file={tmp_path}/expected", *flags)
    flags += [f"--server={getattr(served, api)}", f"--api={api}", "--model_name=m",
              f"--model_json={metadata_path}", f"--output_file={tmp_path}/out"]  # fmt: skip
    with (
        scripts_alone.imported("bert_tf.cli.ask") as run,
        pytest.raises(bert_tf.UserError, match="1 lines"),
    ):
        run("bert_tf.cli.ask", *flags)
    answers, expected = (
        [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        for name in ("out", "expected")
    )
    invalid = answers.pop(20)
    assert invalid == expected.pop(20) and list(invalid) == ["error"]
    assert_alike(answers, expected)


def test_a_client_of_rest_needs_no_tensorflow(root, served):
    program = f"""
import sys
from bert_tf import serving
print(serving.Client({served.rest!r}, "m")([{{"text": "a", "numbers": [1, 2]}}]))
assert "tensorflow" not in sys.modules
"""
    # Without model.json, labels have the names of the model's outputs.
    (row,) = eval(run_python("-c", program, cwd=root))
    assert row["label"] in ("no", "yes") and list(row["probabilities"]) == ["no", "yes"]


def test_label_names_without_metadata(connect, predictor):
    assert_alike(connect(metadata=None)(rows_of(5)), predictor(rows_of(5)))


def test_a_classifier_of_version_0_1_has_no_names(api):
    def run(columns):
        values = np.array([[0.25, 0.75]] * len(columns["text"]), np.float32)
        return {"logits": values, "probabilities": values}

    outputs = {"logits": "DT_FLOAT", "probabilities": "DT_FLOAT"}
    answers = ask(api, ['{"text": "a"}'], run, {"text": "DT_STRING"}, outputs)
    assert answers == [{"logits": [0.25, 0.75], "probabilities": [0.25, 0.75]}]


def test_bytes_that_are_not_utf_8(connect, predictor):
    texts = [b"a \xff\xfe b", "a\0b", b"\xed\xa0\x80", "\U0001f600 \ud55c", b"plain", ""]
    rows = [{"text": text, "numbers": [1, 2]} for text in texts]
    assert_alike(connect()(rows), predictor(rows))


def test_simultaneous_requests_run_together(connect, served, predictor):
    client, rows = connect(), rows_of(64)
    batches = served.versions[1].batchers["serving_default"].batches
    batches.clear()
    answers = [None] * 64

    def ask(first):
        for i in range(first, 64, 8):
            answers[i] = client([rows[i]])[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_alike(answers, predictor(rows))
    assert sum(batches) == 64 and len(batches) < 64


def ask(api, rows, run, inputs, outputs, metadata=None):
    """Return the answers to JSON rows from a server whose model is a Python function."""
    signatures = {"serving_default": signature(inputs, outputs)}
    with StandIn({1: Version(signatures, {"serving_default": run})}, "it") as stand_in:
        server = getattr(stand_in, api)
        client = serving.Client(server, "it", api, 1, metadata, retries=0)
        return client([client.read(row, as_json=True) for row in rows])


@pytest.mark.parametrize("task", [None, "tagging", "token_classification"])
def test_string_outputs_and_padding(api, task, tmp_path):
    """The outputs identify the task, or else a model.json, including version 0.1's."""
    outputs = {
        "entity": np.array([[b"a \xff", b"\0"], [b"\xed\x95\x9c", b""], [b"", b""]], object),
        "label": np.array([[b"X", b"Y"], [b"X", b""], [b"", b""]], object),
        "start": np.array([[0, 2], [1, -1], [-1, -1]], np.int32),
        "end": np.array([[1, 3], [2, 0], [0, 0]], np.int32),
        "score": np.array([[0.1, 1e-9], [1, 0], [0, 0]], np.float32),
    }
    types = dict.fromkeys(outputs, "DT_STRING") | {"score": "DT_FLOAT"}
    types |= {"start": "DT_INT32", "end": "DT_INT32"}
    rows = ['{"text": "a"}', '{"text": "b\\u0000"}', '{"text": "\ud55c b"}']
    metadata = None
    if task:
        (tmp_path / "model.json").write_text(json.dumps({"task": task, "inputs": ["text"]}))
        metadata = serving.read_metadata(str(tmp_path / "model.json"))
    answers = ask(api, rows, lambda columns: outputs, {"text": "DT_STRING"}, types, metadata)
    first = {"entity": "a \ufffd", "label": "X", "start": 0, "end": 1, "score": 0.1}
    second = {"entity": "\0", "label": "Y", "start": 2, "end": 3, "score": 1e-9}
    third = {"entity": "\ud55c", "label": "X", "start": 1, "end": 2, "score": 1.0}
    assert answers == [{"entities": [first, second]}, {"entities": [third]}, {"entities": []}]


def test_a_single_output(api):
    """REST omits the name of a single output."""
    rows = ['{"question": "a", "context": "bc"}', '{"question": "abc", "context": "d"}']

    def run(columns):
        return {"score": np.array([len(x) for x in columns["question"]], np.float32)}

    inputs = {"context": "DT_STRING", "question": "DT_STRING"}
    assert ask(api, rows, run, inputs, {"score": "DT_FLOAT"}) == [{"score": 1.0}, {"score": 3.0}]


def test_endings(api):
    rows = [f'{{"context": "a", "endings": {x}}}' for x in ('["b", "cd"]', '["b"]', '["cd", "b"]')]
    shapes = []

    def run(columns):
        shapes.append(columns["endings"].shape)
        sizes = np.vectorize(len)(columns["endings"]).astype(np.float32)
        return {"logits": sizes, "probabilities": sizes / 4}

    inputs = {"context": "DT_STRING", "endings": "DT_STRING"}
    answers = ask(api, rows, run, inputs, {"logits": "DT_FLOAT", "probabilities": "DT_FLOAT"})
    assert [x["choice"] for x in answers] == [1, 0, 0] and sorted(shapes) == [(1, 1), (2, 2)]
    assert answers[0]["probabilities"] == [0.25, 0.5]


def test_a_model_of_ids_takes_no_texts(api):
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), "DT_INT32")
    with pytest.raises(
        bert_tf.UserError, match="inputs input_ids, input_mask, segment_ids, expected text"
    ):
        ask(api, [], None, ids, {"logits": "DT_FLOAT"})


def test_only_an_unavailable_server_is_retried(connect, served, caplog):
    client, attempts = connect(retries=2), []

    def fail(code, times):
        def before():
            attempts.append(code)
            if len(attempts) <= times:
                raise Refused(code, "queue is full")

        attempts.clear()
        served.before = before

    fail("UNAVAILABLE", 2)
    with caplog.at_level("INFO", "bert_tf"):
        assert len(client(rows_of(1))) == 1 and len(attempts) == 3
    assert [x for x in caplog.messages if "unavailable (queue is full), retrying in" in x]
    fail("UNAVAILABLE", 3)
    with pytest.raises(serving.ServerError, match=r"1 rows .* 3 attempts in") as error:
        client(rows_of(1))
    assert error.value.code == "UNAVAILABLE"
    for code in ("INVALID_ARGUMENT", "DEADLINE_EXCEEDED"):
        fail(code, 1)
        with pytest.raises(bert_tf.UserError, match="queue is full"):
            client(rows_of(1))
        assert len(attempts) == 1


def test_a_deadline(connect, served):
    client, released = connect(timeout=0.3, retries=5), threading.Event()
    served.before = lambda: released.wait(10)
    start = time.monotonic()
    with pytest.raises(bert_tf.UserError, match=r"model m: .* 1 rows timed out after \d"):
        client(rows_of(1))
    released.set()
    assert time.monotonic() - start < 5
    served.before = lambda: None
    client._timeout = 60
    assert len(client(rows_of(2))) == 2


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "n"}, r"model n was not found \(Servable not found for request: Latest\(n\)\)"),
        ({"version": 7}, r"model m version 7 was not found \(.*Specific\(m, 7\)\)"),
        ({"server": "localhost"}, "`server=localhost`: expected host:port"),
        ({"server": "http://localhost:1"}, "`server=http://localhost:1`: expected host:port"),
        ({"api": "soap"}, "`api=soap`: expected one of rest, grpc"),
        ({"metadata": {"task": "question_answering", "inputs": ["question", "context"]}},
         "model m has the inputs text, numbers, expected question, context as in model.json"),
    ],
)  # fmt: skip
def test_invalid_arguments(connect, changes, message):
    with pytest.raises(bert_tf.UserError, match=message):
        connect(**changes)


def test_a_missing_server(connect, served, api):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # bound, but not listening
        server = f"127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(bert_tf.UserError, match=f"{server}: .* 2 attempts .*refused"):
            connect(server=server, retries=1)
        with pytest.raises(bert_tf.UserError, match=r"1 attempt: .* unavailable"):
            connect(server=server, retries=9, timeout=0.01)
    message = "does not speak HTTP|reset" if api == "rest" else "unavailable"
    with pytest.raises(bert_tf.UserError, match=message):
        connect(server=served.grpc if api == "rest" else served.rest)


@pytest.mark.parametrize("timeout", [0, float("inf"), float("nan")])
def test_invalid_timeouts(connect, timeout):
    with pytest.raises(bert_tf.UserError, match=f"`timeout={timeout}`: expected seconds"):
        connect(timeout=timeout)


def test_labels_of_another_model(connect):
    metadata = {"task": "classification", "inputs": ["text", "numbers"], "labels": ["x"]}
    client = connect(metadata=metadata)
    with pytest.raises(bert_tf.UserError, match=r"2 labels, expected 1 as in its model.json"):
        client(rows_of(1))
