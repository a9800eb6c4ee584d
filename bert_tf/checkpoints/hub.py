"""Download and cache the models published with the 2018 release.

`BERT_TF_CACHE` sets the cache folder (default `~/.cache/bert_tf`), `BERT_TF_MODELS_URL` the
address of a mirror with the same paths.
"""

import contextlib
import functools
import hashlib
import json
import os
import zipfile
import zlib

from bert_tf import console
from bert_tf.checkpoints.convert import RELEASE_CHECKPOINT
from bert_tf.checkpoints.download import download
from bert_tf.errors import UserError, reason
from bert_tf.io import files, json_files, locks

BASE_URL = "https://storage.googleapis.com/bert_models"
_BLOCK_BYTES = 1 << 20
_REQUIRED = (files.CONFIG, f"{RELEASE_CHECKPOINT}.index", files.VOCABULARY)
# Larger than any published model.
_MAX_UNPACKED_BYTES = 8 << 30


def _published(date, *names):
    """Return a dict from model name to the path of its archive."""
    return {name: f"{date}/{name}.zip" for name in names}


def _small_models():
    """Yield the names of the 24 compact models of Turc et al. (arXiv:1908.08962)."""
    for layers in (2, 4, 6, 8, 10, 12):
        for hidden in (128, 256, 512, 768):
            yield f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"


# The largest of them has the same name as BERT-Base, so its date is added.
_SMALL = _published("2020_02_20", *_small_models())
MODELS = {
    **_SMALL,
    "2020_02_20/uncased_L-12_H-768_A-12": _SMALL["uncased_L-12_H-768_A-12"],
    **_published(
        "2018_10_18",
        "uncased_L-12_H-768_A-12",
        "uncased_L-24_H-1024_A-16",
        "cased_L-12_H-768_A-12",
        "cased_L-24_H-1024_A-16",
    ),
    **_published("2018_11_03", "multilingual_L-12_H-768_A-12", "chinese_L-12_H-768_A-12"),
    **_published("2018_11_23", "multi_cased_L-12_H-768_A-12"),
    **_published("2019_05_30", "wwm_uncased_L-24_H-1024_A-16", "wwm_cased_L-24_H-1024_A-16"),
}

