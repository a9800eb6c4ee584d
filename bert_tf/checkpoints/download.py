"""Download a file and resume after interruptions."""

# Not pooch, which restarts interrupted downloads and has neither locks nor size limits.

import ipaddress
import os
import re
import socket
import time
import urllib.parse

from bert_tf import console
from bert_tf.errors import UserError, reason

_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
_NUM_RETRIES = 3
# A stall is a connection that ends without progress. The wait doubles after each consecutive stall.
_MAX_STALLS = 5
_FIRST_WAIT_SECONDS = 0.5
_MAX_CONNECTIONS = 1000
# Larger than any published model. The limit keeps an endless response from filling the disk.
_MAX_BYTES = 8 << 30


def download(url, path, folder):
    """Download `url` to `path`, atomically; resume the download of a killed process."""
    import requests
    from requests.adapters import HTTPAdapter
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry

    if not url.lower().startswith(("http://", "https://")):
        raise UserError(f"{url}: expected an address that starts with http:// or https://")
    retry = Retry(
        _NUM_RETRIES, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504),
        raise_on_status=False,
    )  # fmt: skip
    part = path + ".part"
    if os.path.isdir(part):
        raise UserError(f"{part} is a folder, expected a file; remove it to download the model")
    best, stalls, connections = 0, 0, 0
    try:
        with requests.Session() as session:
            if not _is_private(url):
                session.hooks["response"] = [_refuse_private_target]
            session.mount("http://", HTTPAdapter(max_retries=retry))
            session.mount("https://", HTTPAdapter(max_retries=retry))
            while not _download_rest(session, url, part):
                size, connections = os.path.getsize(part), connections + 1
                # A server that cannot resume starts over, so compare with the largest size so far.
                best, stalls = max(best, size), 0 if size > best else stalls + 1
                if stalls == _MAX_STALLS or connections == _MAX_CONNECTIONS:
                    raise UserError(
                        f"{url}: the connection was interrupted {connections} times, {stalls} of "
                        f"them without progress, after {best} bytes at most; try again later"
                    )
                console.info("%s: interrupted after %d bytes, resuming", url, size)
                if stalls:
                    time.sleep(_FIRST_WAIT_SECONDS * 2 ** (stalls - 1))
    except UserError:
        raise
    except (requests.RequestException, HTTPError, ValueError) as error:  # ValueError: from urllib
        raise UserError(
            f"{url} cannot be reached ({reason(_root_cause(error))}); download it on a machine "
            f"with a network connection and save it as {path}, or unpack it into {folder}"
        ) from None
    except OSError as error:
        raise UserError(f"{path}: cannot be written ({reason(error)})") from None
    os.replace(part, path)


def _download_rest(session, url, part):
    """Append the rest of `url` to `part`; return whether it is complete."""
    from urllib3.exceptions import HTTPError

    start = os.path.getsize(part) if os.path.exists(part) else 0
    # No compression, so that ranges count the bytes of the file itself.
    headers = {"Accept-Encoding": "identity"}
    if start:
        headers["Range"] = f"bytes={start}-"
    with session.get(url, headers=headers, stream=True, timeout=_TIMEOUT_SECONDS) as response:
        if response.status_code == 416 and start:  # `part` is too long, so the file has changed
            os.remove(part)
            return _download_rest(session, url, part)
        if not response.ok:
            raise UserError(f"{url}: the server returned {response.status_code} {response.reason}")
        if start and response.status_code != 206:  # the server cannot resume
            start = 0
        length = response.headers.get("Content-Length") or "0"
        if not re.fullmatch("[0-9]{1,18}", length):
            raise UserError(
                f"{url}: the server sent Content-Length {length[:40]!r}, expected a number"
            )
        total = start + int(length)
        if total > _MAX_BYTES:
            raise _too_large(url)
        progress = console.ProgressLog(
            f"downloading {url}", "MB", total=total >> 20 or None, initial=start >> 20
        )
        size = start
        try:
            with open(part, "ab" if start else "wb") as writer:
                # Unlike `iter_content`, this yields all bytes received before an interruption.
                for block in response.raw.stream(_BLOCK_BYTES, decode_content=False):
                    size += len(block)
                    if size > _MAX_BYTES:
                        os.remove(part)
                        raise _too_large(url)
                    writer.write(block)
                    progress.add((size >> 20) - progress.count)
        except HTTPError:
            if size == start:
                raise
            return False
        progress.done()
        return True


def _too_large(url):
    return UserError(
        f"{url}: the file has more than {_MAX_BYTES >> 30} GB, unlike any published model"
    )


def _is_private(url):
    """Return whether a URL points to this machine or to a private network."""
    host = urllib.parse.urlsplit(url).hostname or ""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return any(not ipaddress.ip_address(x[4][0].split("%")[0]).is_global for x in found)
    except (OSError, ValueError):  # unknown host: the request fails, or a proxy resolves it
        return False


def _refuse_private_target(response, **_):
    target = response.headers.get("Location")
    if response.is_redirect and _is_private(target := urllib.parse.urljoin(response.url, target)):
        raise UserError(
            f"{response.url}: the redirect to {target[:200]} was refused, because the address "
            "belongs to this machine or to a private network"
        )


def _root_cause(error):
    from urllib3.exceptions import HTTPError

    while isinstance(cause := error.__cause__ or error.__context__, (OSError, HTTPError)):
        error = cause
    return error
