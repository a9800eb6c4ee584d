"""Runs a SavedModel of ours in this process: rows of text in, answers out, in their order."""

import os

import tensorflow as tf

from bert_tf.errors import UserError, reason
from bert_tf.serving.rows import METADATA, BasePredictor, read_metadata
from bert_tf.tokenization.graph import tensorflow_text


class Predictor(BasePredictor):
    """A model that stays loaded.

    >>> predictor = Predictor("/tmp/mrpc_model")
    >>> predictor([{"text_a": "He slept.", "text_b": "He was asleep."}])
    [{"label": "1", "probabilities": {"0": 0.1, "1": 0.9}}]
    """

    def __init__(self, path, batch_size=32):
        """Loads the newest version in a folder, or one version by its own path.

        Args:
          path: what export_model.py wrote.
          batch_size: the most rows to run together.

        Raises:
          UserError: if there is no such model, or it takes no text.
        """
        self.path = _version(path)
        about = read_metadata(os.path.join(self.path, METADATA))
        if not about["inputs"]:
            raise UserError(f"`model`: {self.path} takes ids and no text")
        tensorflow_text()  # its operations are in the graph
        try:
            self._model = tf.saved_model.load(self.path)
        except (OSError, tf.errors.OpError) as error:
            raise UserError(f"`model`: {self.path} cannot be loaded ({reason(error)})") from None
        self._serve = self._model.signatures["serving_default"]
        specs = self._serve.structured_input_signature[1]
        self._types = {name: specs[name].dtype for name in about["inputs"]}
        num_numbers = specs["numbers"].shape[1] if "numbers" in specs else 0
        super().__init__(about["inputs"], num_numbers, about, batch_size)

    def _run(self, columns):
        arguments = {name: tf.constant(x, self._types[name]) for name, x in columns.items()}
        return {name: x.numpy() for name, x in self._serve(**arguments).items()}


def _version(path):
    """The folder of the newest version below `path`, or `path` if it is one itself."""
    if tf.io.gfile.exists(os.path.join(path, "saved_model.pb")):
        return path
    names = tf.io.gfile.listdir(path) if tf.io.gfile.isdir(path) else []
    versions = [name.rstrip("/") for name in names if name.rstrip("/").isdecimal()]
    if not versions:
        raise UserError(f"`model`: {path} is no folder that export_model.py wrote")
    return os.path.join(path, max(versions, key=int))
