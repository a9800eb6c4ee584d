"""Models of the Hugging Face hub, named `hf://OWNER/NAME` or `hf://OWNER/NAME@REVISION`.

They are downloaded by huggingface_hub, which has its own cache (`HF_HOME`), token (`HF_TOKEN`),
mirror (`HF_ENDPOINT`) and offline mode (`HF_HUB_OFFLINE`).
"""

import os
import re

from bert_tf import console
from bert_tf.checkpoints.hugging_face import INDEX, PICKLE, WEIGHTS
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError, reason
from bert_tf.io import files

# The weights or their shards, the tokenizer, and the settings of sentence-transformers.
_WEIGHT_FILES = (WEIGHTS, INDEX, "model-*-of-*.safetensors")
_OTHER_FILES = (
    HUGGING_FACE_CONFIG, files.VOCABULARY, files.TOKENIZER, files.TOKENIZER_CONFIG,
    "special_tokens_map.json", "added_tokens.json", "modules.json", "sentence_bert_config.json",
    "*_Pooling/config.json",
)  # fmt: skip


def local_folder(path: str) -> str:
    """Return the local folder of a model `hf://...`, downloaded if necessary; other paths as given.

    Only the files that bert_tf reads are downloaded, and no weights of unsupported architectures.

    Raises:
      UserError: if there is no such model or no access to it, or if it cannot be read.
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
    # The same commit, even if the branch moves meanwhile.
    folder = _download(path, name, os.path.basename(folder), [*_OTHER_FILES, *_WEIGHT_FILES])
    if not any(os.path.exists(os.path.join(folder, x)) for x in (WEIGHTS, INDEX)):
        raise UserError(
            f"{path}: the model has no {WEIGHTS}; pickled weights ({PICKLE}) are not safe to read, "
            "convert them with transformers, whose `save_pretrained(FOLDER)` writes that file"
        )
    console.info("%s: revision %s in %s", path, os.path.basename(folder), folder)
    return folder


def revision_of(folder: str) -> str | None:
    """Return the commit of a folder in the cache of huggingface_hub, None for other folders."""
    found = re.search(r"/snapshots/([0-9a-f]{40})/?$", folder)
    return found and found[1]


def _download(path, name, revision, patterns):
    """Return the folder of the files of a model that match `patterns`."""
    try:
        from huggingface_hub import constants, errors, snapshot_download
    except ImportError:
        message = f"{path} requires huggingface_hub: pip install 'bert_tf[hub]'"
        raise UserError(message) from None
    try:
        return snapshot_download(name, revision=revision, allow_patterns=patterns)
    except errors.GatedRepoError:
        problem = (
            "access to the model is restricted; accept its conditions on its page, and log in with "
            "`hf auth login` or set HF_TOKEN"
        )
    except errors.RepositoryNotFoundError:
        problem = "there is no such model; if it is private, set HF_TOKEN"
    except errors.RevisionNotFoundError:
        problem = f"the model has no revision {revision}"
    except errors.LocalEntryNotFoundError as error:
        cause = reason(error.__cause__ or error)
        cause = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else cause
        problem = f"the model is not in the cache, and the hub cannot be reached ({cause})"
    except errors.HFValidationError:
        problem = "expected hf://OWNER/NAME or hf://OWNER/NAME@REVISION"
    except Exception as error:  # those of its HTTP client and of the file system
        problem = f"cannot be downloaded ({reason(error)})"
    raise UserError(f"{path}: {problem}")
