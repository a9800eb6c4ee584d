"""A client of TF Serving: rows of text in, answers out, in order."""

import itertools
import random
import re
import time

import numpy as np

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.serving.answers import recognize
from bert_tf.serving.predictor import BasePredictor, check_outputs
from bert_tf.serving.transports import SIGNATURE, TRANSPORTS, ServerError, validating_response

# The usual inputs of an exported text model, in the order of a line; others follow by name.
INPUTS = ("text", "text_a", "text_b", "question", "context", "endings", "numbers")

# Seconds before the first retry; the wait doubles each time, up to the limit.
_FIRST_WAIT, _MAX_WAIT = 0.1, 5.0

# Sockets cannot wait for an infinite time.
_MAX_TIMEOUT = 1_000_000


class Client(BasePredictor):
    """A model served by TF Serving that answers like `Predictor`. Threads may share a client.

    >>> client = Client("localhost:8501", "mrpc", metadata=read_metadata("model.json"))
    >>> client([{"text_a": "He slept.", "text_b": "He was asleep."}])
    [{"label": "1", "probabilities": {"0": 0.1, "1": 0.9}}]
    """

    def __init__(
        self, server, model, api="rest", version=None, metadata=None,
        batch_size=32, timeout=60.0, retries=5,
    ):  # fmt: skip
        """Request the model's signatures and check them.

        Args:
          server: host:port of the API that is used; the connection is not encrypted.
          model: name of the model at the server.
          api: "rest" or "grpc"; "grpc" requires the package tensorflow-serving-api.
          version: number of the version, None for the newest.
          metadata: dict returned by `read_metadata`. It is needed only for the names of the labels
            of a classifier exported by version 0.1, whose answers without it are its raw outputs.
          batch_size: maximum number of rows in a request.
          timeout: seconds that a request may take, including retries; at most a million.
          retries: maximum number of retries if the server is unavailable. Other errors, including
            an exceeded deadline, are not retried.

        Raises:
          ServerError: if a request fails; every call may raise it.
          UserError: if the model does not take texts or does not match `metadata`.
        """
        if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}", server):
            raise UserError(f"`server={server}`: expected host:port")
        if api not in TRANSPORTS:
            raise UserError(f"`api={api}`: expected one of {', '.join(TRANSPORTS)}")
        if not 1e-3 <= timeout <= _MAX_TIMEOUT:
            raise UserError(f"`timeout={timeout}`: expected seconds from 0.001 to {_MAX_TIMEOUT}")
        self.server, self._model, self._version = server, model, version
        self._timeout, self._retries = timeout, retries
        self._transport = TRANSPORTS[api](server, model, version)
        signatures = self._request("the model's signatures", self._transport.signatures)
        if SIGNATURE not in signatures:
            raise UserError(f"{self._name()} has no signature {SIGNATURE}")
        with validating_response():
            specs, self._output_specs = (signatures[SIGNATURE][x] for x in ("inputs", "outputs"))
            shape = specs.get("numbers", {}).get("tensor_shape", {}).get("dim", [])
            num_numeric_features = int(shape[1]["size"]) if shape else 0
            texts = [name for name, x in specs.items() if x["dtype"] == "DT_STRING"]
        if not texts or specs.keys() - {*texts, "numbers"}:
            raise UserError(
                f"{self._name()} has the inputs {', '.join(sorted(specs)) or '(none)'}; texts were "
                "expected, as in a model exported with `inputs=text`"
            )
        inputs = [*(name for name in INPUTS if name in specs), *sorted(specs.keys() - set(INPUTS))]
        if metadata is None:
            metadata = {"task": recognize({*self._output_specs, *specs})}
            if not metadata["task"] and "probabilities" in self._output_specs:
                console.info("without a model.json the probabilities have no label names")
        elif sorted(metadata["inputs"]) == sorted(inputs):
            inputs = metadata["inputs"]
        else:
            raise UserError(
                f"{self._name()} has the inputs {', '.join(inputs)}, but model.json names "
                f"{', '.join(metadata['inputs'])}"
            )
        check_outputs(self._name(), self._output_specs, metadata)
        super().__init__(inputs, num_numeric_features, metadata, batch_size)

    def _run(self, columns):
        size = len(next(iter(columns.values())))

        def predict(seconds):
            outputs = self._transport.predict(columns, self._output_specs, seconds)
            for name, value in outputs.items():
                if np.shape(value)[:1] != (size,):
                    message = f"{name} has the shape {np.shape(value)}"
                    raise ServerError("INVALID_RESPONSE", message)
            return outputs

        return self._request(f"answers to {size} rows", predict)

    def _name(self):
        version = "" if self._version is None else f" version {self._version}"
        return f"{self.server}: model {self._model}{version}"

    def _request(self, description, send):
        """Return `send(seconds left)`, retrying while the server is unavailable."""
        start = time.monotonic()
        for attempt in itertools.count(1):
            try:
                return send(max(start + self._timeout - time.monotonic(), 1e-3))
            except ServerError as error:
                code, message = error.code, str(error).strip().rstrip(".")
            # Random, so that clients waiting for the same server do not all retry at once.
            wait = min(_FIRST_WAIT * 2 ** (attempt - 1), _MAX_WAIT) * random.uniform(0.5, 1)
            elapsed = time.monotonic() - start
            if code != "UNAVAILABLE" or attempt > self._retries or elapsed + wait > self._timeout:
                raise ServerError(
                    code, self._error_message(code, description, message, attempt, elapsed)
                )
            console.info("%s is unavailable (%s), retrying in %.1f s", self.server, message, wait)
            time.sleep(wait)

    def _error_message(self, code, description, message, attempts, elapsed):
        if code == "NOT_FOUND":
            return f"{self._name()} was not found ({message})"
        if code == "DEADLINE_EXCEEDED":
            reason = f"timed out after {elapsed:.3g} s ({message})"
        elif code == "UNAVAILABLE":
            tries = "1 attempt" if attempts == 1 else f"{attempts} attempts in {elapsed:.1f} s"
            reason = f"failed after {tries}: the server is unavailable ({message})"
        else:
            reason = f"failed: {code} ({message})"
        return f"{self._name()}: the request for {description} {reason}"
