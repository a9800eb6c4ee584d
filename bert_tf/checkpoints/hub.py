"""Download and cache the models that the 2018 release published.

The cache is `$BERT_TF_CACHE` (default `~/.cache/bert_tf`). `$BERT_TF_MODELS_URL` is the address
of a mirror with the same paths as the original.
"""

import contextlib
import dataclasses
import difflib
import functools
import hashlib
import json
import os
import zipfile
import zlib
from typing import NamedTuple

from bert_tf import console
from bert_tf.checkpoints.convert import RELEASE_CHECKPOINT
from bert_tf.checkpoints.download import download
from bert_tf.checkpoints.metadata import (
    HUGGING_FACE_CONFIG,
    find_companion_file,
    find_vocabulary,
    read_settings,
)
from bert_tf.errors import UserError, reason
from bert_tf.io import files, json_files, locks
from bert_tf.tokenization.vocabulary import casing_from_path

BASE_URL = "https://storage.googleapis.com/bert_models"
_BLOCK_BYTES = 1 << 20
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

    An interrupted download resumes where it stopped. If several processes need the same model, one
    downloads it and the others wait. The SHA-256 of the files must be the known one of the model;
    for models without one, that of the first download, which is saved next to the folder.

    >>> config, checkpoint, vocab, do_lower_case = fetch("uncased_L-12_H-768_A-12")

    Args:
      name: one of `MODELS`.
      cache: folder of all downloaded models, None for the default.
      base_url: address of a mirror, None for the default.

    Raises:
      UserError: if the name is unknown, the download fails, or the archive is damaged or has other
        files.
    """
    model = MODELS.get(name)
    if model is None:
        raise UserError(
            f"`model`: {name!r} is neither a folder nor one of {', '.join(sorted(MODELS))}"
        )
    cache = cache or os.environ.get("BERT_TF_CACHE") or os.path.expanduser("~/.cache/bert_tf")
    base_url = (base_url or os.environ.get("BERT_TF_MODELS_URL") or BASE_URL).rstrip("/")
    folder = os.path.join(cache, *name.split("/"))
    # A process that was killed after unpacking has left the archive.
    if not os.path.isdir(folder) or os.path.exists(folder + ".zip"):
        files.make_folder(os.path.dirname(folder))
        with _locked(folder) as is_locked:
            if is_locked:
                files.remove_partial(folder)
                files.remove_partial(f"{folder}.sha256.json")
            if not os.path.isdir(folder):  # another process may have downloaded it meanwhile
                _fetch(name, f"{base_url}/{model.archive}", folder, is_locked)
            elif is_locked:
                _remove(folder + ".zip")
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


@contextlib.contextmanager
def _locked(folder):
    """Lock the download of a model, and wait for the process that has the lock.

    Yields whether the folder is locked; some file systems have no locks.
    """
    import filelock

    lock = filelock.FileLock(
        os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.lock")
    )
    try:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            console.info("%s: another process downloads the model, waiting for it", folder)
            lock.acquire()
    except OSError as error:
        if error.errno not in locks.NO_LOCKS:
            raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _fetch(name, url, folder, is_locked):
    """Download and unpack a model."""
    archive = folder + ".zip"
    if not os.path.exists(archive):
        if not is_locked:
            archive = files.temporary_name(archive)
        download(url, archive, folder)
    try:
        _unpack(name, archive, folder)
    except _RefusedArchive:
        _remove(archive)
        raise
    _remove(archive)


def _remove(archive):
    with contextlib.suppress(FileNotFoundError):  # without locks another process may remove it
        os.remove(archive)


class _RefusedArchive(UserError):
    """An archive that must not be used."""


def _unpack(name, archive, folder):
    """Unpack the model's files atomically; nothing is written outside `folder`."""
    expected = (files.CONFIG, files.VOCABULARY, RELEASE_CHECKPOINT)
    digests = {}
    try:
        with zipfile.ZipFile(archive) as opened, files.replacing_folder(folder) as temporary:
            os.makedirs(temporary)
            for entry in opened.infolist():
                parts = entry.filename.replace("\\", "/").split("/")
                if ".." in parts or parts[0] == "" or ":" in parts[0]:
                    raise _RefusedArchive(
                        f"{archive}: {entry.filename!r} would be written outside the folder; it "
                        "was removed"
                    )
            if sum(entry.file_size for entry in opened.infolist()) > _MAX_UNPACKED_BYTES:
                limit = _MAX_UNPACKED_BYTES >> 30
                raise _RefusedArchive(
                    f"{archive}: would unpack to more than {limit} GB; it was removed"
                )
            for entry in opened.infolist():
                # Only some archives have a top-level folder: ignore folders.
                base = os.path.basename(entry.filename)
                target = os.path.join(temporary, base)
                if base.startswith(expected):
                    with opened.open(entry) as reader, open(target, "wb") as writer:
                        digests[base] = _copy(reader, writer)
            _check_digests(name, archive, folder, digests)
    except _RefusedArchive:
        raise
    except (OSError, UserError) as error:
        if os.path.isdir(folder):  # another process was faster, without locks
            return
        if isinstance(error, UserError):
            raise
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise _RefusedArchive(
            f"{archive}: not a complete zip archive ({reason(error)}); it was removed, start again "
            "to download it"
        ) from None


def _copy(reader, writer):
    """Copy a file and return its SHA-256 in hexadecimal digits."""
    sha = hashlib.sha256()
    while block := reader.read(_BLOCK_BYTES):
        sha.update(block)
        writer.write(block)
    return sha.hexdigest()


def _check_digests(name, archive, folder, digests):
    """Compare the SHA-256 of a model's files, a dict by name; save those of a first download."""
    expected, source = _known_digests().get(name), "the published model"
    if expected is None:
        path = f"{folder}.sha256.json"
        if not os.path.exists(path):
            files.write_text(path, json.dumps(digests, indent=2) + "\n")
            return
        expected = json_files.read(path, dict[str, str])
        source = f"the first download, which are in {path}"
    for base, digest in expected.items():
        if digests.get(base) != digest:
            found = f"has SHA-256 {digests[base]}" if base in digests else "is missing"
            raise _RefusedArchive(
                f"{archive}: {base} {found}, expected {digest} as in {source}; the archive was "
                "removed"
            )


@functools.cache
def _known_digests():
    """Return the SHA-256 of the files of published models, a dict by name of dicts by file."""
    digests: dict[str, dict[str, str]] = {}
    path = os.path.join(os.path.dirname(__file__), "published_sha256.txt")
    for line in files.read_lines(path):
        if not line.startswith("#"):
            digest, _, file = line.strip().partition("  ")
            name, _, base = file.rpartition("/")
            digests.setdefault(name, {})[base] = digest
    return digests


def resolve_model(config, *required):
    """Return a `configs.ModelConfig` with the files of the model that it names.

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
