"""bert-tf ask and its client, asking the stand-in for TF Serving: the answers of predict.py."""

import json
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import scripts_alone
from serving_batches import Refused
from serving_stand_in import StandIn, Version, load, signature
from test_predict import export_classifier
from test_rest import rest

import bert_tf
from bert_tf import serving

APIS = ["rest", "grpc"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    export_classifier(folder)
    return folder


@pytest.fixture(scope="module")
def predictor(models):
    return serving.Predictor(f"{models}/m")


@pytest.fixture(scope="module")
def stand_in(models):
    versions = load(f"{models}/m", f"{models}/m/batching_parameters.txt")
    found = StandIn(versions, "m")
    yield found
    found.stop()


@pytest.fixture
def served(stand_in):
    """The stand-in for a classifier, as it is."""
    yield stand_in
    stand_in.before = lambda: None


@pytest.fixture(params=APIS)
def api(request):
    if request.param == "grpc":
        pytest.importorskip("tensorflow_serving")
    return request.param


@pytest.fixture
def connect(served, models, api):
    """Makes a client of the stand-in, by either API."""
    about = serving.read_metadata(f"{models}/m/1/assets.extra/model.json")

    def make(**changed):
        server = changed.pop("server", getattr(served, api))
        options = {"api": api, "about": about, "retries": 0, **changed}
        return serving.Client(server, options.pop("model", "m"), **options)

    return make


def rows_of(count):
    return [{"text": " ".join("abcdefghij"[: 1 + i % 10]), "numbers": [i, 0.5]}
            for i in range(count)]  # fmt: skip


def assert_alike(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one["label"] == other["label"]
        assert one["probabilities"] == pytest.approx(other["probabilities"], abs=2e-6)


def test_lines_and_answers_are_those_of_predict(
    root, served, models, api, monkeypatch, tmp_path, capsys
):
    lines = [f"{row['text']}\t{row['numbers'][0]}\t0.5" for row in rows_of(40)]
    (tmp_path / "in").write_text("\n".join([*lines[:20], "bad", *lines[20:]]))
    common = [f"--input_file={tmp_path}/in", "--batch_size=7"]
    about = f"--model_json={models}/m/1/assets.extra/model.json"
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("predict", "bert_tf.cli.ask") as run:
        with pytest.raises(bert_tf.UserError, match="1 lines could not"):
            run("predict", f"--model={models}/m", *common)
        expected = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        server = [f"--server={getattr(served, api)}", f"--api={api}", "--model_name=m", about]
        with pytest.raises(bert_tf.UserError, match="1 lines could not"):
            run("bert_tf.cli.ask", *server, *common, f"--output_file={tmp_path}/out")
    found = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert (
        found.pop(20)
        == expected.pop(20)
        == {"error": "line 21: 1 inputs, text <tab> numbers was expected"}
    )
    assert_alike(found, expected)


def test_a_client_of_rest_needs_no_tensorflow(root, served, models):
    program = f"""
import sys
from bert_tf import serving
print(serving.Client({served.rest!r}, "m")([{{"text": "a", "numbers": [1, 2]}}]))
assert "tensorflow" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    # Without model.json there are the model's outputs.
    (row,) = eval(done.stdout)
    assert len(row["probabilities"]) == len(row["logits"]) == 2


def test_bytes_that_are_no_text(connect, predictor):
    texts = [b"a \xff\xfe b", "a\0b", b"\xed\xa0\x80", "\U0001f600 \ud55c", b"plain", ""]
    rows = [{"text": text, "numbers": [1, 2]} for text in texts]
    assert_alike(connect()(rows), predictor(rows))


def test_what_comes_together_runs_together(connect, served, predictor):
    client, rows = connect(), rows_of(64)
    batches = served.versions[1].batchers["serving_default"].batches
    batches.clear()
    found, expected = [None] * 64, predictor(rows)

    def ask(first):
        for i in range(first, 64, 8):
            found[i] = client([rows[i]])[0]

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert_alike(found, expected)
    assert sum(batches) == 64 and len(batches) < 64


def ask(api, rows, run, inputs, outputs):
    """The answers of a client to rows, where a function is the model."""
    names = {"serving_default": signature(inputs, outputs)}
    stand_in = StandIn({1: Version(names, {"serving_default": run})}, "it")
    try:
        client = serving.Client(getattr(stand_in, api), "it", api=api, version=1, retries=0)
        return client([client.read(row, as_json=True) for row in rows])
    finally:
        stand_in.stop()


def test_texts_as_outputs_and_their_padding(api):
    """Of a tagger: as many entities as the batch has at most, which the client must not show."""
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
    found = ask(api, rows, lambda columns: outputs, {"text": "DT_STRING"}, types)
    first = {"entity": "a \ufffd", "label": "X", "start": 0, "end": 1, "score": 0.1}
    second = {"entity": "\0", "label": "Y", "start": 2, "end": 3, "score": 1e-9}
    third = {"entity": "\ud55c", "label": "X", "start": 1, "end": 2, "score": 1.0}
    assert found == [{"entities": [first, second]}, {"entities": [third]}, {"entities": []}]


def test_one_output_and_no_labels(api):
    """REST leaves out the name of an output that is alone."""
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
    found = ask(api, rows, run, inputs, {"logits": "DT_FLOAT", "probabilities": "DT_FLOAT"})
    assert [x["choice"] for x in found] == [1, 0, 0] and sorted(shapes) == [(1, 1), (2, 2)]
    assert found[0]["probabilities"] == [0.25, 0.5]


def test_a_model_of_ids_is_not_one_of_texts(api):
    ids = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), "DT_INT32")
    with pytest.raises(bert_tf.UserError, match="takes input_ids, input_mask, segment_ids; texts"):
        ask(api, [], None, ids, {"logits": "DT_FLOAT"})


def test_unavailable_is_asked_again_and_nothing_else(connect, served, caplog):
    client, asked = connect(retries=2), []

    def fail(code, times):
        def before():
            asked.append(code)
            if len(asked) <= times:
                raise Refused(code, "queue is full")

        asked.clear()
        served.before = before

    fail("UNAVAILABLE", 2)
    with caplog.at_level("INFO", "bert_tf"):
        assert len(client(rows_of(1))) == 1 and len(asked) == 3
    assert [x for x in caplog.messages if "unavailable (queue is full), asked again in" in x]
    fail("UNAVAILABLE", 3)
    with pytest.raises(bert_tf.UserError, match=r"asked for .* 1 rows 3 times in .* unavailable"):
        client(rows_of(1))
    for code in ("INVALID_ARGUMENT", "DEADLINE_EXCEEDED"):
        fail(code, 1)
        with pytest.raises(bert_tf.UserError, match="queue is full"):
            client(rows_of(1))
        assert len(asked) == 1


def test_a_deadline(connect, served):
    client, held = connect(timeout=0.3, retries=5), threading.Event()
    served.before = lambda: held.wait(10)
    start = time.monotonic()
    with pytest.raises(bert_tf.UserError, match=r"model m: asked .*, the time was over after 0\.3"):
        client(rows_of(1))
    held.set()
    assert time.monotonic() - start < 5
    served.before = lambda: None
    client._timeout = 60
    assert len(client(rows_of(2))) == 2


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"model": "n"}, r"model n is not there \(Servable not found for request: Latest\(n\)\)"),
        ({"version": 7}, r"model m version 7 is not there \(.*Specific\(m, 7\)\)"),
        ({"server": "localhost"}, "'localhost' is no server: host:port was expected"),
        ({"server": "http://localhost:1"}, "is no server: host:port was expected"),
        ({"about": {"task": "answers", "inputs": ["question", "context"]}},
         "model m takes text, numbers, and the model of model.json question, context"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked(connect, changed, said):
    with pytest.raises(bert_tf.UserError, match=said):
        connect(**changed)


def test_a_server_that_is_not_there(connect, served, api):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        server = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(bert_tf.UserError, match=f"{server}: .*2 times.*refused"):
            connect(server=server, retries=1)
        with pytest.raises(bert_tf.UserError, match="once, unavailable"):
            connect(server=server, retries=9, timeout=0.01)
    said = "does not speak HTTP|reset" if api == "rest" else "unavailable"
    with pytest.raises(bert_tf.UserError, match=said):
        connect(server=served.grpc if api == "rest" else served.rest)


def test_labels_of_another_model(connect):
    about = {"task": "classification", "inputs": ["text", "numbers"], "labels": ["x"]}
    with pytest.raises(bert_tf.UserError, match=r"2 labels, and its model.json 1"):
        connect(about=about)(rows_of(1))


@pytest.mark.parametrize("text", ["no JSON", "[]", '{"task": 1, "inputs": []}', None])
def test_a_model_json_of_others(text, tmp_path):
    if text is not None:
        (tmp_path / "model.json").write_text(text)
    with pytest.raises(bert_tf.UserError, match=r"model\.json: "):
        serving.read_metadata(f"{tmp_path}/model.json")


def test_the_stand_in_speaks_as_documented(served, predictor):
    """Rows and columns, one and several inputs, status and metadata, errors."""
    assert rest(served, "/m") == rest(served, "/m/versions/1")
    (version,) = rest(served, "/m")[1]["model_version_status"]
    assert version == {"version": "1", "state": "AVAILABLE",
                       "status": {"error_code": "OK", "error_message": ""}}  # fmt: skip
    status, found = rest(served, "/m/metadata")
    assert status == 200 and found["model_spec"]["version"] == "1"
    takes = found["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert takes["text"]["dtype"] == "DT_STRING"
    assert [dim["size"] for dim in takes["numbers"]["tensor_shape"]["dim"]] == ["-1", "2"]

    rows = [{"text": "a", "numbers": [1, 2]}, {"text": {"b64": "YiD/"}, "numbers": [3, 4]}]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    status, by_row = rest(served, "/m:predict", {"instances": rows})
    assert status == 200
    _, by_column = rest(served, "/m/versions/1:predict", {"inputs": columns})
    _, named = rest(served, "/m:predict", {"signature_name": "serving_default", "inputs": columns})
    assert named == by_column
    for i, row in enumerate(by_row["predictions"]):
        for name, value in row.items():
            assert value == by_column["outputs"][name][i]
    expected = predictor([{"text": b"b \xff", "numbers": [3, 4]}])[0]["probabilities"]
    assert by_row["predictions"][1]["probabilities"] == pytest.approx(list(expected.values()))

    bad = [
        ("/n", None, 404), ("/m/versions/2", None, 404), ("/m/nothing", None, 400),
        ("/n:predict", {"inputs": columns}, 404), ("/m:predict", {}, 400),
        ("/m:predict", {"inputs": columns, "instances": rows}, 400),
        ("/m:predict", {"instances": ["a"]}, 400), ("/m:predict", {"instances": []}, 400),
        ("/m:predict", {"inputs": {"text": ["a"]}}, 400),
        ("/m:predict", {"inputs": {**columns, "numbers": [["x", 1], [2, 3]]}}, 400),
        ("/m:predict", {"inputs": {**columns, "numbers": [[1, 2], [2]]}}, 400),
        ("/m:predict", {"inputs": columns, "signature_name": "none"}, 400),
    ]  # fmt: skip
    for path, body, code in bad:
        status, found = rest(served, path, body)
        assert status == code and list(found) == ["error"] and found["error"], path


def test_the_status_by_grpc(served):
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

    service = model_service_pb2_grpc.ModelServiceStub(grpc.insecure_channel(served.grpc))
    request = get_model_status_pb2.GetModelStatusRequest()
    request.model_spec.name = "m"
    (found,) = service.GetModelStatus(request, timeout=30).model_version_status
    assert (found.version, found.state) == (1, get_model_status_pb2.ModelVersionStatus.AVAILABLE)
