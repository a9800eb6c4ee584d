"""Download and cache the models that the 2018 release published.

The cache is `$BERT_TF_CACHE` (default `~/.cache/bert_tf`). `$BERT_TF_MODELS_URL` is the address
of a mirror with the same paths as the original.
"""

import dataclasses
import difflib
import os
import shutil
import zipfile
import zlib
from typing import NamedTuple

from bert_tf import console, files
from bert_tf.checkpoints.convert import RELEASE_CHECKPOINT
from bert_tf.checkpoints.metadata import (
    HUGGING_FACE_CONFIG,
    find_companion_file,
    find_vocabulary,
    read_settings,
)
from bert_tf.errors import UserError, reason
from bert_tf.tokenization.vocabulary import casing_from_path

BASE_URL = "https://storage.googleapis.com/bert_models"
_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
_NUM_RETRIES = 3
# No published model is larger; an archive that claims to be is not one of them.
_MAX_UNPACKED_BYTES = 8 << 30


class PublishedModel(NamedTuple):
    """The path of a model's archive below the base URL, and the casing of the model."""

    archive: str
    do_lower_case: bool


def _published(date, *names):
    for name in names:
        # The Chinese model was trained on lower-cased text, too.
        cased = name.startswith(("cased", "wwm_cased", "multi_cased"))
        yield name, PublishedModel(f"{date}/{name}.zip", not cased)


def _small_models():
    """Yield the names of the 24 small models (Turc et al., arXiv:1908.08962)."""
    for layers in (2, 4, 6, 8, 10, 12):
        for hidden in (128, 256, 512, 768):
            yield f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"


# The largest small model has the name of BERT-Base but different weights: add its date.
MODELS = dict(_published("2020_02_20", *_small_models()))
MODELS["2020_02_20/uncased_L-12_H-768_A-12"] = MODELS["uncased_L-12_H-768_A-12"]
MODELS.update(
    [
        *_published(
            "2018_10_18",
            "uncased_L-12_H-768_A-12",
            "uncased_L-24_H-1024_A-16",
            "cased_L-12_H-768_A-12",
            "cased_L-24_H-1024_A-16",
        ),
        *_published("2018_11_03", "multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12"),
        *_published("2018_11_23", "multi_cased_L-12_H-768_A-12"),
        *_published("2019_05_30", "wwm_uncased_L-24_H-1024_A-16", "wwm_cased_L-24_H-1024_A-16"),
    ]
)


class ModelFiles(NamedTuple):
    """The paths of a published model's files, and its casing."""

    config: str
    checkpoint: str
    vocab: str
    do_lower_case: bool


def fetch(name: str, cache: str | None = None, base_url: str | None = None) -> ModelFiles:
    """Return the files of a published model, after downloading it if it is not in the cache.

    An interrupted download resumes where it stopped.

    >>> config, checkpoint, vocab, do_lower_case = fetch("uncased_L-12_H-768_A-12")

    Args:
      name: one of `MODELS`.
      cache: folder of all downloaded models, None for the default.
      base_url: address of a mirror, None for the default.

    Raises:
      UserError: if the name is unknown, the download fails or the archive is damaged.
    """
    model = MODELS.get(name)
    if model is None:
        raise UserError(
            f"`model`: {name!r} is neither a folder nor one of {', '.join(sorted(MODELS))}"
        )
    cache = cache or os.environ.get("BERT_TF_CACHE") or os.path.expanduser("~/.cache/bert_tf")
    base_url = (base_url or os.environ.get("BERT_TF_MODELS_URL") or BASE_URL).rstrip("/")
    folder = os.path.join(cache, *name.split("/"))
    if not os.path.isdir(folder):
        archive = folder + ".zip"
        files.make_folder(os.path.dirname(archive))
        if not os.path.exists(archive):
            _download(f"{base_url}/{model.archive}", archive, folder)
        _unpack(archive, folder)
        os.remove(archive)
    paths = [os.path.join(folder, x) for x in (files.CONFIG, RELEASE_CHECKPOINT, files.VOCABULARY)]
    for path in (paths[0], paths[1] + ".index", paths[2]):
        if not os.path.exists(path):
            raise UserError(
                f"{folder}: {os.path.basename(path)} is missing; remove the folder to download the "
                "model again"
            )
    return ModelFiles(paths[0], paths[1], paths[2], model.do_lower_case)


