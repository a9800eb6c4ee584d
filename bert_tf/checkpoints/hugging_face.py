"""Hugging Face folders of BERT: `config.json`, `model.safetensors` (or shards of it), vocabulary.

Needs the package safetensors, the extra "huggingface". Pickled weights (`pytorch_model.bin`) are
not read: unpickling a file runs whatever its author put into it.
"""

import json
import os

import numpy as np
import tensorflow as tf

from bert_tf import console, files
from bert_tf.checkpoints import names
from bert_tf.errors import UserError, reason

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"
CONFIG = "config.json"

# Copies of other weights, and a row of whole numbers.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}
_BUFFERS = ("embeddings.position_ids", "bert.embeddings.position_ids")


# These classes of `transformers` have no pooler, and would call its weights unexpected.
_WITHOUT_POOLER = ("BertForMaskedLM", "BertForQuestionAnswering", "BertForTokenClassification")
_CHOICE = "BertForMultipleChoice"


def is_folder(path):
    """Whether `path` is such a folder."""
    return tf.io.gfile.isdir(path) and any(
        tf.io.gfile.exists(os.path.join(path, name)) for name in (WEIGHTS, INDEX, PICKLE)
    )


class HuggingFaceFolder:
    """A folder that can be read, under the release's names and in the release's shapes.

    Attributes:
      path: the folder.
      shapes: dict of names to shapes; a weight that the name table lacks keeps its own name.
    """

    def __init__(self, path):
        """Opens the folder; UserError if a file is missing or damaged."""
        self.path = path
        self._files = {}
        self._theirs = {}
        self.shapes = {}
        for shard in _shards(path):
            handle = _open(os.path.join(path, shard))
            for theirs in handle.keys():  # noqa: SIM118, not a dict
                if theirs in _BUFFERS:
                    continue
                name = names.from_hugging_face(theirs) or theirs
                shape = tuple(handle.get_slice(theirs).get_shape())
                self.shapes[name] = shape[::-1] if names.is_transposed(name) else shape
                self._theirs[name] = theirs
                self._files[name] = handle
        for copy, name in _TIED.items():
            if copy in self.shapes and name in self.shapes:
                if not np.array_equal(self.tensor(copy), self.tensor(name)):
                    raise UserError(
                        f"{path}: {copy} differs from {self._theirs[name]}; BERT's masked-LM head "
                        "shares its weights with the embeddings, so this is another model"
                    )
                del self.shapes[copy]

    def tensor(self, name):
        """Reads one tensor as a float32 array; UserError if the file is damaged there."""
        try:
            value = self._files[name].get_tensor(self._theirs[name])
        except Exception as error:  # safetensors' errors have no common base
            raise UserError(
                f"{self.path}: tensor {self._theirs[name]} cannot be read ({reason(error)})"
            ) from None
        value = value.T if names.is_transposed(name) else value
        return np.ascontiguousarray(value, "float32")


# What a classifier was trained for, by the names of `tasks.TASK_CLASSES`.
_PROBLEMS = {
    "classification": "single_label_classification",
    "regression": "regression",
    "multi_label": "multi_label_classification",
}