# The presets of keras-hub with the same weights, for messages.
KERAS_HUB = {
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


def fetch(name: str, cache: str | None = None, base_url: str | None = None) -> str:
    """Return the checkpoint path of a published model, downloading the model if it is not cached.

    The configuration and the vocabulary are in the same folder. Interrupted downloads resume. If
    several processes request a model, one downloads it and the others wait. The SHA-256 of each
    file must equal the known value or, without one, the value of the first download.

    >>> checkpoint = fetch("uncased_L-12_H-768_A-12")

    Args:
      name: one of `MODELS`.
      cache: folder for downloaded models, None for the default.
      base_url: address of a mirror, None for the default.

    Raises:
      UserError: if the name is unknown, the download fails, or the archive is damaged or differs
        from the expected one.
    """
    if name not in MODELS:
        raise UserError(
            f"`model`: {name!r} is neither a folder nor one of {', '.join(sorted(MODELS))}; models "
            "of the Hugging Face hub are named hf://OWNER/NAME"
        )
    cache = cache or os.environ.get("BERT_TF_CACHE") or os.path.expanduser("~/.cache/bert_tf")
    base_url = (base_url or os.environ.get("BERT_TF_MODELS_URL") or BASE_URL).rstrip("/")
    folder = os.path.join(cache, *name.split("/"))
    # If the archive still exists, a process was killed after unpacking it.
    if not os.path.isdir(folder) or os.path.exists(folder + ".zip"):
        files.make_folder(os.path.dirname(folder))
        with _locked(folder) as is_locked:
            if is_locked:
                files.remove_partial(folder)
                files.remove_partial(f"{folder}.sha256.json")
            if not os.path.isdir(folder):  # another process may have finished the download
                _fetch(name, f"{base_url}/{MODELS[name]}", folder, is_locked)
            elif is_locked:
                _remove(folder + ".zip")
    for name in _REQUIRED:
        if not os.path.exists(os.path.join(folder, name)):
            raise UserError(
                f"{folder}: {name} is missing; remove the folder to download the model again"
            )
    return os.path.join(folder, RELEASE_CHECKPOINT)


@contextlib.contextmanager
def _locked(folder):
    """Wait for the lock of a download; yield False if the file system has no locks."""
    import filelock

    lock = filelock.FileLock(
        os.path.join(os.path.dirname(folder), f".{os.path.basename(folder)}.lock")
    )
    try:
        try:
            lock.acquire(timeout=0)
        except filelock.Timeout:
            console.info("%s: waiting for another process that downloads the model", folder)
            lock.acquire()
    except OSError as error:
        if error.errno not in locks.NO_LOCKS:
            raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    try:
        yield lock.is_locked
    finally:
        lock.release()


def _fetch(name, url, folder, is_locked):
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
    with contextlib.suppress(FileNotFoundError):  # without locks, another process may remove it
        os.remove(archive)


class _RefusedArchive(UserError):
    """The archive is invalid and must be removed."""


def _unpack(name, archive, folder):
    expected = (files.CONFIG, files.VOCABULARY, RELEASE_CHECKPOINT)
    digests = {}
    try:
        with zipfile.ZipFile(archive) as opened, files.replacing_folder(folder) as temporary:
            os.makedirs(temporary)
            for entry in opened.infolist():
                parts = entry.filename.replace("\\", "/").split("/")
                if ".." in parts or parts[0] == "" or ":" in parts[0]:
                    raise _RefusedArchive(
                        f"{archive}: {entry.filename!r} would be written outside the folder; the "
                        "archive was removed"
                    )
            if sum(entry.file_size for entry in opened.infolist()) > _MAX_UNPACKED_BYTES:
                limit = _MAX_UNPACKED_BYTES >> 30
                raise _RefusedArchive(
                    f"{archive} unpacks to more than {limit} GB; the archive was removed"
                )
            for entry in opened.infolist():
                # Ignore folders, because only some archives have a top-level folder.
                base = os.path.basename(entry.filename)
                target = os.path.join(temporary, base)
                if base.startswith(expected):
                    with opened.open(entry) as reader, open(target, "wb") as writer:
                        digests[base] = _copy(reader, writer)
            if missing := [x for x in _REQUIRED if x not in digests]:
                raise _RefusedArchive(
                    f"{archive}: {', '.join(missing)} is missing; the archive was removed"
                )
            _check_digests(name, archive, folder, digests)
    except _RefusedArchive:
        raise
    except (OSError, UserError) as error:
        if os.path.isdir(folder):  # without locks, another process was faster
            return
        if isinstance(error, UserError):
            raise
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        raise _RefusedArchive(
            f"{archive}: not a complete zip archive ({reason(error)}); it was removed, so run "
            "again to download it"
        ) from None


def _copy(reader, writer):
    sha = hashlib.sha256()
    while block := reader.read(_BLOCK_BYTES):
        sha.update(block)
        writer.write(block)
    return sha.hexdigest()


def _check_digests(name, archive, folder, digests):
    """Compare the SHA-256 of each file with the known value, or save it at the first download."""
    expected, source = _known_digests().get(name), "the published model"
    if expected is None:
        path = f"{folder}.sha256.json"
        if not os.path.exists(path):
            files.write_text(path, json.dumps(digests, indent=2) + "\n")
            return
        expected = json_files.read(path, dict[str, str])
        source = f"the first download (see {path})"
    for base, digest in expected.items():
        if digests.get(base) != digest:
            found = f"has SHA-256 {digests[base]}" if base in digests else "is missing"
            raise _RefusedArchive(
                f"{archive}: {base} {found}, expected {digest} as in {source}; the archive was "
                "removed"
            )


@functools.cache
def _known_digests():
    """Return {model name: {file name: SHA-256}}."""
    digests: dict[str, dict[str, str]] = {}
    path = os.path.join(os.path.dirname(__file__), "published_sha256.txt")
    for line in files.read_lines(path):
        if not line.startswith("#"):
            digest, _, file = line.strip().partition("  ")
            name, _, base = file.rpartition("/")
            digests.setdefault(name, {})[base] = digest
    return digests
