"""Models that `Predictor` runs with ONNX Runtime, without importing TensorFlow or Keras."""

import os

import numpy as np

from bert_tf.errors import UserError, reason
from bert_tf.io import files
from bert_tf.serving.predictor import ONNX_FILE
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.packing import pack_pair
from bert_tf.tokenization.settings import INPUTS, RELEASE_SETTINGS


class _Model:
    """Packs columns of texts as in training, and runs a session of ONNX Runtime.

    Attributes:
      inputs: dict from name to kind: `str`, `list[str]`, or the length of a list of numbers.
    """

    def __init__(self, session, tokenizer, metadata):
        self._session, self._tokenizer = session, tokenizer
        self._length, self._prompt = metadata["max_seq_length"], metadata.get("prompt", "")
        shapes = {x.name: x.shape for x in session.get_inputs()}
        self._has_choices = len(shapes[INPUTS[0]]) == 3
        self._outputs = [x.name for x in session.get_outputs()]
        self.inputs = dict.fromkeys(metadata["inputs"], str)
        if self._has_choices:
            self.inputs[metadata["inputs"][-1]] = list[str]
        self.inputs |= {name: shapes[name][1] for name in self.inputs if name in shapes}

    def __call__(self, columns, is_single):
        first, *others = (columns[x] for x, kind in self.inputs.items() if kind in (str, list[str]))
        second = others[0] if others else [""] * len(first)
        num_choices = len(second[0]) if self._has_choices else 1
        if self._has_choices:
            first = [text for text in first for _ in range(num_choices)]
            second = [text for texts in second for text in texts]
        encode = self._tokenizer.encode
        rows = [
            pack_pair(encode(self._prompt + a), encode(b), self._tokenizer, self._length)
            for a, b in zip(first, second, strict=True)
        ]
        length = max(sum(row["input_mask"]) for row in rows)
        feed = {name: np.array([row[name][:length] for row in rows], "int32") for name in INPUTS}
        if self._has_choices:
            feed = {name: x.reshape(-1, num_choices, length) for name, x in feed.items()}
        for name, kind in self.inputs.items():
            if isinstance(kind, int):
                feed[name] = np.array(columns[name], "float64")
        return dict(zip(self._outputs, self._session.run(self._outputs, feed), strict=True))


def load(path, metadata, num_threads=None):
    """Load the model of a folder with the contents of its `model.json`."""
    try:
        import onnxruntime
    except ImportError:
        raise UserError(f"{path} requires ONNX Runtime: pip install '.[onnx]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = num_threads or 0
    model = os.path.join(path, ONNX_FILE)
    if "://" in model:
        with files.open_file(model, "rb") as reader:
            model = reader.read()
    try:
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # Loading a damaged model raises exceptions of many classes.
    except Exception as error:
        raise UserError(f"`model`: {path} cannot be loaded ({reason(error)})") from None
    names = (*RELEASE_SETTINGS, "keep_special_tokens")
    settings = {name: metadata[name] for name in names if name in metadata}
    tokenizer = FullTokenizer(os.path.join(path, files.VOCABULARY), **settings)
    return _Model(session, tokenizer, metadata)
