"""REST without TensorFlow at the other end: servers of all kinds, and what they may answer."""

import http.server
import json
import os
import re
import socket
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest
import scripts_alone
from serving_batches import Refused
from serving_stand_in import StandIn, Version, signature

import bert_tf
from bert_tf import serving


@pytest.fixture
def serve():
    """Starts servers that give all outputs of a model that takes `text`; returns host:port."""
    servers = []

    def start(outputs, protocol="HTTP/1.1", headers=()):
        """`outputs` is what is answered: the outputs, or bytes to send as they are."""
        signatures = {"serving_default": {
            "inputs": {"text": {"dtype": "DT_STRING"}},
            "outputs": {name: {"dtype": kind} for name, kind in KINDS.items()},
        }}  # fmt: skip

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = protocol

            def setup(self):
                super().setup()
                start.connections += 1

            def do_GET(self):
                self.answer({"metadata": {"signature_def": {"signature_def": signatures}}})

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                self.answer(outputs if isinstance(outputs, bytes) else {"outputs": outputs})

            def answer(self, found):
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
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


KINDS = {"words": "DT_STRING", "probabilities": "DT_FLOAT"}
ONE_MASK = {"words": [[["a", "b"]]], "probabilities": [[[0.75, 0.25]]]}


@pytest.mark.parametrize(
    ("protocol", "headers"),
    [("HTTP/1.1", ()), ("HTTP/1.1", [("Connection", "close")]), ("HTTP/1.0", ())],
)
def test_connections_that_stay_open_and_that_do_not(serve, protocol, headers):
    client = serving.Client(serve(ONE_MASK, protocol, headers), "m", retries=0)
    for _ in range(3):
        assert client([{"text": "[MASK]"}]) == [
            {"words": [["a", "b"]], "probabilities": [[0.75, 0.25]]}
        ]
    stays_open = protocol == "HTTP/1.1" and not headers
    assert serve.connections == (1 if stays_open else 4)


def test_a_batch_without_a_mask(serve):
    """JSON does not say how many words an output has of no mask."""
    client = serving.Client(serve({"words": [[], []], "probabilities": [[], []]}), "m", retries=0)
    assert client([{"text": "a"}, {"text": "b"}]) == [{"words": [], "probabilities": []}] * 2


@pytest.mark.parametrize("count", [1, 3])
def test_as_many_answers_as_rows(serve, count):
    outputs = {name: value * count for name, value in ONE_MASK.items()}
    client = serving.Client(serve(outputs), "m", retries=0)
    with pytest.raises(bert_tf.UserError, match=rf"2 rows, NO_ANSWER \(words has .* \({count},"):
        client([{"text": "a"}, {"text": "b"}])


def test_what_is_no_answer(serve):
    client = serving.Client(serve(b"[" * 200_000), "m", retries=0)
    with pytest.raises(bert_tf.UserError, match=r"no JSON of TF Serving: '\[\[\["):
        client([{"text": "a"}])
    for server in ("a..b:80", f"{'a' * 70}.com:80"):
        with pytest.raises(bert_tf.UserError, match=r"takes, INVALID_ARGUMENT \(no name of a host"):
            serving.Client(server, "m", retries=0)


@pytest.mark.parametrize("task", ["tagging", "encoder"])
def test_a_model_json_of_another_task(serve, task):
    about = {"task": task, "inputs": ["text"]}
    with pytest.raises(bert_tf.UserError, match=f"gives probabilities, words, and no .* {task}"):
        serving.Client(serve(ONE_MASK), "m", about=about, retries=0)


def test_a_model_json_is_of_one_version(serve, heard, tmp_path):
    (tmp_path / "model.json").write_text('{"task": "masked_words", "inputs": ["text"]}')
    (tmp_path / "in").write_text("[MASK]")
    given = [f"--server={serve(ONE_MASK)}", "--model_name=m", f"--input_file={tmp_path}/in",
             f"--output_file={tmp_path}/out", f"--model_json={tmp_path}/model.json"]  # fmt: skip
    run = heard("bert_tf.cli.ask")
    assert "without --version the newest is asked" in run("bert_tf.cli.ask", *given)
    assert run("bert_tf.cli.ask", *given, "--version=1") == ""


