"""A stand-in for TF Serving, for the requests in the documentation: it is NOT TF Serving.

It answers `:predict` requests for rows by REST and `Predict` requests by gRPC, with a SavedModel in
this process.
"""

import http.server
import json
import threading
from concurrent import futures

import grpc
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the operations of the graph
from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc


class StandIn(prediction_service_pb2_grpc.PredictionServiceServicer):
    """Serves a SavedModel on free ports; `rest` and `grpc` are host:port."""

    def __init__(self, path, name):
        self._model, self._name = tf.saved_model.load(path), name
        stand_in = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert self.path == f"/v1/models/{name}:predict"
                rows = request.pop("instances")
                columns = {key: [row[key] for row in rows] for key in rows[0]}
                outputs = stand_in._run(columns, **request)
                predictions = zip(*(x.numpy().tolist() for x in outputs.values()), strict=True)
                predictions = [dict(zip(outputs, row, strict=True)) for row in predictions]
                self.send_response(200)
                self.end_headers()
                text = json.dumps({"predictions": predictions}, default=bytes.decode)
                self.wfile.write(text.encode())

            def log_message(self, *args):
                pass

        self._rest = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._rest.serve_forever, args=(0.05,), daemon=True).start()
        self.rest = f"127.0.0.1:{self._rest.server_address[1]}"
        self._grpc = grpc.server(futures.ThreadPoolExecutor(1))
        prediction_service_pb2_grpc.add_PredictionServiceServicer_to_server(self, self._grpc)
        self.grpc = f"127.0.0.1:{self._grpc.add_insecure_port('127.0.0.1:0')}"
        self._grpc.start()

    def Predict(self, request, context):
        assert request.model_spec.name == self._name
        columns = {key: tf.make_ndarray(x) for key, x in request.inputs.items()}
        outputs = self._run(columns, request.model_spec.signature_name)
        tensors = {key: tf.make_tensor_proto(x) for key, x in outputs.items()}
        return predict_pb2.PredictResponse(outputs=tensors)

    def _run(self, columns, signature_name="serving_default"):
        serve = self._model.signatures[signature_name]
        specs = serve.structured_input_signature[1]
        return serve(**{key: tf.constant(x, specs[key].dtype) for key, x in columns.items()})

    def stop(self):
        self._rest.shutdown()
        self._rest.server_close()
        self._grpc.stop(None).wait()
