"""`run.json` in the folder of a run: everything needed to reproduce it, and its metrics."""

import json
import os
import platform
import threading

import keras
import tensorflow as tf

import bert_tf
from bert_tf import console
from bert_tf.checkpoints.warm_start import weight_files
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.training import checkpointing

FILE = "run.json"

_FIELDS = {"command_lines": list[str | None], "config": dict, "weights?": dict, "metrics?": dict}

# Maximum number of bytes to digest, because a pre-training corpus may have terabytes.
_MAX_BYTES = 8 << 30


class RunRecord:
    """The record of a run: versions, command lines, configuration, digests and metrics.

    A resumed run keeps the earlier command lines and the initial weights of the first run. A run
    that only evaluates adds its command line and its metrics.
    """

    def __init__(self, config, data_files, model_files, command_line):
        self._config, self._data_files, self._model = config, data_files, model_files
        self._path = os.path.join(config.output_dir, FILE)
        self._command_line = command_line
        self._values, self._thread = None, None

    def start(self):
        """Write the record, unless the run only evaluates an earlier one, and compute digests."""
        earlier = self._read()
        if self._thread or (earlier and not self._config.do_train):
            return
        weights = {"path": self._model.checkpoint, "revision": self._model.revision}
        if checkpointing.latest(self._config.output_dir):
            weights = earlier.get("weights", weights)
        self._values = {
            "versions": {
                "bert_tf": bert_tf.__version__,
                "tensorflow": tf.__version__,
                "keras": keras.__version__,
                "python": platform.python_version(),
            },
            "command_lines": [*earlier.get("command_lines", ()), self._command_line],
            "config": self._config.to_flags(),
            "weights": weights,
        }
        self._write()
        self._thread = threading.Thread(target=self._add_digests, daemon=True)
        self._thread.start()

    def finish(self, metrics):
        """Add the metrics of the run, a dict."""
        self.start()
        if self._thread:
            self._thread.join()
        else:
            self._values = self._read()
            self._values["command_lines"].append(self._command_line)
            metrics = {**self._values.get("metrics", {}), **metrics}
        self._values["metrics"] = metrics
        self._write()

    def _add_digests(self):
        weights = self._values["weights"]
        budget = _MAX_BYTES
        try:
            if weights["path"] and "files" not in weights:
                paths = weight_files(weights["path"])
                weights["files"], budget = _digests(paths, budget)
            self._values["data"], _ = _digests(self._data_files, budget)
            self._write()
        except UserError as error:  # a file was removed during the run
            console.warning("%s has no digests: %s", self._path, error)

    def _read(self):
        exists = files.system(self._path).exists(self._path)
        return json_files.read(self._path, _FIELDS, "a training run") if exists else {}

    def _write(self):
        # Metrics may be NumPy scalars.
        text = json.dumps(self._values, indent=2, ensure_ascii=False, default=float)
        files.write_text(self._path, text + "\n")


def _digests(paths, budget):
    """Return {path: size and SHA-256 or None} and the remaining budget in bytes."""
    digests = {}
    for path in paths:
        size, _ = files.size_and_time(path)
        is_read = "://" not in path and size <= budget
        budget -= size if is_read else 0
        digests[path] = {"bytes": size, "sha256": files.digest(path) if is_read else None}
    return digests, budget
