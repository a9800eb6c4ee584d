#!/usr/bin/env python3
"""A stand-in for TF Serving, for tests and the load test: it is NOT TF Serving.

It loads a SavedModel with TensorFlow in Python and speaks the protocols that TF Serving documents,
REST (https://www.tensorflow.org/tfx/serving/api_rest) and gRPC (`tensorflow-serving-api`), with the
batching of a `batching_parameters.txt`. It lets clients be tested without TF Serving. Its speed and
memory do not predict TF Serving's.

    python tests/serving/serving_stand_in.py --model=/models/mrpc --name=mrpc
"""

import argparse
import json
import os
import signal
import socketserver
import sys
import urllib.error
import urllib.request
from concurrent import futures

import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of the graph
from google.protobuf import json_format
from tensorflow.core.protobuf import meta_graph_pb2
from tensorflow.python.saved_model import loader_impl

from tests.serving.serving_batches import Batcher, Refused, read_parameters
from tests.serving.serving_json import RestHandler

DEFAULT = "serving_default"


class Version:
    """One version of a model.

    Attributes:
      definitions: `SignatureDef`s by name.
      batchers: `Batcher`s by signature name.
      loaded: the SavedModel, which keeps its functions alive.
    """

    def __init__(self, definitions, functions, parameters=None, loaded=None):
        self.definitions, self.loaded = definitions, loaded
        self.batchers = {name: Batcher(run, parameters) for name, run in functions.items()}


def load(folder, batching=None):
    """Return the `Version`s in a folder, a dict by number.

    Args:
      folder: folder written by export_model.py.
      batching: path of a `batching_parameters.txt`; None for no batching.
    """
    parameters, versions = read_parameters(batching) if batching else None, {}
    for number in (x for x in os.listdir(folder) if x.isdecimal()):
        path = os.path.join(folder, number)
        loaded = tf.saved_model.load(path)
        functions = {name: _runner(function) for name, function in loaded.signatures.items()}
        definitions = dict(loader_impl.parse_saved_model(path).meta_graphs[0].signature_def)
        versions[int(number)] = Version(definitions, functions, parameters, loaded)
    return versions


def _runner(function):
    types = {name: x.dtype for name, x in function.structured_input_signature[1].items()}

    def run(columns):
        arguments = {name: tf.constant(x, types[name]) for name, x in columns.items()}
        try:
            return {name: x.numpy() for name, x in function(**arguments).items()}
        except (tf.errors.OpError, TypeError, ValueError) as error:
            raise Refused("INVALID_ARGUMENT", str(error)) from None

    return run


class StandIn:
    """Serves the versions of a model by REST and gRPC, on ports of 127.0.0.1.

    Attributes:
      rest, grpc: host:port; None for gRPC if tensorflow-serving-api is not installed.
      before: called before each prediction; tests use it to delay predictions or raise errors.
    """

    def __init__(self, versions, name, rest_port=0, grpc_port=0):
        """Start listening; port 0 selects a free port.

        Args:
          versions: dict of `Version`s by number.
          name: name of the model.
          rest_port: port for REST.
          grpc_port: port for gRPC.
        """
        self.versions, self.name, self.before = versions, name, lambda: None
        self._rest = _Server(("127.0.0.1", rest_port), RestHandler)
        self._rest.model = self
        self._threads = futures.ThreadPoolExecutor(1)
        self._threads.submit(self._rest.serve_forever, 0.05)
        self.rest = f"127.0.0.1:{self._rest.server_address[1]}"
        self._grpc, port = _grpc_server(self, grpc_port)
        self.grpc = port and f"127.0.0.1:{port}"

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stop()

    def stop(self):
        """Stop listening and wait for running requests."""
        self._rest.shutdown()
        self._rest.server_close()
        self._threads.shutdown()
        if self._grpc:
            self._grpc.stop(None).wait()
        for version in self.versions.values():
            for batcher in version.batchers.values():
                batcher.stop()

    def version(self, name, number=None):
        """Return (number, `Version`); the newest version if `number` is None."""
        which = f"Latest({name})" if number is None else f"Specific({name}, {number})"
        number = max(self.versions) if number is None else number
        if name != self.name or number not in self.versions:
            raise Refused("NOT_FOUND", f"Servable not found for request: {which}")
        return number, self.versions[number]

    def status(self, name, number=None):
        """Return the `GetModelStatusResponse` as JSON."""
        numbers = [x for x in sorted(self.versions, reverse=True) if number in (None, x)]
        if name != self.name or not numbers:
            raise Refused("NOT_FOUND", f"Could not find any versions of model {name}")
        good = {"error_code": "OK", "error_message": ""}
        rows = [{"version": str(x), "state": "AVAILABLE", "status": good} for x in numbers]
        return {"model_version_status": rows}

    def signature(self, name, number, signature):
        """Return (`Batcher`, `SignatureDef`) of a signature; "" is the default signature."""
        _, version = self.version(name, number)
        signature = signature or DEFAULT
        if signature not in version.batchers:
            raise Refused("INVALID_ARGUMENT", f'Serving signature "{signature}" not found')
        return version.batchers[signature], version.definitions[signature]

    def predict(self, batcher, definition, columns):
        """Run a signature: dict of arrays -> dict of arrays."""
        self.before()
        if columns.keys() != definition.inputs.keys():
            expected, sent = ", ".join(sorted(definition.inputs)), ", ".join(sorted(columns))
            message = f"input does not match signature: expected {expected}, got {sent}"
            raise Refused("INVALID_ARGUMENT", message)
        return batcher(columns)


