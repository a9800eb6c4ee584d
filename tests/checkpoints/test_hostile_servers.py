"""Faulty servers: a download fails with one sentence within limited time."""

import gzip
import io
import itertools
import os
import socketserver
import tarfile
import threading
import time
import zipfile

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.checkpoints import download, hub

NAME = "uncased_L-2_H-128_A-2"


def answer(body=b"", status="200 OK", **headers):
    """Return the bytes of a response; headers with the value None are omitted."""
    headers = {"Content_Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"{x.replace('_', '-')}: {y}" for x, y in headers.items() if y is not None]
    return "\r\n".join([f"HTTP/1.1 {status}", *lines, "", ""]).encode() + body


def archive(*names, compression=zipfile.ZIP_STORED, size=10):
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", compression) as writer:
        for name in names:
            writer.writestr(name, b"x" * size)
    return data.getvalue()


def link():
    data, entry = io.BytesIO(), zipfile.ZipInfo("vocab.txt")
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(data, "w") as writer:
        writer.writestr(entry, "/etc/passwd")
    return data.getvalue()


def tar():
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as writer:
        writer.addfile(tarfile.TarInfo("../vocab.txt"))
    return data.getvalue()


def flipped(data, *positions):
    return bytes(x ^ 0xFF if i in positions else x for i, x in enumerate(data))


FILES = ("bert_config.json", "vocab.txt", "bert_model.ckpt.index")
GOOD = archive(*FILES)
ENCRYPTED = GOOD.replace(b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01")


def endless(first, block):
    return itertools.chain([first], itertools.repeat(block))


def slow(data):
    return ((time.sleep(0.02), data[i : i + 1])[1] for i in range(len(data)))


def behaviours():
    """Yield pairs of a name and a function that returns the chunks of a response."""
    codes = [*range(400, 419), 421, 422, 423, 424, 425, 426, 428, 431, 451]
    codes += [501, 505, 506, 507, 508, 510, 511, 520, 599, 600, 700, 999]
    for code in codes:
        yield f"status {code}", answer(b"no", f"{code} No")
    for code in (500, 502, 503, 504, 429):
        yield f"status {code}", answer(b"no", f"{code} No", Retry_After="0")
    for length in ("abc", "-1", "1e3", "0x10", "9" * 30, "1 2", "10, 20", str(9 << 30)):
        yield f"length {length}", answer(GOOD, Content_Length=length)
    for body in (b"", b"P", b"PK", b"PK\x03\x04", b"\0" * 1000, b"<html></html>", tar()):
        yield f"body {body[:6]!r}", answer(body)
    yield "gzip", answer(gzip.compress(GOOD))
    yield "truncated gzip", answer(gzip.compress(GOOD)[:-9], Content_Encoding="gzip")
    for size in range(1, len(GOOD), len(GOOD) // 12):
        yield f"first {size} bytes", answer(GOOD[:size])
        yield f"drops after {size} bytes", answer(GOOD)[: size - len(GOOD)]
    for position in (30, 45, 50):
        yield f"flipped {position}", answer(flipped(GOOD, position))
    yield "encrypted", answer(ENCRYPTED)
    for name in ("../x", "/x", "a/../../x", "..\\x", "C:\\x", "C:/x", "\\\\host\\x", "//host/x"):
        yield f"path {name}", answer(archive(name, *FILES))
    for number in range(3):
        yield f"{number} files", answer(archive(*FILES[:number]))
    yield "link", answer(link())
    yield "bomb", answer(archive(*FILES, compression=zipfile.ZIP_DEFLATED, size=1 << 22))
    for body in (b"zz\r\nx\r\n0\r\n\r\n", b"-1\r\nx", b"5\r\nx", b"", b"\r\n\r\n", b"f" * 40):
        chunked = answer(body, Content_Length=None, Transfer_Encoding="chunked")
        yield f"chunks {body[:8]!r}", chunked
    for url in ("file:///etc/passwd", "ftp://a/x", "data:,x", "gopher://a", "//", "http://", "x:y"):
        yield f"redirect to {url}", answer(status="302 Found", Location=url)
    for url in ("", "/", "?", "http://[", "http://a b/", "http://%zz", "http://" + "a" * 300):
        yield f"loop to {url[:9]}", answer(status="301 Moved", Location=url)
    yield "redirect without an address", answer(status="302 Found")
    for head in (b"", b"\0" * 99, b"HTTP", b"HTTP/1.1", b"HTTP/9 200 OK\r\n\r\n", b"220 ftp\r\n"):
        yield f"head {head[:14]!r}", head
    yield "long header", answer(GOOD, X="x" * 70_000)
    yield "many headers", answer(GOOD, **{f"X{i}": "x" for i in range(200)})
    yield "long status", answer(GOOD, status="200 " + "x" * 70_000)
    yield "endless header", lambda: endless(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 9999)
    yield "endless headers", lambda: endless(b"HTTP/1.1 200 OK\r\n", b"X: x\r\n" * 99)
    yield "endless body", lambda: endless(answer(Content_Length=None), b"x" * 99_999)
    chunks = answer(Content_Length=None, Transfer_Encoding="chunked")
    yield "endless chunks", lambda: endless(chunks, b"5\r\nxxxxx\r\n" * 9999)
    yield "silent", lambda: iter(lambda: time.sleep(0.1) or b"", None)
    yield "slow bytes", lambda: slow(answer(b"x" * 40))


BEHAVIOURS = dict(behaviours())
# The default suite tries every fifth, `-m slow` all.
CASES = [
    pytest.param(name, marks=[] if index % 5 == 0 else pytest.mark.slow)
    for index, name in enumerate(BEHAVIOURS)
]


@pytest.fixture
def serve(monkeypatch):
    """A function that serves a behaviour and returns the address of the server."""
    stopped, servers = threading.Event(), []

    def start(behaviour):
        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                self.request.recv(1 << 16)
                parts = [behaviour] if isinstance(behaviour, bytes) else behaviour()
                try:
                    for part in parts:
                        if stopped.is_set():
                            return
                        self.request.sendall(part)
                except OSError:  # the client has closed the connection
                    pass

        server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_address[1]}"

    monkeypatch.setattr(download, "_NUM_RETRIES", 1)
    monkeypatch.setattr(download, "_FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(download, "_TIMEOUT_SECONDS", 0.5)
    monkeypatch.setattr(download, "_MAX_BYTES", 1 << 22)
    monkeypatch.setattr(hub, "_MAX_UNPACKED_BYTES", 1 << 22)
    yield start
    stopped.set()
    for server in servers:
        server.shutdown()
        server.server_close()


def test_there_are_many():
    assert len(BEHAVIOURS) >= 107


@pytest.mark.parametrize("name", CASES)
def test_one_sentence_in_limited_time(serve, tmp_path, name):
    address, start = serve(BEHAVIOURS[name]), time.monotonic()
    with pytest.raises(bert_tf.UserError) as error:
        checkpoints.fetch(NAME, cache=str(tmp_path), base_url=address)
    assert time.monotonic() - start < 10
    message = str(error.value)
    assert "\n" not in message and len(message) < 1000 and NAME in message
    # Only the partial download may remain, since it can be resumed.
    left = [x for x in os.listdir(tmp_path) if x[0] != "."]
    assert set(left) <= {f"{NAME}.zip.part"}


def test_redirects_into_the_own_network_are_refused(serve, tmp_path, monkeypatch):
    """They are allowed if the mirror itself has a private address."""
    target = f"{serve(answer(GOOD))}/x.zip"
    address = serve(answer(status="302 Found", Location=target))
    checkpoints.fetch(NAME, cache=str(tmp_path / "a"), base_url=address)
    is_private = download._is_private
    monkeypatch.setattr(download, "_is_private", lambda x: x == target and is_private(x))
    with pytest.raises(bert_tf.UserError, match=f"the redirect to {target} was refused"):
        checkpoints.fetch(NAME, cache=str(tmp_path / "b"), base_url=address)
    hosts = ("127.0.0.1", "localhost", "10.0.0.1", "192.168.1.1", "169.254.169.254", "[::1]", "0")
    assert all(is_private(f"http://{host}:80/x") for host in hosts)
    assert not is_private("http://8.8.8.8/x")
