"""Download a file, so that an interrupted download resumes where it stopped."""

# Not pooch: it restarts interrupted downloads and has neither locks nor a limit of unpacked size.

import os

from bert_tf import console
from bert_tf.errors import UserError, reason

_BLOCK_BYTES = 1 << 20
_TIMEOUT_SECONDS = 30
_NUM_RETRIES = 3


def download(url, path, folder):
    """Download `url` to `path`, which appears when it is complete; one process at a time may do so.

    The download of a process that was killed resumes.

    Args:
      url: the address, http or https.
      path: the file.
      folder: the folder that the file would be unpacked into, for the error message.

    Raises:
      UserError: if the server cannot be reached or the file cannot be written.
    """
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