def signature(inputs, outputs):
    """Return a `SignatureDef` of names and types."""
    sides = {
        side: {name: {"name": f"{name}:0", "dtype": kind} for name, kind in types.items()}
        for side, types in (("inputs", inputs), ("outputs", outputs))
    }
    return json_format.ParseDict(sides, meta_graph_pb2.SignatureDef())


def request(stand_in, path, body=None):
    """Send a REST request; return (status, JSON object)."""
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(f"http://{stand_in.rest}/v1/models{path}", data) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


class _Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    allow_reuse_address = daemon_threads = True
    request_queue_size = 128


def _grpc_server(model, port):
    """Return (server, port), or (None, None) if tensorflow-serving-api is not installed."""
    try:
        import grpc
        from tensorflow_serving.apis import get_model_metadata_pb2 as metadata
        from tensorflow_serving.apis import (
            get_model_status_pb2,
            model_service_pb2_grpc,
            predict_pb2,
            prediction_service_pb2_grpc,
        )
    except ModuleNotFoundError:
        return None, None

    def guarded(method):
        def answer(self, request, context):
            try:
                spec = request.model_spec
                version = spec.version.value if spec.HasField("version") else None
                return method(request, spec, version)
            except Refused as error:
                context.abort(grpc.StatusCode[error.code], str(error))

        return answer

    @guarded
    def predict(request, spec, version):
        batcher, definition = model.signature(spec.name, version, spec.signature_name)
        columns = {name: tf.make_ndarray(x) for name, x in request.inputs.items()}
        response = predict_pb2.PredictResponse(model_spec=spec)
        response.model_spec.version.value, _ = model.version(spec.name, version)
        for name, value in model.predict(batcher, definition, columns).items():
            response.outputs[name].CopyFrom(tf.make_tensor_proto(value))
        return response

    @guarded
    def get_metadata(request, spec, version):
        if list(request.metadata_field) != ["signature_def"]:
            raise Refused("INVALID_ARGUMENT", "metadata_field: signature_def was expected")
        number, loaded = model.version(spec.name, version)
        response = metadata.GetModelMetadataResponse(model_spec=spec)
        response.model_spec.version.value = number
        signatures = metadata.SignatureDefMap(signature_def=loaded.definitions)
        response.metadata["signature_def"].Pack(signatures)
        return response

    @guarded
    def get_status(request, spec, version):
        status = model.status(spec.name, version)
        return json_format.ParseDict(status, get_model_status_pb2.GetModelStatusResponse())

    class Predictions(prediction_service_pb2_grpc.PredictionServiceServicer):
        Predict, GetModelMetadata = predict, get_metadata

    class Models(model_service_pb2_grpc.ModelServiceServicer):
        GetModelStatus = get_status

    options = {"grpc.max_receive_message_length": -1, "grpc.max_send_message_length": -1}
    server = grpc.server(futures.ThreadPoolExecutor(32), options=list(options.items()))
    prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(Predictions(), server)
    model_service_pb2_grpc.add_ModelServiceServicer_to_server(Models(), server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True, help="folder of all versions")
    parser.add_argument("--name", default="model", help="the model's name")
    parser.add_argument("--rest_port", type=int, default=0, help="a free one by default")
    parser.add_argument("--port", type=int, default=0, help="port of gRPC")
    parser.add_argument("--batching_parameters_file", help="no batching if not given")
    arguments = parser.parse_args()
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # in all threads, for `sigwait`
    versions = load(arguments.model, arguments.batching_parameters_file)
    stand_in = StandIn(versions, arguments.name, arguments.rest_port, arguments.port)
    print(
        json.dumps({"rest": stand_in.rest, "grpc": stand_in.grpc, "pid": os.getpid()}), flush=True
    )
    signal.sigwait(signals)
    stand_in.stop()
    for number, version in versions.items():
        for name, batcher in version.batchers.items():
            if batcher.batches:
                sizes = f"{sum(batcher.batches) / len(batcher.batches):.1f} rows on average"
                print(
                    f"version {number}, {name}: the last {len(batcher.batches)} batches had {sizes}"
                )


if __name__ == "__main__":
    sys.exit(main())