@pytest.mark.parametrize(
    "parts", [[b"X-A: b\r\n"] * 99, [b"Content-Length: 99\r\n\r\n", *[b"1"] * 98], None]
)
def test_a_deadline_whatever_trickles(parts):
    """A head, a body, and a server that ends in the middle of one."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer():
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

        threading.Thread(target=answer, daemon=True).start()
        said = "the answer ends too early" if parts is None else "the time was over after 0.3"
        start = time.monotonic()
        with pytest.raises(bert_tf.UserError, match=said):
            serving.Client(f"127.0.0.1:{server.getsockname()[1]}", "m", timeout=0.3, retries=0)
        assert time.monotonic() - start < 3


def rest(served, path, body=None):
    """(status, object) of a request as curl sends it."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"http://{served.rest}/v1/models{path}", data) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_the_calls_of_the_page(root, capsys):
    """Those of docs/serving.md, by REST and gRPC, as they stand there."""
    page = (root / "docs" / "serving.md").read_text()
    texts = dict.fromkeys(("text_a", "text_b"), "DT_STRING")
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), "DT_INT32")
    outputs = dict.fromkeys(("logits", "probabilities"), "DT_FLOAT")
    names = {"serving_default": signature(texts, outputs), "ids": signature(ids, outputs)}

    def run(columns):
        found = np.full((len(next(iter(columns.values()))), 2), 0.5, np.float32)
        return {"logits": found, "probabilities": found}

    stand_in = StandIn({1: Version(names, dict.fromkeys(names, run))}, "mrpc")
    try:
        _, block, _ = page.split("### Asking it by REST")[1].split("```")[:3]
        calls = re.findall(
            r"curl (?:-d '([^']*)'[\\\s]*)?http://localhost:8501/v1/models(\S+)", block
        )
        assert len(calls) == 5
        for body, path in calls:
            status, found = rest(stand_in, path, json.loads(body) if body else None)
            assert status == 200 and "error" not in found, path
        if stand_in.grpc:
            block = page.split("### Asking it by gRPC")[1].split("```python")[1].split("```")[0]
            exec(block.replace("localhost:8500", stand_in.grpc), {})
            assert capsys.readouterr().out == "[[0.5 0.5]]\n"
    finally:
        stand_in.stop()


LOAD = ["--seconds=0.6", "--threads=3", "--most_growth=9"]


@pytest.fixture
def load_test(root, monkeypatch, tmp_path):
    """Runs the load test against a server, with some lines."""
    (tmp_path / "lines").write_text("".join(f"{'a ' * i}\n" for i in range(1, 9)))
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    with scripts_alone.imported("serving_load") as run:

        def start(server, *flags):
            file = f"--input_file={tmp_path}/lines"
            run("serving_load", f"--server={server}", "--model_name=m", file, *LOAD, *flags)

        yield start


def test_the_load_test(load_test, capsys):
    names = {"serving_default": signature({"text": "DT_STRING"}, {"score": "DT_FLOAT"})}

    def run(columns):
        return {"score": np.ones(len(columns["text"]), np.float32)}

    stand_in = StandIn({1: Version(names, {"serving_default": run})}, "m")
    try:
        load_test(stand_in.rest, f"--pid={os.getpid()}")
        assert "3 threads" in (said := capsys.readouterr().out) and ", 0 failed" in said
        assert len([line for line in said.splitlines() if " MB early, " in line]) == 2
        with pytest.raises(bert_tf.UserError, match="memory grew: server, client"):
            load_test(stand_in.rest, f"--pid={os.getpid()}", "--most_growth=-0.9")

        # Not even one that would be answered if it were asked again.
        refused = iter([Refused("UNAVAILABLE", "no")])

        def fail():
            for error in refused:
                raise error

        stand_in.before = fail
        with pytest.raises(bert_tf.UserError, match=r"1 requests failed, the first: .*\(no\)"):
            load_test(stand_in.rest)
    finally:
        stand_in.stop()


def test_a_load_test_of_nothing(load_test, serve, tmp_path):
    server = serve({"words": [], "probabilities": []})
    with pytest.raises(bert_tf.UserError, match=r"requests failed, the first: .*NO_ANSWER"):
        load_test(server)
    with pytest.raises(bert_tf.UserError, match="no request was answered"):
        load_test(serve(ONE_MASK), "--seconds=0")
    (tmp_path / "lines").write_text("\n\n")
    with pytest.raises(bert_tf.UserError, match="lines has no line to ask for"):
        load_test(server)