def write(
    folder,
    tensors,
    config,
    vocab_file=None,
    do_lower_case=True,
    labels=None,
    architecture=None,
    task_type=None,
):
    """Writes a folder that `transformers` loads, whole or not at all.

    Args:
      folder: its path; it must not exist.
      tensors: dict of the release's names to arrays; every one must be in the name table.
      config: the `BertConfig`.
      vocab_file: a vocabulary to lay beside the weights, or None.
      do_lower_case: what the tokenizer's settings say of casing.
      labels: the labels of a classifier in the order of their ids, or None.
      architecture: the class of `transformers` that the folder is for, None to tell it by the
        head. A tagger has the head of a classifier: for it this has to be given.
      task_type: what a classifier was trained for, a key of `tasks.TASK_CLASSES`, or None.

    Returns:
      The name of the class of `transformers` that the folder is for.
    """
    numpy = _safetensors("numpy")
    values = config.to_hugging_face()
    architecture = architecture or architecture_of(tensors)
    values["architectures"] = [architecture]
    if task_type:
        values["problem_type"] = _PROBLEMS[task_type]
    if architecture in _WITHOUT_POOLER:
        pooler = [name for name in tensors if name.startswith("bert/pooler/")]
        tensors = {name: value for name, value in tensors.items() if name not in pooler}
        if pooler:
            console.info("left out: the pooler, which %s does not have", architecture)
    if labels:
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
    elif architecture == _CHOICE:
        # Theirs has a bias; the same is added to every choice, so that it has no effect.
        tensors = {"output_bias": np.zeros(1, "float32"), **tensors}
    elif "output_weights" in tensors and "id2label" not in values:
        count = len(tensors["output_weights"])
        values["id2label"] = {str(index): f"LABEL_{index}" for index in range(count)}
        values["label2id"] = {f"LABEL_{index}": index for index in range(count)}
    arrays = {
        names.to_hugging_face(name): np.ascontiguousarray(
            value.T if names.is_transposed(name) else value
        )
        for name, value in tensors.items()
    }
    if tf.io.gfile.exists(folder):
        raise UserError(f"{folder} exists already")
    with files.replacing_folder(folder) as temporary:
        files.make_folder(temporary)
        data = numpy.save(arrays, metadata={"format": "pt"})
        with tf.io.gfile.GFile(os.path.join(temporary, WEIGHTS), "wb") as writer:
            writer.write(data)
        _write_json(os.path.join(temporary, CONFIG), values)
        if vocab_file:
            text = files.read_text(vocab_file)
            files.write_text(os.path.join(temporary, files.VOCABULARY), text)
            settings = {
                "tokenizer_class": "BertTokenizer",
                "do_lower_case": do_lower_case,
                "model_max_length": config.max_position_embeddings,
            }
            _write_json(os.path.join(temporary, "tokenizer_config.json"), settings)
    return architecture


def architecture_of(tensors):
    """The class of `transformers` that the head of weights is of, if nothing else is known."""
    if "cls/predictions/output_bias" in tensors:
        both = "cls/seq_relationship/output_bias" in tensors
        return "BertForPreTraining" if both else "BertForMaskedLM"
    if "cls/squad/output_bias" in tensors:
        return "BertForQuestionAnswering"
    if "output_bias" in tensors:
        return "BertForSequenceClassification"
    if "output_weights" in tensors:
        return _CHOICE
    return "BertModel"


def settings_of(folder, name):
    """The values in a JSON file of a folder, none if it has no such file."""
    path = os.path.join(folder, name)
    try:
        values = json.loads(files.read_text(path)) if tf.io.gfile.exists(path) else {}
    except json.JSONDecodeError as error:
        raise UserError(f"{path}, line {error.lineno}: not JSON ({error.msg})") from None
    if not isinstance(values, dict):
        raise UserError(f"{path}: a JSON object was expected")
    return values


def _write_json(path, values):
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    files.write_text(path, text)


def _shards(path):
    """The names of the files with the weights."""
    if tf.io.gfile.exists(os.path.join(path, WEIGHTS)):
        return [WEIGHTS]
    index = os.path.join(path, INDEX)
    if not tf.io.gfile.exists(index):
        raise UserError(
            f"{path}: its weights are pickled ({PICKLE}), which is not safe to read; convert them "
            "where they come from: transformers' save_pretrained(FOLDER) writes model.safetensors"
        )
    try:
        shards = sorted(set(json.loads(files.read_text(index))["weight_map"].values()))
    except (json.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
        raise UserError(f'{index}: no "weight_map" can be read ({reason(error)})') from None
    for shard in shards:
        if shard != os.path.basename(shard):
            raise UserError(f"{index}: the shard {shard!r} is outside the folder")
        if not tf.io.gfile.exists(os.path.join(path, shard)):
            raise UserError(f"{path}: the shard {shard} that {INDEX} names is missing")
    return shards


def _open(path):
    safetensors = _safetensors()
    if "://" in path:
        raise UserError(f"{path}: Hugging Face folders are read from local paths; copy it first")
    try:
        return safetensors.safe_open(path, "numpy")
    except Exception as error:  # safetensors' errors have no common base
        raise UserError(f"{path}: not a readable safetensors file ({reason(error)})") from None


def _safetensors(part=None):
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise UserError(
            "Hugging Face folders need the package safetensors: pip install safetensors"
        ) from None
    return getattr(safetensors, part) if part else safetensors
