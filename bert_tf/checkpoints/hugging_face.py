"""Read and write Hugging Face folders.

Pickled weights (`pytorch_model.bin`) are not read, because unpickling a file can run code in it.
"""

import functools
import os

import numpy as np

from bert_tf import console
from bert_tf.checkpoints import names
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG, read_json
from bert_tf.configs.model import find_architecture
from bert_tf.configs.task_names import PROBLEM_TYPES
from bert_tf.errors import UserError, reason
from bert_tf.io import files, json_files
from bert_tf.tokenization.settings import resolve_settings, tokenizer_config, tokenizer_json
from bert_tf.tokenization.vocabulary import load_vocab, vocabulary_text

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
PICKLE = "pytorch_model.bin"

# Copies of other weights, and tensors that are not weights.
_TIED = {
    "cls.predictions.decoder.weight": "bert/embeddings/word_embeddings",
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}
_BUFFERS = ("embeddings.position_ids", "bert.embeddings.position_ids")

# Classes of `transformers` without a pooler, which would report its weights as unexpected.
_WITHOUT_POOLER = ("BertForMaskedLM", "BertForQuestionAnswering", "BertForTokenClassification")
_MULTIPLE_CHOICE = "BertForMultipleChoice"
# Classes of `transformers` that `write_hugging_face` supports.
_OTHERS = ("BertForPreTraining", "BertForNextSentencePrediction", "BertForSequenceClassification")
ARCHITECTURES = ("BertModel", "BertLMHeadModel", *_OTHERS, *_WITHOUT_POOLER, _MULTIPLE_CHOICE)


def is_folder(path):
    return any(files.exists(os.path.join(path, name)) for name in (WEIGHTS, INDEX))


class HuggingFaceFolder:
    """Reads weights with the release's names and shapes; unknown weights keep their names."""

    def __init__(self, path):
        self.path = path
        # Name -> (reader of the file, name in the file).
        self._tensors = {}
        self.shapes = {}
        architecture = find_architecture(read_json(path, HUGGING_FACE_CONFIG))
        for shard in shards(path):
            reader = _open(os.path.join(path, shard))
            for source_name in reader.keys():  # noqa: SIM118, not a dict
                if (bert_name := architecture.bert_weight_name(source_name)) in _BUFFERS:
                    continue
                name = names.from_hugging_face(bert_name)
                name = name or (bert_name if bert_name in _TIED else source_name)
                shape = tuple(reader.get_slice(source_name).get_shape())
                self.shapes[name] = shape[::-1] if names.is_transposed(name) else shape
                self._tensors[name] = reader, source_name
        for copy, name in _TIED.items():
            if copy in self.shapes and name in self.shapes:
                if not np.array_equal(self.tensor(copy), self.tensor(name)):
                    raise UserError(
                        f"{path}: {copy} differs from {self._tensors[name][1]}; in BERT, the "
                        "masked-LM head shares its weights with the embeddings"
                    )
                del self.shapes[copy]

    def tensor(self, name):
        """Return a tensor as a float32 array; raise UserError if the file is damaged."""
        reader, source_name = self._tensors[name]
        try:
            value = reader.get_tensor(source_name)
        except Exception as error:  # the errors of safetensors have no common base class
            message = f"{self.path}: tensor {source_name} cannot be read ({reason(error)})"
            raise UserError(message) from None
        value = value.T if names.is_transposed(name) else value
        return np.ascontiguousarray(value, "float32")


