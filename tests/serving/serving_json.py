"""REST messages of the stand-in for TF Serving, which follow its page "RESTful API"."""

import base64
import http.server
import json
import re

import numpy as np
import tensorflow as tf
from google.protobuf import json_format

from tests.serving.serving_batches import Refused

# HTTP status of each error code.
_STATUS = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}

_PATH = re.compile(r"/v1/models/([^/:]+)(?:/versions/(\d+))?(/metadata|:predict)?")


class RestHandler(http.server.BaseHTTPRequestHandler):
    """Handles a connection; `server.model` is the `StandIn`."""

    protocol_version = "HTTP/1.1"
    wbufsize = -1  # sends head and body in one packet
    disable_nagle_algorithm = True

    def do_GET(self):
        self._answer(b"")

    def do_POST(self):
        self._answer(self.rfile.read(int(self.headers.get("Content-Length", 0))))

    def log_message(self, *args):
        pass

    def _answer(self, body):
        try:
            status, response = 200, self._respond(body)
        except Refused as error:
            status, response = _STATUS[error.code], {"error": str(error)}
        # Strings are sent as raw bytes, even if they are not UTF-8.
        data = json.dumps(response, ensure_ascii=False).encode("utf-8", "surrogateescape")
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _respond(self, body):
        match, model = _PATH.fullmatch(self.path), self.server.model
        name, number, action = match.groups() if match else (None, None, None)
        number = int(number) if number else None
        if match and self.command == "GET" and action is None:
            return model.status(name, number)
        if match and self.command == "GET" and action == "/metadata":
            return _metadata(name, *model.version(name, number))
        if match and self.command == "POST" and action == ":predict":
            return _predict(model, name, number, body)
        raise Refused("INVALID_ARGUMENT", f"Malformed request: {self.command} {self.path}")


def _metadata(name, number, version):
    signatures = {
        key: json_format.MessageToDict(
            value, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        for key, value in version.definitions.items()
    }
    spec = {"name": name, "signature_name": "", "version": str(number)}
    return {"model_spec": spec, "metadata": {"signature_def": {"signature_def": signatures}}}


def _predict(model, name, number, body):
    try:
        request = json.loads(body)
    except ValueError as error:
        raise Refused("INVALID_ARGUMENT", f"JSON Parse error: {error}") from None
    if not isinstance(request, dict) or ("instances" in request) == ("inputs" in request):
        raise Refused("INVALID_ARGUMENT", "one of 'inputs' and 'instances' was expected")
    signature = request.get("signature_name", "")
    batcher, definition = model.signature(name, number, signature)
    types = {key: x.dtype for key, x in definition.inputs.items()}
    if "inputs" in request:
        columns = _columns(request["inputs"], types)
    else:
        columns = _columns_of_rows(request["instances"], types)
    arrays = {key: _array(key, value, types[key]) for key, value in columns.items()}
    outputs = model.predict(batcher, definition, arrays)
    plain = {key: _plain(value) for key, value in outputs.items()}
    only = next(iter(plain.values())) if len(plain) == 1 else None
    if "inputs" in request:
        return {"outputs": plain if only is None else only}
    if only is None:
        only = [dict(zip(plain, row, strict=True)) for row in zip(*plain.values(), strict=True)]
    return {"predictions": only}


def _columns(inputs, types):
    if not _is_object(inputs):
        _check_one(types)
        return dict.fromkeys(types, inputs)
    _check_names(inputs, types)
    return inputs


def _columns_of_rows(rows, types):
    if not isinstance(rows, list) or not rows:
        raise Refused("INVALID_ARGUMENT", "'instances' must be a list with values")
    if not _is_object(rows[0]):
        _check_one(types)
        return dict.fromkeys(types, rows)
    for row in rows:
        _check_names(row if _is_object(row) else {}, types)
    return {name: [row[name] for row in rows] for name in types}


def _is_object(value):
    """Return whether a value is an object other than a Base64 string."""
    return isinstance(value, dict) and list(value) != ["b64"]


def _check_one(types):
    if len(types) > 1:
        raise Refused("INVALID_ARGUMENT", "a plain list, but there are several inputs")


def _check_names(values, types):
    if values.keys() != types.keys():
        raise Refused("INVALID_ARGUMENT", f"keys must be equal to: {','.join(sorted(types))}")


def _array(name, value, kind):
    """Convert nested lists to an array of the signature's type."""
    is_text = kind == tf.string.as_datatype_enum

    def leaf(x):
        if isinstance(x, list):
            return [leaf(y) for y in x]
        if is_text and isinstance(x, str):
            return x.encode()
        if is_text and isinstance(x, dict) and list(x) == ["b64"]:
            return base64.b64decode(x["b64"], validate=True)
        if not is_text and type(x) in (int, float):
            return x
        raise ValueError(f"{x!r:.50} is not of the type {tf.as_dtype(kind).name}")

    try:
        values = leaf(value)
        if not is_text:
            return np.array(values, tf.as_dtype(kind).as_numpy_dtype)
        array = np.array(values, object)
        if any(isinstance(x, list) for x in array.flat):
            raise ValueError("lists of different sizes")
        return array
    except ValueError as error:
        raise Refused("INVALID_ARGUMENT", f"{name}: {error}") from None


def _plain(value):
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, np.ndarray) and value.dtype == np.float32:
        # The shortest decimal of this float32, as TF Serving writes it.
        return np.array([float(str(x)) for x in value.flat]).reshape(value.shape).tolist()
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [_plain(x) for x in value]
    return value.tolist()
