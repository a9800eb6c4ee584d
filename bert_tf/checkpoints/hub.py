"""Download and cache published models, and models of the Hugging Face hub.

`BERT_TF_CACHE` sets the cache folder of the models published with the 2018 release (default
`~/.cache/bert_tf`), `BERT_TF_MODELS_URL` the address of a mirror with the same paths.

The others are named `OWNER/NAME` or `OWNER/NAME@REVISION`; with `hf://` before it, a local folder
of that name is ignored. huggingface_hub reads the environment variables `HF_HOME` (the cache),
`HF_TOKEN`, `HF_ENDPOINT` (a mirror) and `HF_HUB_OFFLINE`.
"""

import contextlib
import difflib
import itertools
import os
import re
import sys
import zipfile

from bert_tf import console
from bert_tf.checkpoints.hugging_face import INDEX, PICKLE, WEIGHTS
from bert_tf.checkpoints.metadata import HUGGING_FACE_CONFIG
from bert_tf.checkpoints.release import RELEASE_CHECKPOINT
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError, reason
from bert_tf.io import files, processes

BASE_URL = "https://storage.googleapis.com/bert_models"
_REQUIRED = (files.CONFIG, f"{RELEASE_CHECKPOINT}.index", files.VOCABULARY)
# The starts of the names of a model's files.
_FILES = (files.CONFIG, RELEASE_CHECKPOINT, files.VOCABULARY)


# The 24 compact models of Turc et al. (arXiv:1908.08962). The largest has the same name as
# BERT-Base, so its date is added.
_SIZES = itertools.product((2, 4, 6, 8, 10, 12), (128, 256, 512, 768))
_LARGEST = "2020_02_20/uncased_L-12_H-768_A-12"
_PUBLISHED = {
    "2020_02_20": [f"uncased_L-{x}_H-{y}_A-{y // 64}" for x, y in _SIZES],
    "2018_10_18": [
        "uncased_L-12_H-768_A-12",
        "uncased_L-24_H-1024_A-16",
        "cased_L-12_H-768_A-12",
        "cased_L-24_H-1024_A-16",
    ],
    "2018_11_03": ["multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12"],
    "2018_11_23": ["multi_cased_L-12_H-768_A-12"],
    "2019_05_30": ["wwm_uncased_L-24_H-1024_A-16", "wwm_cased_L-24_H-1024_A-16"],
}
# Name of a model -> path of its archive.
MODELS = {name: f"{date}/{name}.zip" for date, names in _PUBLISHED.items() for name in names}
MODELS[_LARGEST] = f"{_LARGEST}.zip"

# Presets of keras-hub with the weights of these models.
_KERAS_HUB = {
    "bert_tiny_en_uncased": "uncased_L-2_H-128_A-2",
    "bert_small_en_uncased": "uncased_L-4_H-512_A-8",
    "bert_medium_en_uncased": "uncased_L-8_H-512_A-8",
    "bert_base_en_uncased": "uncased_L-12_H-768_A-12",
    "bert_base_en": "cased_L-12_H-768_A-12",
    "bert_large_en_uncased": "uncased_L-24_H-1024_A-16",
    "bert_large_en": "cased_L-24_H-1024_A-16",
    "bert_base_zh": "chinese_L-12_H-768_A-12",
    "bert_base_multi": "multi_cased_L-12_H-768_A-12",
}


def fetch(name: str, argument: str = "name") -> str:
    """Return the checkpoint path of a published model, downloading the model if it is not cached.

    The configuration and the vocabulary are in the same folder. If several processes request a
    model, one downloads it and the others wait. The files must have the published SHA-256, if it is
    known.

    >>> checkpoint = fetch("uncased_L-12_H-768_A-12")

    Args:
      name: one of `MODELS`.
      argument: name of the argument with the name, for messages.

    Raises:
      UserError: if the name is unknown, or the model cannot be downloaded or differs from the
        published one.
    """
    if name not in MODELS:
        base = os.path.basename(name)
        close = difflib.get_close_matches(base, MODELS) or ["uncased_L-12_H-768_A-12"]
        raise UserError(
            f"`{argument}`: {name} is neither a folder nor one of `bert_tf.checkpoints.MODELS`, "
            f"such as {' or '.join(close)}; models of the Hugging Face hub are named OWNER/NAME, "
            f"such as sentence-transformers/{base}"
        )
    cache = os.environ.get("BERT_TF_CACHE") or os.path.expanduser("~/.cache/bert_tf")
    base_url = (os.environ.get("BERT_TF_MODELS_URL") or BASE_URL).rstrip("/")
    folder = os.path.join(cache, *name.split("/"))
    if not os.path.isdir(folder):
        with processes.locked(cache, "model", "downloads", waits=True) as is_locked:
            if is_locked:
                files.remove_partial(folder)
            if not os.path.isdir(folder):  # another process may have downloaded it
                _download(name, f"{base_url}/{MODELS[name]}", folder, argument)
    return os.path.join(folder, RELEASE_CHECKPOINT)


