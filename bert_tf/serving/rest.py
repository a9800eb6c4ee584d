"""TF Serving asked by REST, with nothing but the standard library.

Messages, paths and status codes are those of its page "RESTful API"
(https://www.tensorflow.org/tfx/serving/api_rest).
"""

import base64
import functools
import http.client
import io
import json
import threading
import time
import urllib.parse

import numpy as np

from bert_tf.serving.signature import SIGNATURE, ServerError, reading

# HTTP's status for the codes that the client knows; TF Serving translates them so.
_CODES = {
    400: "INVALID_ARGUMENT",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

_TYPES = {
    "DT_FLOAT": "float32",
    "DT_DOUBLE": "float64",
    "DT_INT32": "int32",
    "DT_INT64": "int64",
    "DT_STRING": object,
}


class Rest:
    """One model of one server; each thread has a connection of its own, which stays open."""

    def __init__(self, address, model, version=None):
        """Takes where the server is, host:port, and which model is meant; connects later."""
        self._address, self._local = address, threading.local()
        self._path = f"/v1/models/{urllib.parse.quote(model, safe='')}"
        if version is not None:
            self._path += f"/versions/{version}"

    def signatures(self, seconds):
        """The model's signatures by name, as JSON has their `SignatureDef`."""
        found = self._ask("GET", "/metadata", None, seconds)
        with reading():
            return dict(found["metadata"]["signature_def"]["signature_def"])

    def predict(self, columns, outputs, seconds):
        """Runs the model.

        Args:
          columns: dict of lists, a value for each row.
          outputs: what the signature says of its outputs, by name.
          seconds: the time that is left.

        Returns:
          Dict of arrays; texts are str.

        Raises:
          ServerError: if there is no answer.
        """
        columns = {name: [_value(x) for x in column] for name, column in columns.items()}
        body = {"signature_name": SIGNATURE, "inputs": columns}
        answer = self._ask("POST", ":predict", body, seconds)
        with reading():
            found = answer["outputs"]
            if len(outputs) == 1:
                found = dict.fromkeys(outputs, found)  # it leaves out the name of an only one
            kinds = {name: _TYPES[spec["dtype"]] for name, spec in outputs.items()}
            return {name: np.array(found[name], kind) for name, kind in kinds.items()}

    def _ask(self, method, path, body, seconds):
        """The object that the server answers."""
        deadline = time.monotonic() + seconds
        status, data = self._send(method, self._path + path, body, deadline)
        # A text that a model cuts out of damaged UTF-8 may be damaged itself.
        text = data.decode("utf-8", "replace")
        try:
            answer = json.loads(text)
            if status == http.client.OK:
                return answer
            message = answer["error"]
        except (ValueError, LookupError, TypeError, RecursionError):
            message = f"no JSON of TF Serving: {text[:100]!r}"
        raise ServerError(_CODES.get(status, f"HTTP {status}"), message)

    def _send(self, method, path, body, deadline):
        """(status, bytes of the answer)."""
        if body is not None:
            body = json.dumps(body, ensure_ascii=False).encode()
        connection = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = http.client.HTTPConnection(self._address)
        try:
            connection.timeout = _left(deadline)
            if connection.sock is None:
                connection.connect()
            connection.sock.settimeout(_left(deadline))
            connection.response_class = functools.partial(_Response, deadline=deadline)
            connection.request(method, path, body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except TimeoutError:
            connection.close()
            raise ServerError("DEADLINE_EXCEEDED", "no answer in time") from None
        except UnicodeError:
            raise ServerError("INVALID_ARGUMENT", "no name of a host") from None
        except OSError as error:
            connection.close()
            raise ServerError("UNAVAILABLE", str(error.strerror or error)) from None
        except http.client.IncompleteRead:
            connection.close()
            raise ServerError("UNAVAILABLE", "the answer ends too early") from None
        except http.client.HTTPException as error:
            connection.close()
            said = f"what answers does not speak HTTP, {error!r:.60}"
            raise ServerError("NO_HTTP", said) from None


class _Response(http.client.HTTPResponse):
    """One whose head and body come before the deadline, however slowly each byte does."""

    def __init__(self, sock, *args, deadline, **kwargs):
        super().__init__(sock, *args, **kwargs)
        self.fp = io.BufferedReader(_Until(self.fp.detach(), sock, deadline))


class _Until(io.RawIOBase):
    """Reads from a socket, each time with the seconds that are left."""

    def __init__(self, raw, sock, deadline):
        self._raw, self._sock, self._deadline = raw, sock, deadline

    def readable(self):
        return True

    def readinto(self, buffer):
        self._sock.settimeout(_left(self._deadline))
        return self._raw.readinto(buffer)

    def close(self):
        self._raw.close()
        super().close()


def _left(deadline):
    """Seconds until then."""
    seconds = deadline - time.monotonic()
    if seconds <= 0:
        raise TimeoutError
    return seconds


def _value(value):
    """A value as the API has it in JSON: bytes that are no text as an object of Base64."""
    if isinstance(value, list):
        return [_value(x) for x in value]
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(value).decode("ascii")}
