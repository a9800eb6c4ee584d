"""The REST client against fake servers that need no TensorFlow."""

import contextlib
import http.server
import json
import os
import re
import socket
import threading
import time

import numpy as np
import pytest

import bert_tf
from bert_tf import serving
from bert_tf.serving import transports
from tests import scripts_alone
from tests.serving.serving_batches import Refused
from tests.serving.serving_stand_in import StandIn, Version, request, signature

TYPES = {"words": "DT_STRING", "probabilities": "DT_FLOAT"}
CHUNKED = b"Transfer-Encoding: chunked\r\n"
ONE_MASK = {"words": [[["a", "b"]]], "probabilities": [[[0.75, 0.25]]]}


@pytest.fixture
def serve():
    """A function that starts a server with constant outputs and returns host:port.

    The servers' model has the input `text`. The attribute `connections` counts all connections.
    """
    servers = []

    def start(outputs, protocol="HTTP/1.1", headers=()):
        """Start a server that sends a dict of outputs, or bytes as the response."""
        signatures = {"serving_default": {
            "inputs": {"text": {"dtype": "DT_STRING"}},
            "outputs": {name: {"dtype": kind} for name, kind in TYPES.items()},
        }}  # fmt: skip

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = protocol

            def setup(self):
                super().setup()
                start.connections += 1

            def do_GET(self):
                self.send({"metadata": {"signature_def": {"signature_def": signatures}}})

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send(outputs if isinstance(outputs, bytes) else {"outputs": outputs})

            def send(self, response):
                data = response if isinstance(response, bytes) else json.dumps(response).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(data)))
                for name, value in headers:
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *args):
                pass

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[-1].serve_forever, args=(0.05,), daemon=True).start()
        return f"127.0.0.1:{servers[-1].server_address[1]}"

    start.connections = 0
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("protocol", "headers"),
    [("HTTP/1.1", ()), ("HTTP/1.1", [("Connection", "close")]), ("HTTP/1.0", ())],
)
def test_connections_stay_open_if_the_server_allows(serve, protocol, headers):
    client = serving.Client(serve(ONE_MASK, protocol, headers), "m", retries=0)
    for _ in range(3):
        assert client([{"text": "[MASK]"}]) == [
            {"words": [["a", "b"]], "probabilities": [[0.75, 0.25]]}
        ]
    stays_open = protocol == "HTTP/1.1" and not headers
    assert serve.connections == (1 if stays_open else 4)


def test_a_batch_without_a_mask(serve):
    """Without masks, JSON does not show the number of words per mask."""
    client = serving.Client(serve({"words": [[], []], "probabilities": [[], []]}), "m", retries=0)
    assert client([{"text": "a"}, {"text": "b"}]) == [{"words": [], "probabilities": []}] * 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_wrong_number_of_answers(serve, count):
    outputs = {name: value * count for name, value in ONE_MASK.items()}
    client = serving.Client(serve(outputs), "m", retries=0)
    with pytest.raises(bert_tf.UserError, match=rf"2 rows .*_RESPONSE \(words .* \({count},"):
        client([{"text": "a"}, {"text": "b"}])


def test_outputs_of_other_shapes_and_large_numbers(serve):
    """The error is one sentence, even if the number of rows is right."""
    metadata = {"task": "classification", "inputs": ["text"], "labels": ["x", "y"]}
    row = [{"text": "a"}]
    for probabilities, message in (
        (
            [0.5],
            r"outputs probabilities \(1,\), words \(1,\), expected .* task classif",
        ),
        ([[0.5, 0.25, 0.25]], "the model has 3 labels, expected 2 as in its model.json"),
        ([[10**400, 0]], r"INVALID_RESPONSE \(not a TF Serving response: OverflowError"),
    ):
        server = serve({"words": ["a"], "probabilities": probabilities})
        client = serving.Client(server, "m", metadata=metadata, retries=0)
        with pytest.raises(bert_tf.UserError, match=message):
            client(row)