def find_preset(preset: str, needs_config: bool = True) -> str:
    """Return the path of the weights of a published model, or the path of a folder itself.

    Args:
      preset: name of the model, or path of a folder or checkpoint.
      needs_config: whether the folder must have a config.

    Raises:
      UserError: if there is neither a model of that name nor a folder with weights and config.
    """
    preset = os.fspath(preset)
    if preset in MODELS:
        return fetch(preset).checkpoint
    if not is_local_model(preset):
        similar = difflib.get_close_matches(os.path.basename(preset), MODELS)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        raise UserError(
            f"`preset`: {preset} is neither a published model (one of "
            f"`bert_tf.checkpoints.MODELS`) nor a folder or checkpoint{hint}"
        )
    if needs_config and not find_companion_file(preset, (files.CONFIG, HUGGING_FACE_CONFIG)):
        raise UserError(
            f"`preset`: {preset} is not a model: there is no {files.CONFIG} or "
            f"{HUGGING_FACE_CONFIG} in the folder"
        )
    return preset


def _download(url, path, folder):
    """Download `url` to `path`, which appears when it is complete."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry

    if not url.lower().startswith(("http://", "https://")):
        raise UserError(f"{url}: the address of models must begin with http:// or https://")
    retry = Retry(
        _NUM_RETRIES, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504),
        raise_on_status=False,
    )  # fmt: skip
    part = path + ".part"
    try:
        with requests.Session() as session:
            session.mount("http://", HTTPAdapter(max_retries=retry))
            session.mount("https://", HTTPAdapter(max_retries=retry))
            while not _download_rest(session, url, part):
                console.info("%s: interrupted after %d bytes, resuming", url, os.path.getsize(part))
    except (requests.RequestException, HTTPError) as error:
        raise UserError(
            f"{url} cannot be reached ({reason(_root_cause(error))}); download it on a machine "
            f"with a network connection and save it as {path}, or unpack it into {folder}"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({reason(error)})") from None
    os.replace(part, path)


def _download_rest(session, url, part):
    """Append the rest of `url` to the file `part`.

    Returns:
      Whether the file is complete. If not, another call can resume the download.
    """
    from urllib3.exceptions import HTTPError

    start = os.path.getsize(part) if os.path.exists(part) else 0
    # Offsets count the bytes of the file: the server must not compress it.
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with session.get(url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS) as response:
        if response.status_code == 416 and start:  # `part` is longer than the file: a different one
            os.remove(part)
            return _download_rest(session, url, part)
        if not response.ok:
            raise UserError(f"{url}: the server answers {response.status_code} {response.reason}")
        if start and response.status_code != 206:  # the server cannot resume and sends everything
            start = 0
        total = start + int(response.headers.get("Content-Length") or 0)
        ticker = console.Ticker(
            f"downloading {url}", "MB", total=total >> 20 or None, initial=start >> 20
        )
        size = start
        try:
            with open(part, "ab" if start else "wb") as writer:
                # Unlike `iter_content`, this returns all bytes that came before an interruption.
                for block in response.raw.stream(_BLOCK_BYTES, decode_content=False):
                    writer.write(block)
                    size += len(block)
                    ticker.add((size >> 20) - ticker.count)
        except HTTPError:
            if size == start:
                raise
            return False
        ticker.done()
        return True


def _root_cause(error):
    """Return the innermost exception of the network libraries or the system."""
    from urllib3.exceptions import HTTPError

    while isinstance(cause := error.__cause__ or error.__context__, (OSError, HTTPError)):
        error = cause
    return error


def _unpack(archive, folder):
    """Unpack the model's files atomically; nothing is written outside `folder`."""
    expected = (files.CONFIG, files.VOCABULARY, RELEASE_CHECKPOINT)
    try:
        with zipfile.ZipFile(archive) as opened, files.replacing_folder(folder) as temporary:
            os.makedirs(temporary)
            for entry in opened.infolist():
                parts = entry.filename.replace("\\", "/").split("/")
                if ".." in parts or parts[0] == "" or ":" in parts[0]:
                    raise UserError(
                        f"{archive}: {entry.filename!r} would be written outside the folder"
                    )
            if sum(entry.file_size for entry in opened.infolist()) > _MAX_UNPACKED_BYTES:
                limit = _MAX_UNPACKED_BYTES >> 30
                raise UserError(f"{archive}: would unpack to more than {limit} GB")
            for entry in opened.infolist():
                # Only some archives have a top-level folder: ignore folders.
                name = os.path.basename(entry.filename)
                target = os.path.join(temporary, name)
                if name.startswith(expected):
                    with opened.open(entry) as reader, open(target, "wb") as writer:
                        shutil.copyfileobj(reader, writer, _BLOCK_BYTES)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        os.remove(archive)
        raise UserError(
            f"{archive}: not a complete zip archive ({reason(error)}); it was removed, start again "
            "to download it"
        ) from None


