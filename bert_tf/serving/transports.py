"""Requests to TF Serving over REST and gRPC.

REST follows https://www.tensorflow.org/tfx/serving/api_rest and does not require TensorFlow. gRPC
uses the messages of the package tensorflow-serving-api. `Client` retries failed requests.
"""

import base64
import contextlib
import functools
import http.client
import io
import json
import threading
import time
import urllib.parse
from typing import Any

import numpy as np

from bert_tf.errors import UserError

SIGNATURE = "serving_default"

# TF Serving's mapping from HTTP status to gRPC code.
_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

_NUMPY_TYPES = {
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_STRING": object,
}

# Maximum size of a response. 32 rows of 512 token vectors of size 1,024 take 200 MB over REST.
_MAX_BYTES = 512 << 20

_GRPC_OPTIONS = {
    # Token vectors exceed gRPC's default limit of 4 MB.
    "grpc.max_receive_message_length": _MAX_BYTES,
    "grpc.max_send_message_length": -1,
    # `Client` retries itself and logs each retry.
    "grpc.enable_retries": 0,
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.min_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
}


class ServerError(UserError):
    """A request failed.

    Attributes:
      code: a gRPC status code such as "UNAVAILABLE"; "HTTP 500" or similar if the HTTP status has
        no gRPC code; or "INVALID_RESPONSE" for a response that TF Serving would not send.
    """

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


@contextlib.contextmanager
def validating_response():
    """Raise ServerError if the code in this context fails to parse a response."""
    try:
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        is_type = isinstance(error, (AttributeError, TypeError))
        problem = "a value has an unexpected type" if is_type else f"{error!r:.100}"
        message = f"not a TF Serving response: {problem}"
        raise ServerError("INVALID_RESPONSE", message) from None


class RestTransport:
    """REST requests to a model. Each thread keeps its own connection open."""

    # http.client instead of requests, because the deadline must cover the whole request, from
    # connecting to the last byte of the response. requests applies timeouts to each read from the
    # socket: for a server that sent 99 header lines or bytes, one every 50 ms, requests 2.34 waited
    # 5 s, both with `timeout=0.3` and with urllib3's `Timeout(total=0.3)`.

    def __init__(self, address, model, version=None):
        """Store host:port, name and version (None for the newest); connect on the first request."""
        self._address, self._local = address, threading.local()
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"

    def signatures(self, seconds):
        """Return a dict from signature name to `SignatureDef` as JSON."""
        response = self._request("GET", "/metadata", None, seconds)
        with validating_response():
            return dict(response["metadata"]["signature_def"]["signature_def"])

    def predict(self, columns, output_specs, seconds):
        """Run the model on a batch.

        `columns` is a dict from input name to a list of values, and `output_specs` from output name
        to its `TensorInfo` as JSON. Returns a dict from output name to array; strings are str.
        """
        columns = {name: [_to_json(x) for x in column] for name, column in columns.items()}
        body = {"signature_name": SIGNATURE, "inputs": columns}
        response = self._request("POST", ":predict", body, seconds)
        with validating_response():
            outputs = response["outputs"]
            if len(output_specs) == 1:
                outputs = dict.fromkeys(output_specs, outputs)  # TF Serving omits a single name
            dtypes = {name: _NUMPY_TYPES[spec["dtype"]] for name, spec in output_specs.items()}
            return {name: np.array(outputs[name], dtype) for name, dtype in dtypes.items()}

    def _request(self, method, path, body, seconds):
        deadline = time.monotonic() + seconds
        status, text = self._send(method, self._path + path, body, deadline)
        try:
            response = json.loads(text)
            if status == http.client.OK:
                return response
            message = response["error"]
        except (ValueError, LookupError, TypeError, RecursionError):
            message = f"not TF Serving's JSON: {text[:100]!r}"
        raise ServerError(_CODES.get(status, f"HTTP {status}"), message)

    def _send(self, method, path, body, deadline):
        if body is not None:
            body = json.dumps(body, ensure_ascii=False).encode()
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection(self._address)
        try:
            connection.timeout = _remaining(deadline)
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(_remaining(deadline))
            connection.response_class = functools.partial(_Response, deadline=deadline)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            # Substrings of invalid UTF-8 may be invalid.
            return response.status, _read(response).decode("utf-8", "replace")
        except ServerError:
            connection.close()
            raise
        except TimeoutError:
            connection.close()
            raise ServerError("DEADLINE_EXCEEDED", "no complete response") from None
        except UnicodeError:
            raise ServerError("INVALID_ARGUMENT", "invalid host name") from None
        except OSError as error:
            connection.close()
            raise ServerError("UNAVAILABLE", str(error.strerror or error)) from None
        except http.client.IncompleteRead:
            connection.close()
            raise ServerError("UNAVAILABLE", "the response is incomplete") from None
        except http.client.HTTPException as error:
            connection.close()
            message = f"the server does not speak HTTP, {error!r:.60}"
            raise ServerError("INVALID_RESPONSE", message) from None