def test_invalid_responses_and_host_names(serve):
    client = serving.Client(serve(b"[" * 200_000), "m", retries=0)
    with pytest.raises(bert_tf.UserError, match=r"not TF Serving's JSON: '\[\[\["):
        client([{"text": "a"}])
    client = serving.Client(serve(b"1.5"), "m", retries=0)
    with pytest.raises(bert_tf.UserError, match=r"response: a value has an unexpected type\)"):
        client([{"text": "a"}])
    for server in ("a..b:80", f"{'a' * 70}.com:80"):
        with pytest.raises(bert_tf.UserError, match=r"INVALID_ARGUMENT \(invalid host name"):
            serving.Client(server, "m", retries=0)


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        ({"words": [[["\ud800", "b"]]]}, r"output of the model: .* lone surrogate '\\ud800'"),
        ({"probabilities": [[[float("nan"), 0]]]}, "output of the model is nan, expected a finite"),
        ({"probabilities": [[[float("inf"), 0]]]}, "output of the model is inf"),
        (b'{"outputs": {"words": [[["a"]]], "probabilities": [[[1e999]]]}}', "model is inf"),
        ({"words": [[[float("nan")]]]}, "output of the model is nan"),
    ],
)
def test_answers_that_json_does_not_have(serve, outputs, message):
    outputs = outputs if isinstance(outputs, bytes) else {**ONE_MASK, **outputs}
    client = serving.Client(serve(outputs), "m", retries=0)
    with pytest.raises(bert_tf.UserError, match=message):
        client([{"text": "[MASK]"}])


@pytest.mark.parametrize("head", [b"Content-Length: 9000000000\r\n", b"", CHUNKED])
def test_a_response_without_end(head, monkeypatch):
    """A body with a too large Content-Length is not read; other bodies are read up to the limit."""
    monkeypatch.setattr(transports, "_MAX_BYTES", 8 << 20)
    sent = 0
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond():
            nonlocal sent
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + b"\r\n")
                piece = b" " * (1 << 20)
                while sent < 100:
                    connection.sendall(
                        b"100000\r\n" + piece + b"\r\n" if head == CHUNKED else piece
                    )
                    sent += 1

        thread = threading.Thread(target=respond)
        thread.start()
        message = "INVALID_RESPONSE .the response has more than 8 MB; a smaller `batch_size`"
        with pytest.raises(bert_tf.UserError, match=message):
            serving.Client(f"127.0.0.1:{server.getsockname()[1]}", "m", retries=0)
        thread.join()
    assert sent < 50


@pytest.mark.parametrize("task", ["token_classification", "encoder"])
def test_metadata_of_another_task(serve, task):
    metadata = {"task": task, "inputs": ["text"]}
    with pytest.raises(
        bert_tf.UserError, match=f"has the outputs probabilities, words, expected .* {task}"
    ):
        serving.Client(serve(ONE_MASK), "m", metadata=metadata, retries=0)


def test_metadata_belongs_to_one_version(serve, caplog, tmp_path):
    (tmp_path / "model.json").write_text('{"task": "fill_mask", "inputs": ["text"]}')
    (tmp_path / "in").write_text("[MASK]")
    flags = [f"--server={serve(ONE_MASK)}", "--model_name=m", f"--input_file={tmp_path}/in",
             f"--output_file={tmp_path}/out", f"--model_json={tmp_path}/model.json"]  # fmt: skip
    caplog.set_level("INFO", "bert_tf")
    with scripts_alone.imported("bert_tf.cli.ask") as run:
        run("bert_tf.cli.ask", *flags)
        assert "without --version" in caplog.text
        caplog.clear()
        run("bert_tf.cli.ask", *flags, "--version=1")
        assert caplog.text == ""


