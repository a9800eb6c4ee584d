"""Asks a model that TF Serving serves: rows of text in, answers out, in their order."""

import itertools
import random
import re
import time

import numpy as np

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.serving.rows import OUTPUTS, BasePredictor
from bert_tf.serving.signature import INPUTS, SIGNATURE, ServerError, reading

APIS = ("rest", "grpc")

# Seconds to wait before a server is asked again: twice as long each time, up to a limit.
_FIRST_WAIT, _LONGEST_WAIT = 0.1, 5.0

# The task of a model of which nothing is known, by an output or input that no other has.
_TASKS = {
    "entity": "tagging",
    "tokens": "encoder",
    "words": "masked_words",
    "endings": "choice",
}


class Client(BasePredictor):
    """A model at a server, with the answers of `Predictor`. Threads may share one.

    >>> client = Client("localhost:8501", "mrpc", about=read_metadata("model.json"))
    >>> client([{"text_a": "He slept.", "text_b": "He was asleep."}])
    [{"label": "1", "probabilities": {"0": 0.1, "1": 0.9}}]
    """

    def __init__(
        self, server, model, api="rest", version=None, about=None,
        batch_size=32, timeout=60.0, retries=5,
    ):  # fmt: skip
        """Asks the server what the model takes.

        Args:
          server: host:port, of the API that is meant; not encrypted.
          model: the model's name at the server.
          api: one of `APIS`; "grpc" needs the package tensorflow-serving-api.
          version: number of the version to ask, None for the newest.
          about: what `read_metadata` reads, for the names of labels. Without it the answers of a
            classifier have its outputs as they are.
          batch_size: the most rows of one request.
          timeout: seconds that a request may take in all, asking again included.
          retries: how often a server that is not available is asked again. A deadline that is
            over is not tried again, and what was refused would be refused again.

        Raises:
          ServerError: if there is no answer; and each call may raise it.
          UserError: if it is no model of text of ours, or another than `about` tells.
        """
        if not re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^\s:/]+):\d{1,5}", server):
            raise UserError(f"{server!r} is no server: host:port was expected")
        self.server, self._model, self._version = server, model, version
        self._timeout, self._retries = timeout, retries
        self._transport = _transport(api)(server, model, version)
        signatures = self._ask("what it takes", self._transport.signatures)
        if SIGNATURE not in signatures:
            raise UserError(f"{self._name()} has no signature {SIGNATURE}")
        with reading():
            takes, self._outputs = (signatures[SIGNATURE][x] for x in ("inputs", "outputs"))
            shape = takes.get("numbers", {}).get("tensor_shape", {}).get("dim", [])
            num_numbers = int(shape[1]["size"]) if shape else 0
        if not takes or takes.keys() - set(INPUTS):
            raise UserError(
                f"{self._name()} takes {', '.join(sorted(takes)) or 'nothing'}; texts were "
                "expected, as export_model.py has them"
            )
        inputs = [name for name in INPUTS if name in takes]
        if about is None:
            about = {
                "task": next((_TASKS[x] for x in _TASKS if {*self._outputs, *takes} & {x}), "")
            }
            if about["task"] == "" and "probabilities" in self._outputs:
                console.info("no model.json says which labels the probabilities are of")
        elif list(about["inputs"]) != inputs:
            raise UserError(
                f"{self._name()} takes {', '.join(inputs)}, and the model of model.json "
                f"{', '.join(about['inputs'])}"
            )
        missing = [x for x in OUTPUTS.get(about["task"], ()) if x not in self._outputs]
        if missing:
            raise UserError(
                f"{self._name()} gives {', '.join(sorted(self._outputs))}, and no "
                f"{', '.join(missing)}, as a model of the task {about['task']} does"
            )
        super().__init__(inputs, num_numbers, about, batch_size)

    def _run(self, columns):
        size = len(next(iter(columns.values())))

        def predict(seconds):
            found = self._transport.predict(columns, self._outputs, seconds)
            for name, value in found.items():
                if np.shape(value)[:1] != (size,):
                    raise ServerError("NO_ANSWER", f"{name} has the shape {np.shape(value)}")
            return found

        return self._ask(f"an answer to {size} rows", predict)

    def _name(self):
        version = "" if self._version is None else f" version {self._version}"
        return f"{self.server}: model {self._model}{version}"

    def _ask(self, what, call):
        """What `call` gives in the seconds that it is told; asks again where that may help."""
        start = time.monotonic()
        for asked in itertools.count(1):
            try:
                return call(max(start + self._timeout - time.monotonic(), 1e-3))
            except ServerError as error:
                code, message = error.code, str(error).strip().rstrip(".")
            # Not all at once where many clients wait for one server.
            wait = min(_FIRST_WAIT * 2 ** (asked - 1), _LONGEST_WAIT) * random.uniform(0.5, 1)
            passed = time.monotonic() - start
            if code != "UNAVAILABLE" or asked > self._retries or passed + wait > self._timeout:
                raise ServerError(code, self._sentence(code, what, message, asked, passed))
            console.info("%s: unavailable (%s), asked again in %.1f s", self.server, message, wait)
            time.sleep(wait)

    def _sentence(self, code, what, message, asked, passed):
        if code == "NOT_FOUND":
            return f"{self._name()} is not there ({message})"
        if code == "DEADLINE_EXCEEDED":
            over = f"the time was over after {passed:.3g} s"
            return f"{self._name()}: asked for {what}, {over} ({message})"
        if code == "UNAVAILABLE":
            times = "once" if asked == 1 else f"{asked} times in {passed:.1f} s"
            return f"{self._name()}: asked for {what} {times}, unavailable ({message})"
        return f"{self._name()}: asked for {what}, {code} ({message})"


def _transport(api):
    """The class of a way to ask; what it needs is imported with it."""
    if api == "rest":
        from bert_tf.serving.rest import Rest

        return Rest
    if api != "grpc":
        raise UserError(f"api {api!r}: one of {', '.join(APIS)} was expected")
    try:
        from bert_tf.serving.rpc import Grpc
    except ModuleNotFoundError as error:
        raise UserError(
            f"gRPC needs the package tensorflow-serving-api, which is not installed ({error})"
        ) from None
    return Grpc