def _download(name, url, folder, argument):
    from keras.utils import get_file

    with files.replacing(folder) as (temporary,):
        os.makedirs(temporary)
        try:
            # Keras shows the progress on standard output, which may be redirected to a file.
            with contextlib.redirect_stdout(sys.stderr):
                archive = get_file("model.zip", url, cache_dir=temporary, cache_subdir="")
            with zipfile.ZipFile(archive) as opened:
                for entry in opened.infolist():
                    # Only some archives have a top-level folder. No path leads outside.
                    entry.filename = os.path.basename(entry.filename)
                    if entry.filename.startswith(_FILES):
                        opened.extract(entry, temporary)
        except Exception as error:  # Keras raises `Exception`; a damaged archive, many classes
            raise UserError(
                f"`{argument}`: {name} cannot be downloaded ({reason(error)}); without a network, "
                f"unpack the files of {url} into {folder}"
            ) from None
        os.remove(archive)
        for base, digest in {**dict.fromkeys(_REQUIRED), **_known_digests(name)}.items():
            path = os.path.join(temporary, base)
            if not os.path.exists(path):
                raise UserError(f"{url}: {base} is missing in the archive")
            if digest and (actual := files.digest(path)) != digest:
                raise UserError(f"{url}: {base} has SHA-256 {actual}, expected {digest}")


def _known_digests(name):
    """Return the published SHA-256 of a model's files, by file name."""
    path = os.path.join(os.path.dirname(__file__), "published_sha256.txt")
    lines = (line.split() for line in files.read_lines(path) if not line.startswith("#"))
    return {os.path.basename(x): digest for digest, x in lines if os.path.dirname(x) == name}


# The weights or their shards, the tokenizer, and the settings of sentence-transformers.
_WEIGHT_FILES = (WEIGHTS, INDEX, "model-*-of-*.safetensors")
_TOKENS = ("special_tokens_map.json", "added_tokens.json")
_TOKENIZER_FILES = (files.VOCABULARY, files.TOKENIZER, files.TOKENIZER_CONFIG, *_TOKENS)
_SETTINGS = ("sentence_bert_config.json", "config_sentence_transformers.json")
_SENTENCE_FILES = ("modules.json", *_SETTINGS, "*_Pooling/config.json")


def _with_owner(name):
    """Return OWNER/NAME for the hub's oldest models, which it also finds without their owner."""
    family = re.fullmatch(r"(distilbert|bert)-(base|large)-[\w-]+(@.+)?", name)
    owner = "google-bert" if family and family[1] == "bert" else "distilbert"
    return f"{owner}/{name}" if family else name


def local_folder(path: str) -> str:
    """Return the local folder of a model of the hub, downloading it if it is not cached.

    A name of keras-hub becomes the release's. Other paths are returned unchanged, also `OWNER/NAME`
    if it exists as a folder or a checkpoint. Only files that bert_tf reads are downloaded, and
    weights only if the architecture is supported.

    Raises:
      UserError: if the model does not exist, or cannot be accessed or read.
    """
    if path.startswith(files.HUB):
        return _hub_folder(path)
    # A name without a file in an existing folder is a mistyped path.
    folder = os.path.dirname(path)
    is_local = any(map(files.exists, (path, f"{path}.index"))) or os.path.isdir(folder)
    if path in _KERAS_HUB and not is_local:
        return _KERAS_HUB[path]
    name = _with_owner(path)
    is_of_release = os.path.basename(path) in (*MODELS, RELEASE_CHECKPOINT)
    if is_local or is_of_release or not re.fullmatch(r"\w[\w.-]*/\w[\w.-]*(@.+)?", name):
        return path
    try:
        return _hub_folder(files.HUB + name)
    except UserError as error:
        raise UserError(f"{path} is neither a folder nor a checkpoint; {error}") from None


def _hub_folder(path):
    name, _, revision = path.removeprefix(files.HUB).partition("@")
    name = _with_owner(name)
    folder = _download_snapshot(path, name, revision or None, [HUGGING_FACE_CONFIG])
    config = os.path.join(folder, HUGGING_FACE_CONFIG)
    if not os.path.exists(config):
        raise UserError(f"{path}: the model has no {HUGGING_FACE_CONFIG}")
    try:
        BertConfig.from_json_file(config)
    except UserError as error:
        raise UserError(f"{path}: {str(error).removeprefix(f'{config}: ')}") from None
    # Pin the commit, in case the branch moves in between.
    revision = os.path.basename(folder)
    patterns = [HUGGING_FACE_CONFIG, *_TOKENIZER_FILES, *_SENTENCE_FILES, *_WEIGHT_FILES]
    folder = _download_snapshot(path, name, revision, patterns)
    if not any(os.path.exists(os.path.join(folder, x)) for x in (WEIGHTS, INDEX)):
        raise UserError(
            f"{path}: the model has no {WEIGHTS}; pickled weights ({PICKLE}) are not safe to read, "
            "convert them with `save_pretrained(FOLDER)` of transformers"
        )
    console.info("%s: revision %s in %s", path, revision, folder)
    return folder


def _download_snapshot(path, name, revision, patterns):
    try:
        from huggingface_hub import snapshot_download, try_to_load_from_cache
    except ImportError:
        message = f"{path} requires huggingface_hub: pip install '.[hub]' in a clone"
        raise UserError(message) from None
    try:
        # The cache may have the model under its name without the owner.
        short = os.path.basename(name)
        if name == _with_owner(short):
            cached = try_to_load_from_cache(short, HUGGING_FACE_CONFIG, revision=revision)
            name = short if isinstance(cached, str) else name
        return snapshot_download(name, revision=revision, allow_patterns=patterns)
    except Exception as error:  # from the client, its HTTP library or the file system
        message = re.sub(r"\[Errno -?\d+\] ", "", " ".join(str(error).split()))
        raise UserError(f"{path}: cannot be downloaded ({message})") from None