@pytest.mark.parametrize(
    "parts", [[b"X-A: b\r\n"] * 99, [b"Content-Length: 99\r\n\r\n", *[b"1"] * 98], None]
)
def test_a_deadline_of_a_slow_response(parts):
    """The server sends a slow head, a slow body, or only half of a body."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def respond():
            connection, _ = server.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(b"HTTP/1.1 200 OK\r\n")
                if parts is None:
                    connection.sendall(b"Content-Length: 99\r\n\r\n{")
                    return
                for part in parts:
                    try:
                        connection.sendall(part)
                    except OSError:
                        return
                    time.sleep(0.05)

        threading.Thread(target=respond, daemon=True).start()
        message = "the response is incomplete" if parts is None else r"timed out after \d"
        start = time.monotonic()
        with pytest.raises(bert_tf.UserError, match=message):
            serving.Client(f"127.0.0.1:{server.getsockname()[1]}", "m", timeout=0.3, retries=0)
        assert time.monotonic() - start < 3


def test_requests_of_the_documentation(root, capsys):
    """The requests in docs/serving.md work by REST and gRPC."""
    page = (root / "docs" / "serving.md").read_text()
    texts = dict.fromkeys(("text_a", "text_b"), "DT_STRING")
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), "DT_INT32")
    outputs = dict.fromkeys(("logits", "probabilities"), "DT_FLOAT") | {"label": "DT_STRING"}
    signatures = {"serving_default": signature(texts, outputs), "ids": signature(ids, outputs)}

    def run(columns):
        values = np.full((len(next(iter(columns.values()))), 2), 0.5, np.float32)
        label = np.array([b"1"] * len(values), object)
        return {"logits": values, "probabilities": values, "label": label}

    version = Version(signatures, dict.fromkeys(signatures, run))
    with StandIn({1: version}, "mrpc") as stand_in:
        _, block, _ = page.split("### Requests by REST")[1].split("```")[:3]
        calls = re.findall(
            r"curl (?:-d '([^']*)'[\\\s]*)?http://localhost:8501/v1/models(\S+)", block
        )
        assert len(calls) == 5
        for body, path in calls:
            status, response = request(stand_in, path, json.loads(body) if body else None)
            assert status == 200 and "error" not in response, path
        if stand_in.grpc:
            block = page.split("### Requests by gRPC")[1].split("```python")[1].split("```")[0]
            exec(block.replace("localhost:8500", stand_in.grpc), {})
            assert capsys.readouterr().out == "[b'1'] [[0.5 0.5]]\n"


LOAD = ["--seconds=0.6", "--threads=3", "--most_growth=9"]


@pytest.fixture
def load_test(root, monkeypatch, tmp_path):
    """A function that runs benchmarks/serving_load.py against a server."""
    (tmp_path / "lines").write_text("".join(f"{'a ' * i}\n" for i in range(1, 9)))
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    with scripts_alone.imported("serving_load") as run:

        def start(server, *flags):
            file = f"--input_file={tmp_path}/lines"
            run("serving_load", f"--server={server}", "--model_name=m", file, *LOAD, *flags)

        yield start


def test_load_test(load_test, capsys):
    signatures = {"serving_default": signature({"text": "DT_STRING"}, {"score": "DT_FLOAT"})}

    def run(columns):
        return {"score": np.ones(len(columns["text"]), np.float32)}

    with StandIn({1: Version(signatures, {"serving_default": run})}, "m") as stand_in:
        load_test(stand_in.rest, f"--pid={os.getpid()}")
        report = capsys.readouterr().out
        assert "3 threads" in report and ", 0 failed" in report
        assert len([line for line in report.splitlines() if " MB early, " in line]) == 2
        with pytest.raises(bert_tf.UserError, match="memory grew: server, client"):
            load_test(stand_in.rest, f"--pid={os.getpid()}", "--most_growth=-0.9")

        # A request that a retry would answer counts as a failure.
        refused = iter([Refused("UNAVAILABLE", "no")])

        def fail():
            for error in refused:
                raise error

        stand_in.before = fail
        with pytest.raises(bert_tf.UserError, match=r"1 requests failed, .*\(no\)"):
            load_test(stand_in.rest)


def test_load_test_without_answers(load_test, serve, tmp_path):
    server = serve({"words": [], "probabilities": []})
    with pytest.raises(bert_tf.UserError, match=r"requests failed, .*INVALID_RESPONSE"):
        load_test(server)
    with pytest.raises(bert_tf.UserError, match="no request was answered"):
        load_test(serve(ONE_MASK), "--seconds=0")
    (tmp_path / "lines").write_text("\n\n")
    with pytest.raises(bert_tf.UserError, match=r"--input_file: \S*lines "):
        load_test(server)
