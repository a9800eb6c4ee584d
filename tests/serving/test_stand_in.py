"""The stand-in for TF Serving follows TF Serving's documentation of its APIs and batching."""

import threading

import numpy as np
import pytest

from bert_tf.serving import exporting
from tests.serving.serving_batches import Batcher, Refused, read_parameters
from tests.serving.serving_stand_in import request


def test_batches_follow_the_parameters(tmp_path):
    """Large requests are split, batches have a limit, and a full queue refuses requests."""
    exporting._write_batching_parameters(str(tmp_path), has_variable_width=False)
    parameters = read_parameters(tmp_path / "batching_parameters.txt")
    assert parameters["max_batch_size"] == 1024 and parameters["max_execution_batch_size"] == 32
    sizes, may_run, results = [], threading.Event(), []

    def run(columns):
        may_run.wait(10)
        sizes.append(len(columns["x"]))
        return {"y": 2 * columns["x"]}

    batcher = Batcher(run, {**parameters, "max_enqueued_batches": 3, "num_batch_threads": 1})
    with pytest.raises(Refused, match="queue is full"):
        batcher({"x": np.arange(97)})  # more than three batches
    with pytest.raises(Refused, match="larger than maximum input batch size 1024"):
        batcher({"x": np.arange(1025)})
    large = threading.Thread(target=lambda: results.append(batcher({"x": np.arange(69)})))
    large.start()
    may_run.set()
    large.join(10)
    batcher.stop()
    np.testing.assert_array_equal(results[0]["y"], 2 * np.arange(69))
    assert sizes == [32, 32, 5]

    path = tmp_path / "parameters.txt"
    path.write_text("max_batch_size { value: 8 }\nbatch_timeout_micros { value: 1 }\n"
                    "max_enqueued_batches { value: 9 }\nnum_batch_threads { value: 1 }\n"
                    "allowed_batch_sizes: 2\nallowed_batch_sizes: 8\n")  # fmt: skip
    batcher = Batcher(run, read_parameters(path))
    np.testing.assert_array_equal(batcher({"x": np.arange(3)})["y"], [0, 2, 4])
    batcher.stop()
    assert sizes[-1] == 8 and list(batcher.batches) == [3]
    path.write_text(path.read_text().replace("8 }", "9 }"))
    with pytest.raises(ValueError, match="must rise to max_batch_size"):
        read_parameters(path)


@pytest.mark.slow
def test_rest(served, predictor):
    """Covers rows and columns, one and several inputs, status, metadata and errors."""
    assert request(served, "/m") == request(served, "/m/versions/1")
    (version,) = request(served, "/m")[1]["model_version_status"]
    assert version == {"version": "1", "state": "AVAILABLE",
                       "status": {"error_code": "OK", "error_message": ""}}  # fmt: skip
    status, response = request(served, "/m/metadata")
    assert status == 200 and response["model_spec"]["version"] == "1"
    inputs = response["metadata"]["signature_def"]["signature_def"]["serving_default"]["inputs"]
    assert inputs["text"]["dtype"] == "DT_STRING"
    assert [dim["size"] for dim in inputs["numbers"]["tensor_shape"]["dim"]] == ["-1", "2"]

    rows = [{"text": "a", "numbers": [1, 2]}, {"text": {"b64": "YiD/"}, "numbers": [3, 4]}]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    status, by_row = request(served, "/m:predict", {"instances": rows})
    assert status == 200
    _, by_column = request(served, "/m/versions/1:predict", {"inputs": columns})
    named = {"signature_name": "serving_default", "inputs": columns}
    assert request(served, "/m:predict", named)[1] == by_column
    for i, row in enumerate(by_row["predictions"]):
        for name, value in row.items():
            assert value == by_column["outputs"][name][i]
    expected = predictor([{"text": b"b \xff", "numbers": [3, 4]}])[0]["probabilities"]
    assert by_row["predictions"][1]["probabilities"] == pytest.approx(list(expected.values()))

    invalid = [
        ("/n", None, 404), ("/m/versions/2", None, 404), ("/m/nothing", None, 400),
        ("/n:predict", {"inputs": columns}, 404), ("/m:predict", {}, 400),
        ("/m:predict", {"inputs": columns, "instances": rows}, 400),
        ("/m:predict", {"instances": ["a"]}, 400), ("/m:predict", {"instances": []}, 400),
        ("/m:predict", {"inputs": {"text": ["a"]}}, 400),
        ("/m:predict", {"inputs": {**columns, "numbers": [["x", 1], [2, 3]]}}, 400),
        ("/m:predict", {"inputs": {**columns, "numbers": [[1, 2], [2]]}}, 400),
        ("/m:predict", {"inputs": columns, "signature_name": "none"}, 400),
    ]  # fmt: skip
    for path, body, code in invalid:
        status, response = request(served, path, body)
        assert status == code and list(response) == ["error"] and response["error"], path


def test_the_status_by_grpc(served):
    grpc = pytest.importorskip("grpc")
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.apis import get_model_status_pb2, model_service_pb2_grpc

    service = model_service_pb2_grpc.ModelServiceStub(grpc.insecure_channel(served.grpc))
    message = get_model_status_pb2.GetModelStatusRequest()
    message.model_spec.name = "m"
    (version,) = service.GetModelStatus(message, timeout=30).model_version_status
    available = get_model_status_pb2.ModelVersionStatus.AVAILABLE
    assert (version.version, version.state) == (1, available)
