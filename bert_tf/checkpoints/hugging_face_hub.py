"""Download models of the Hugging Face hub: `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`.

huggingface_hub reads the environment variables `HF_HOME` (the cache), `HF_TOKEN`, `HF_ENDPOINT` (a
mirror) and `HF_HUB_OFFLINE`.
"""

import os

from bert_tf import console
from bert_tf.checkpoints.hugging_face import INDEX, PICKLE, WEIGHTS
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.io import files

# The weights or their shards, the tokenizer, and the settings of sentence-transformers.
_WEIGHT_FILES = (WEIGHTS, INDEX, "model-*-of-*.safetensors")
_OTHER_FILES = (
    HUGGING_FACE_CONFIG, files.VOCABULARY, files.TOKENIZER, files.TOKENIZER_CONFIG,
    "special_tokens_map.json", "added_tokens.json", "modules.json", "sentence_bert_config.json",
    "*_Pooling/config.json",
)  # fmt: skip


def local_folder(path: str) -> str:
    """Return the local folder of a model `hf://...`, downloading it if it is not cached.

    Other paths are returned unchanged. Only files that bert_tf reads are downloaded, and weights
    only if the architecture is supported.

    Raises:
      UserError: if the model does not exist, or cannot be accessed or read.
    """
    if not path.startswith(files.HUB):
        return path
    name, _, revision = path.removeprefix(files.HUB).partition("@")
    folder = _download(path, name, revision or None, [HUGGING_FACE_CONFIG])
    config = os.path.join(folder, HUGGING_FACE_CONFIG)
    if not os.path.exists(config):
        raise UserError(f"{path}: the model has no {HUGGING_FACE_CONFIG}")
    try:
        BertConfig.from_json_file(config)
    except UserError as error:
        raise UserError(f"{path}: {str(error).removeprefix(f'{config}: ')}") from None
    # Pin the commit, in case the branch moves in between.
    folder = _download(path, name, os.path.basename(folder), [*_OTHER_FILES, *_WEIGHT_FILES])
    if not any(os.path.exists(os.path.join(folder, x)) for x in (WEIGHTS, INDEX)):
        raise UserError(
            f"{path}: the model has no {WEIGHTS}; pickled weights ({PICKLE}) are not safe to read, "
            "convert them with `save_pretrained(FOLDER)` of transformers"
        )
    console.info("%s: revision %s in %s", path, os.path.basename(folder), folder)
    return folder


def _download(path, name, revision, patterns):
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        message = f"{path} requires huggingface_hub: pip install 'bert_tf[hub]'"
        raise UserError(message) from None
    try:
        return snapshot_download(name, revision=revision, allow_patterns=patterns)
    except Exception as error:  # from the client, its HTTP library or the file system
        message = " ".join(str(error).split())
        raise UserError(f"{path}: cannot be downloaded ({message})") from None