def resolve_model(config, *required):
    """Return an `options.ModelConfig` with the files of the model that it names.

    The model is a published one, or a folder of the release, of Hugging Face or of a training run.
    Without `model` the files next to `init_checkpoint` are used.

    Raises:
      UserError: if one of the options `required` has no value.
    """
    if is_local_model(config.model) if config.model else config.init_checkpoint:
        return _resolve_folder(config, required)
    if config.model:
        preset = fetch(config.model)
        values = {
            "bert_config_file": preset.config,
            "init_checkpoint": preset.checkpoint,
            "vocab_file": preset.vocab,
            "do_lower_case": preset.do_lower_case,
        }
        missing = {name: x for name, x in values.items() if getattr(config, name) is None}
        config = dataclasses.replace(config, **missing)
    for name in required:
        if not getattr(config, name):
            raise UserError(f"`{name}` or `model` must be given")
    return config


def _resolve_folder(config, required):
    """Fill in a `ModelConfig` from the folder that `model` or else `init_checkpoint` is in."""
    path = config.model or config.init_checkpoint
    values = {
        "bert_config_file": find_companion_file(path, (files.CONFIG, HUGGING_FACE_CONFIG)),
        "vocab_file": find_vocabulary(path),
        "init_checkpoint": path,
    }
    values = {x: y for x, y in values.items() if y and getattr(config, x) is None}
    used = [f"{x} ({os.path.basename(y)})" for x, y in values.items() if x != "init_checkpoint"]
    if used:
        settings = find_settings(path) if "vocab_file" in values else {}
        used += [f"{x}={y}" for x, y in settings.items()
                 if y is not None and getattr(config, x, None) is None]  # fmt: skip
        console.info("from %s: %s", path, ", ".join(used))
    config = dataclasses.replace(config, **values)
    for name in required:
        if not getattr(config, name):
            names = (files.CONFIG, HUGGING_FACE_CONFIG)
            if name == "vocab_file":
                names = (files.VOCABULARY, files.TOKENIZER)
            raise UserError(
                f"`{name}` must be given: there is no {' or '.join(names)} next to {path}"
            )
    return config


def is_local_model(path):
    """Return whether a path is a folder or a checkpoint, not the name of a published model."""
    system = files.system(path)
    return path not in MODELS and any(system.exists(path + x) for x in ("", ".index"))


def find_tokenizer(preset):
    """Return the vocabulary of a model and the settings of its tokenizer.

    Args:
      preset: as in `find_preset`, but there need not be weights.

    Returns:
      A pair (path, dict of arguments of `FullTokenizer`).

    Raises:
      UserError: if there is no such model, no vocabulary, or it is that of a tokenizer other than
        BERT's.
    """
    preset = os.fspath(preset)
    path = find_preset(preset, needs_config=False)
    if not (vocab_file := find_vocabulary(path)):
        raise UserError(
            f"`preset`: there is no {files.VOCABULARY} or {files.TOKENIZER} in {preset}"
        )
    return vocab_file, find_settings(preset)


def find_settings(preset, vocab_file=None):
    """Return the settings of a model's tokenizer: those of `read_settings`, with the casing.

    If no file has the casing, it is that of the published model whose name is in the path, if any.
    Arguments and errors are those of `read_settings`, but the path may be a name in `MODELS`.
    """
    if preset in MODELS:
        return {"do_lower_case": MODELS[preset].do_lower_case}
    settings = read_settings(preset, vocab_file)
    if "do_lower_case" not in settings and (published := casing_from_path(preset)):
        settings["do_lower_case"] = published[1]
    return settings
