"""The models that the 2018 release published, by name: found in a cache, fetched when they are not.

An archive is fetched once into `$BERT_TF_CACHE` (default `~/.cache/bert_tf`), from
`$BERT_TF_MODELS_URL` if that is set: the address of a mirror with the same paths below it.
"""

import http.client
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from typing import NamedTuple

from bert_tf import console, files
from bert_tf.checkpoints.convert import RELEASE_CHECKPOINT
from bert_tf.errors import UserError, reason

BASE_URL = "https://storage.googleapis.com/bert_models"
_BLOCK = 1 << 20
_TIMEOUT_SECONDS = 30
# Larger than any published model; what claims to unpack to more is not one.
_MOST_BYTES = 8 << 30


class Published(NamedTuple):
    """Where a model lies below the base address, and whether its text is lower-cased."""

    archive: str
    do_lower_case: bool


def _published(date, *names):
    for name in names:
        # Only these keep case and accents; the Chinese model was trained on lower-cased text.
        cased = name.startswith(("cased", "wwm_cased", "multi_cased"))
        yield name, Published(f"{date}/{name}.zip", not cased)


def _small():
    """The 24 small ones (Turc et al., arXiv:1908.08962): 2 to 12 layers, 128 to 768 wide."""
    for layers in (2, 4, 6, 8, 10, 12):
        for hidden in (128, 256, 512, 768):
            yield f"uncased_L-{layers}_H-{hidden}_A-{hidden // 64}"


# The largest small one has the name of BERT-Base, but other weights; its date tells them apart.
MODELS = dict(_published("2020_02_20", *_small()))
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
    """The files of a published model, and its casing."""

    config: str
    checkpoint: str
    vocab: str
    do_lower_case: bool


def fetch(name: str, cache: str | None = None, base_url: str | None = None) -> ModelFiles:
    """Finds a published model in the cache, or fetches it.

    A download that was cut off goes on where it stopped.

    Args:
      name: "uncased_L-12_H-768_A-12", or another of `MODELS`.
      cache: folder of all fetched models, None for the default.
      base_url: address of a mirror, None for the default.

    Returns:
      `ModelFiles`.

    Raises:
      UserError: if there is no such model, it cannot be fetched, or the archive is damaged.
    """
    model = MODELS.get(name)
    if model is None:
        raise UserError(f"`model`: {name!r} is not one of {', '.join(sorted(MODELS))}")
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
            raise UserError(f"{folder}: {os.path.basename(path)} is missing; remove the folder")
    return ModelFiles(paths[0], paths[1], paths[2], model.do_lower_case)


def _download(url, path, folder):
    """Fetches `url` to `path`, which appears when it is complete."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise UserError(f"{url}: the address of models must begin with http:// or https://")
    part = path + ".part"
    try:
        while True:
            have = os.path.getsize(part) if os.path.exists(part) else 0
            request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"})
            if not have:
                request.headers.clear()
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS) as answer:
                if have and answer.status != 206:
                    have = 0  # a server that cannot go on sends it all again
                total = have + int(answer.headers.get("Content-Length") or 0)
                _receive(answer, part, have, total, url)
            got = os.path.getsize(part)
            if not total or got == total:
                break
            if got == have:
                raise UserError(f"{url}: the connection ends after {got} of {total} bytes")
            console.info("%s: cut off after %d of %d bytes, going on", url, got, total)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # there is nothing more to send: what is here is no part of that file
            os.remove(part)
            return _download(url, path, folder)
        raise UserError(f"{url}: the server answers {error.code} {error.reason}") from None
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        said = reason(getattr(error, "reason", error))
        raise UserError(
            f"{url} cannot be reached ({said}); download it where there is a network, and put it "
            f"at {path}, or unpacked into {folder}"
        ) from None
    os.replace(part, path)


def _receive(answer, part, have, total, url):
    megabytes = console.Ticker(f"fetching {url}", "MB", total=total >> 20 or None)
    megabytes.count = have >> 20
    with open(part, "ab" if have else "wb") as writer:
        while block := answer.read(_BLOCK):
            writer.write(block)
            megabytes.add(len(block) >> 20)
    megabytes.done()


def _unpack(archive, folder):
    """Unpacks the model's files, whole or not at all; nothing is written outside `folder`."""
    wanted = (files.CONFIG, files.VOCABULARY, RELEASE_CHECKPOINT)
    try:
        with zipfile.ZipFile(archive) as opened, files.replacing_folder(folder) as temporary:
            os.makedirs(temporary)
            for entry in opened.infolist():
                parts = entry.filename.replace("\\", "/").split("/")
                if ".." in parts or parts[0] == "" or ":" in parts[0]:
                    raise UserError(f"{archive}: {entry.filename!r} leads out of the folder")
            if sum(entry.file_size for entry in opened.infolist()) > _MOST_BYTES:
                raise UserError(f"{archive}: it would unpack to more than {_MOST_BYTES >> 30} GB")
            for entry in opened.infolist():
                # Some archives have a folder on top and some do not: names alone count.
                name = os.path.basename(entry.filename)
                target = os.path.join(temporary, name)
                if name.startswith(wanted):
                    with opened.open(entry) as reader, open(target, "wb") as writer:
                        shutil.copyfileobj(reader, writer, _BLOCK)
    except OSError as error:
        raise UserError(f"{folder}: cannot be written ({reason(error)})") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError) as error:
        os.remove(archive)
        raise UserError(
            f"{archive}: not a whole zip archive ({reason(error)}); it is removed, so that the "
            "next start fetches it anew"
        ) from None