class GrpcTransport:
    """gRPC requests to a model. Threads share the connection."""

    def __init__(self, address, model, version=None):
        try:
            import grpc
            from tensorflow_serving.apis import prediction_service_pb2_grpc
        except ModuleNotFoundError as error:
            raise UserError(
                f"`api=grpc` requires the package tensorflow-serving-api ({error}); install it or "
                "use `api=rest`"
            ) from None
        channel = grpc.insecure_channel(address, list(_GRPC_OPTIONS.items()))
        self._service = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        self._model, self._version = model, version

    def signatures(self, seconds):
        from google.protobuf import json_format
        from tensorflow_serving.apis import get_model_metadata_pb2

        request = get_model_metadata_pb2.GetModelMetadataRequest(metadata_field=["signature_def"])
        response = self._request(self._service.GetModelMetadata, request, seconds)
        signatures = get_model_metadata_pb2.SignatureDefMap()
        with validating_response():
            response.metadata["signature_def"].Unpack(signatures)
            as_json = json_format.MessageToDict(signatures, preserving_proto_field_name=True)
            return as_json["signature_def"]

    def predict(self, columns, output_specs, seconds):
        """See `RestTransport.predict`; strings are bytes."""
        import tensorflow as tf
        from tensorflow_serving.apis import predict_pb2

        request = predict_pb2.PredictRequest()
        request.model_spec.signature_name = SIGNATURE
        for name, column in columns.items():
            dtype = tf.float64 if name == "numbers" else tf.string
            request.inputs[name].CopyFrom(tf.make_tensor_proto(column, dtype))
        response = self._request(self._service.Predict, request, seconds)
        with validating_response():
            return {name: tf.make_ndarray(response.outputs[name]) for name in output_specs}

    def _request(self, method, request, seconds):
        import grpc

        request.model_spec.name = self._model
        if self._version is not None:
            request.model_spec.version.value = self._version
        try:
            return method(request, timeout=seconds)
        except grpc.RpcError as error:
            raise ServerError(error.code().name, error.details()) from None


TRANSPORTS: dict[str, Any] = {"rest": RestTransport, "grpc": GrpcTransport}


class _Response(http.client.HTTPResponse):
    """A response whose header and body must arrive completely before the deadline."""

    def __init__(self, sock, *args, deadline, **kwargs):
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_DeadlineReader(self.fp.detach(), sock, deadline))


def _read(response):
    """Return the body of an `HTTPResponse`; raise ServerError if it is too large."""
    length = response.length or 0  # 0 if unknown
    if length > _MAX_BYTES or len(data := response.read(_MAX_BYTES + 1)) > _MAX_BYTES:
        raise ServerError(
            "INVALID_RESPONSE",
            f"the response has more than {_MAX_BYTES >> 20} MB; a smaller `batch_size` may help",
        )
    if response.length:  # `read` with a size does not raise
        raise http.client.IncompleteRead(data)
    return data


class _DeadlineReader(io.RawIOBase):
    """Reads from a socket; reads time out at the deadline."""

    def __init__(self, raw, sock, deadline):
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self):
        return True

    def readinto(self, buffer):
        self._sock.settimeout(_remaining(self._deadline))
        return self._raw.readinto(buffer)

    def close(self):
        self._raw.close()
        super().close()


def _remaining(deadline):
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _to_json(value):
    """Convert a value to the API's JSON format; bytes that are not UTF-8 are Base64-encoded."""
    if isinstance(value, list):
        return [_to_json(x) for x in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode("ascii")}