def write_hugging_face(
    folder,
    tensors,
    config,
    vocab_file=None,
    labels=None,
    architecture=None,
    task_type=None,
    **settings,
):
    """Write a folder that `transformers` loads, atomically.

    Args:
      folder: path of the folder; it must not exist.
      tensors: dict from the release's names to arrays; all names must be in the name table.
      config: the `BertConfig`.
      vocab_file: the vocabulary or None, written as `tokenizer.json` and `vocab.txt`.
      labels: labels of a classifier in the order of their ids, or None.
      architecture: `transformers` class to write for, None to infer it from the head. Required
        for token classifiers, whose heads look like text classifiers' heads.
      task_type: the `task_type` of a `ClassificationConfig`, or None.
      **settings: `do_lower_case` and other arguments of `FullTokenizer`, for the tokenizer's files.

    Returns:
      The name of the `transformers` class.

    Raises:
      UserError: if `architecture` is not supported, or `folder` exists.
    """
    from safetensors.numpy import save

    values = config.to_hugging_face()
    architecture = architecture or detect_architecture(tensors)
    if architecture not in ARCHITECTURES:
        expected = ", ".join(ARCHITECTURES)
        raise UserError(f"`architecture={architecture}`: expected one of {expected}")
    values["architectures"] = [architecture]
    if task_type:
        values["problem_type"] = PROBLEM_TYPES[task_type]
    if architecture in _WITHOUT_POOLER:
        pooler = [name for name in tensors if name.startswith("bert/pooler/")]
        tensors = {name: value for name, value in tensors.items() if name not in pooler}
        if pooler:
            console.info("skipped the pooler, which %s does not have", architecture)
    if architecture == _MULTIPLE_CHOICE:
        # That class has a bias, which has no effect because it is the same for every choice.
        tensors = {"output_bias": np.zeros(1, "float32"), **tensors}
    elif not labels and "output_weights" in tensors and "id2label" not in values:
        labels = [f"LABEL_{index}" for index in range(len(tensors["output_weights"]))]
    if labels:
        values["id2label"] = {str(index): label for index, label in enumerate(labels)}
        values["label2id"] = {label: index for index, label in enumerate(labels)}
    arrays = {}
    for name, value in tensors.items():
        value = value.T if names.is_transposed(name) else value
        arrays[names.to_hugging_face(name)] = np.ascontiguousarray(value)
    if files.exists(folder):
        raise UserError(f"{folder} already exists")
    with files.replacing(folder) as (temporary,):
        files.make_folder(temporary)
        path_of = functools.partial(os.path.join, temporary)
        with files.open_file(path_of(WEIGHTS), "wb") as writer:
            writer.write(save(arrays, metadata={"format": "pt"}))
        json_files.write(path_of(HUGGING_FACE_CONFIG), values, sort_keys=True)
        if vocab_file:
            files.write_text(path_of(files.VOCABULARY), vocabulary_text(vocab_file))
            settings = resolve_settings(vocab_file, **settings)
            values = tokenizer_config(settings, config.max_position_embeddings)
            json_files.write(path_of(files.TOKENIZER_CONFIG), values, sort_keys=True)
            values = tokenizer_json(load_vocab(vocab_file), settings)
            json_files.write(path_of(files.TOKENIZER), values)
    return architecture


def detect_architecture(tensors):
    """Infer the class of `transformers` from the head among the weights."""
    if "cls/predictions/output_bias" in tensors:
        has_next_sentence = "cls/seq_relationship/output_bias" in tensors
        return "BertForPreTraining" if has_next_sentence else "BertForMaskedLM"
    if "cls/squad/output_bias" in tensors:
        return "BertForQuestionAnswering"
    if "output_bias" in tensors:
        return "BertForSequenceClassification"
    return _MULTIPLE_CHOICE if "output_weights" in tensors else "BertModel"


def shards(path):
    """Return the names of the weight files in a folder; raise UserError if one is missing."""
    if files.exists(os.path.join(path, WEIGHTS)):
        return [WEIGHTS]
    index = os.path.join(path, INDEX)
    values = json_files.read(index, {"weight_map": dict}, "transformers")
    shards = sorted({str(shard) for shard in values["weight_map"].values()})
    for shard in shards:
        if shard != os.path.basename(shard):
            raise UserError(f"{index}: the shard {shard!r} is outside the folder")
        if not files.exists(os.path.join(path, shard)):
            raise UserError(f"{path}: the shard {shard} listed in {INDEX} is missing")
    return shards


def _open(path):
    import safetensors

    if "://" in path:
        raise UserError(f"{path}: Hugging Face folders must be local; copy the folder first")
    try:
        return safetensors.safe_open(path, "numpy")
    except Exception as error:  # the errors of safetensors have no common base class
        cause = reason(error)
        is_pointer = "header too large" in cause
        advice = "; `git lfs pull` replaces Git's pointers" if is_pointer else ""
        raise UserError(f"{path}: not a readable safetensors file ({cause}){advice}") from None
