"""`Client`: answers rows of text with a model in TF Serving."""

import itertools
import random
import re
import time

import numpy as np

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.serving.answers import identify_task
from bert_tf.serving.predictor import BasePredictor, check_outputs
from bert_tf.serving.transports import SIGNATURE, TRANSPORTS, ServerError, validating_response

# The inputs of exported text models, in the order of a line. Other inputs follow by name.
INPUTS = ("text", "text_a", "text_b", "question", "context", "endings", "numbers")

# Seconds before the first retry and the limit; the wait doubles each time.
_FIRST_WAIT, _MAX_WAIT = 0.1, 5.0

# Seconds; sockets reject larger timeouts.
_MAX_TIMEOUT = 1_000_000


class Client(BasePredictor):
    """A model in TF Serving, with the interface of `Predictor`. Thread-safe.

    >>> client = Client("localhost:8501", "mrpc")
    >>> client([{"text_a": "He slept.", "text_b": "He was asleep."}])
    [{"label": "1", "probabilities": {"0": ..., "1": ...}}]
    """

    def __init__(
        self,
        server: str,
        model: str,
        api: str = "rest",
        version: int | None = None,
        metadata: dict | None = None,
        batch_size: int = 32,
        timeout: float = 60.0,
        retries: int = 5,
    ):  # fmt: skip
        """Request and check the model's signatures.

        Args:
          server: host:port of the API; the connection is not encrypted.
          model: name of the model on the server.
          api: "rest", or "grpc", which requires the package tensorflow-serving-api.
          version: version number of the model; None for the newest.
          metadata: dict returned by `read_metadata`. Required only for the label names of
            classifiers exported by bert_tf 0.1; without it, their answers are the raw outputs.
          batch_size: maximum number of rows in a request.
          timeout: seconds for a request, including retries; at most a million.
          retries: maximum number of retries if the server is unavailable; other errors and timeouts
            are not retried.

        Raises:
          ServerError: if a request fails; also raised by every call.
          UserError: if the model does not take text or does not match `metadata`.
        """
        if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}", server):
            raise UserError(f"`server={server}`: expected host:port")
        if api not in TRANSPORTS:
            raise UserError(f"`api={api}`: expected one of {', '.join(TRANSPORTS)}")
        if not 1e-3 <= timeout <= _MAX_TIMEOUT:
            raise UserError(
                f"`timeout={timeout}`: expected seconds between 0.001 and {_MAX_TIMEOUT}"
            )
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
                f"{self._name()} has the inputs {', '.join(sorted(specs)) or '(none)'}, expected "
                "text inputs; export the model with `inputs=text`"
            )
        inputs = [*(name for name in INPUTS if name in specs), *sorted(specs.keys() - set(INPUTS))]
        if metadata is None:
            metadata = {"task": identify_task({*self._output_specs, *specs})}
            if not metadata["task"] and "probabilities" in self._output_specs:
                console.info("without model.json, the probabilities have no label names")
        elif sorted(metadata["inputs"]) == sorted(inputs):
            inputs = metadata["inputs"]
        else:
            raise UserError(
                f"{self._name()} has the inputs {', '.join(inputs)}, expected "
                f"{', '.join(metadata['inputs'])} as in model.json"
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
            # Jitter keeps clients from retrying all at once.
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
