"""Downloads of published models, from a local server."""

import errno
import hashlib
import http.server
import io
import multiprocessing
import os
import pathlib
import re
import shutil
import threading
import time
import zipfile

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.checkpoints import download, hub
from bert_tf.tokenization import casing_from_path
from tests.common import TINY, features

NAME = "uncased_L-2_H-128_A-2"


def archive(tmp_path, top=f"{NAME}/", extra=None):
    """Return a zip archive of a tiny model, laid out like the release's archives."""
    if not (tmp_path / "model").exists():
        values = {n: v.numpy() for n, v in checkpoints.weights(bert_tf.BertModel(TINY)).items()}
        checkpoints.write(str(tmp_path / "model" / "bert_model.ckpt"), values)
        (tmp_path / "model" / "bert_config.json").write_text(TINY.to_json_string())
        (tmp_path / "model" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as writer:
        for path in (tmp_path / "model").iterdir():
            writer.write(path, top + path.name)
        writer.writestr(extra or "README", "text")
    return data.getvalue()


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Serve `server.content` as the model `NAME`.

    A connection closes after `server.cut` bytes. The first `server.num_failures` requests get
    status 503. Each response takes `server.delay` seconds.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            server.requests.append((self.path, self.headers.get("Range")))
            if server.num_failures:
                server.num_failures -= 1
                self.send_error(503)
                return
            if self.path != f"/models/2020_02_20/{NAME}.zip":
                self.send_error(404)
                return
            first = int((self.headers.get("Range") or "bytes=0-")[6:-1])
            if first >= len(server.content):
                self.send_error(416)
                return
            self.send_response(206 if first else 200)
            body = server.content[first:]
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            time.sleep(server.delay)
            self.wfile.write(body[: server.cut] if server.cut else body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.cut, server.requests = archive(tmp_path), None, []
    server.num_failures, server.delay = 0, 0.0
    monkeypatch.setattr(download, "_NUM_RETRIES", 1)  # The first retry is immediate.
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("BERT_TF_MODELS_URL", f"http://127.0.0.1:{server.server_port}/models/")
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()


def test_names_of_the_published_models():
    names = set(checkpoints.MODELS)
    assert len(names) == 24 + 9  # the largest small model has two names
    assert {
        "uncased_L-12_H-768_A-12",
        "cased_L-24_H-1024_A-16",
        "wwm_cased_L-24_H-1024_A-16",
        "multilingual_L-12_H-768_A-12",
        "multi_cased_L-12_H-768_A-12",
        "chinese_L-12_H-768_A-12",
        "uncased_L-8_H-512_A-8",
        "2020_02_20/uncased_L-12_H-768_A-12",
    } <= names
    base = checkpoints.MODELS["uncased_L-12_H-768_A-12"]
    assert base == "2018_10_18/uncased_L-12_H-768_A-12.zip"
    cased = {name for name in names if not casing_from_path(f"cache/{name}/bert_model.ckpt")[1]}
    assert cased == {name for name in names if "cased_" in name and "uncased_" not in name}


def visible(folder):
    """Return the names of the files in a folder, without lock files."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


@pytest.mark.parametrize("top", [f"{NAME}/", ""])
def test_downloads_once(server, tmp_path, top, caplog):
    caplog.set_level("INFO")
    server.content = archive(tmp_path, top)
    assert checkpoints.fetch(NAME) == str(tmp_path / "cache" / NAME / "bert_model.ckpt")
    model_files = checkpoints.resolve(NAME)
    assert model_files.do_lower_case
    assert model_files.checkpoint == checkpoints.fetch(NAME)
    assert model_files.config == str(tmp_path / "cache" / NAME / "bert_config.json")
    assert len(server.requests) == 1
    assert visible(tmp_path / "cache") == [NAME, f"{NAME}.sha256.json"]
    assert "MB" in caplog.text
    model = bert_tf.BertModel.from_preset(NAME)
    assert "39 of 39 from" in caplog.text
    assert model.config == TINY
    classifier = bert_tf.BertClassifier.from_preset(NAME, num_labels=3)
    assert classifier(features())["logits"].shape == (3, 3)


def test_local_folder_with_a_published_name(server, tmp_path, monkeypatch, caplog):
    """The user has unzipped the archive by hand."""
    caplog.set_level("INFO", "bert_tf")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bert_tf.UserError, match=f"{NAME}' is neither a folder nor one of"):
        checkpoints.resolve(bert_tf.configs.ModelConfig(f"./{NAME}"))
    (tmp_path / "model").rename(NAME)
    for path in (NAME, f"./{NAME}"):
        for preset in (path, bert_tf.configs.ModelConfig(path)):
            model_files = checkpoints.resolve(preset, needs=["init_checkpoint", "vocab_file"])
            assert model_files.vocab_file == f"{path}/vocab.txt"
            assert model_files.do_lower_case
    assert f"using the local folder {NAME} instead of downloading the model" in caplog.text
    assert not server.requests


def test_interrupted_download_resumes(server, tmp_path):
    server.cut = 1000
    # Each connection transfers 1000 bytes.
    checkpoints.fetch(NAME)
    ranges = [requested for _, requested in server.requests]
    assert ranges[:3] == [None, "bytes=1000-", "bytes=2000-"]

    # A new process resumes the download of a killed one.
    part = tmp_path / "other" / f"{NAME}.zip.part"
    part.parent.mkdir()
    part.write_bytes(server.content[:1500])
    server.cut, server.requests[:] = None, []
    checkpoints.fetch(NAME, cache=str(part.parent))
    assert server.requests[0][1] == "bytes=1500-"
    assert visible(part.parent) == [NAME, f"{NAME}.sha256.json"]

    # The partial download of a different file is discarded.
    part.parent.joinpath(NAME).rename(tmp_path / "gone")
    part.write_bytes(b"x" * (len(server.content) + 5))
    checkpoints.fetch(NAME, cache=str(part.parent))


def test_what_a_killed_process_leaves_is_removed(server, tmp_path):
    """The process was killed while it unpacked the archive, or after that."""
    dead = multiprocessing.get_context("fork").Process(target=int)
    dead.start()
    dead.join()
    cache = tmp_path / "cache"
    (cache / f"{NAME}.tmp-{dead.pid}").mkdir(parents=True)
    (cache / f"{NAME}.tmp-{dead.pid}" / "vocab.txt").write_text("[PAD]\n")
    (cache / f"{NAME}.sha256.json.tmp-{dead.pid}").write_text("{")
    checkpoints.fetch(NAME)
    (cache / f"{NAME}.zip").write_bytes(server.content)
    checkpoints.fetch(NAME)
    assert visible(cache) == [NAME, f"{NAME}.sha256.json"]
    assert len(server.requests) == 1


def test_server_errors_are_retried(server):
    server.num_failures = 1
    checkpoints.fetch(NAME)
    assert len(server.requests) == 2


def check_error(message, **options):
    with pytest.raises(bert_tf.UserError, match=message):
        checkpoints.fetch(options.pop("name", NAME), **options)


def test_errors(server, tmp_path, monkeypatch):
    check_error(
        "`model`: 'bert-base' is neither a folder nor one of .*uncased_L-12_H-768_A-12",
        name="bert-base",
    )
    check_error("the server returned 404", name="uncased_L-4_H-128_A-2")
    check_error("an address that starts with http", base_url="ftp://127.0.0.1/x")
    closed = "http://127.0.0.1:9"
    check_error(
        rf"{closed}/2020_02_20/{NAME}.zip cannot be reached .*refused.* save it as .*",
        base_url=closed,
    )

    server.content = archive(tmp_path, extra="../../evil")
    check_error("zip: '../../evil' would be written outside the folder")
    assert not (tmp_path / "evil").exists()
    assert visible(tmp_path / "cache") == []

    server.content = archive(tmp_path, extra="/absolute")
    check_error("zip: '/absolute' would be written outside the folder")

    server.content = archive(tmp_path)[:-100]
    check_error("not a complete zip archive .* run again")
    assert visible(tmp_path / "cache") == []

    monkeypatch.setattr(hub, "_MAX_UNPACKED_BYTES", 1000)
    server.content = archive(tmp_path)
    check_error("unpacks to more than")
    assert visible(tmp_path / "cache") == []
    monkeypatch.undo()

    folder = tmp_path / "cache" / NAME
    folder.mkdir()
    check_error(
        f"{NAME}: bert_config.json is missing; remove the folder", cache=str(tmp_path / "cache")
    )


def test_archive_copied_into_the_cache_needs_no_network(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / f"{NAME}.zip").write_bytes(archive(tmp_path))
    checkpoint = checkpoints.fetch(NAME, cache=str(cache), base_url="http://127.0.0.1:9")
    assert checkpoints.load_config(checkpoint) == TINY


def fetch_in_process(cache, barrier, results):
    """Fetch the model at the same time as other processes; report the number of errors."""
    barrier.wait()
    try:
        folder = os.path.dirname(checkpoints.fetch(NAME, cache=cache))
        paths = [os.path.join(folder, name) for name in ("bert_config.json", "vocab.txt")]
        results.put(sum(not os.path.exists(path) for path in paths))
    except Exception as error:
        results.put(repr(error))


def fetch_together(cache, count=3):
    """Fetch the model into a new cache in several processes; return what each reports."""
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(count), context.SimpleQueue()
    processes = [
        context.Process(target=fetch_in_process, args=(str(cache), barrier, results))
        for _ in range(count)
    ]
    for process in processes:
        process.start()
    reports = [results.get() for _ in processes]
    for process in processes:
        process.join()
    return reports


def test_three_processes_fetch_one_model(server, tmp_path):
    server.delay = 0.2
    assert fetch_together(tmp_path / "cache") == [0, 0, 0]
    assert len(server.requests) == 1
    assert visible(tmp_path / "cache") == [NAME, f"{NAME}.sha256.json"]


@pytest.mark.slow
@pytest.mark.parametrize("has_locks", [True, False])
def test_three_processes_fetch_one_model_many_times(server, tmp_path, monkeypatch, has_locks):
    if not has_locks:

        def acquire(*_, **__):
            raise OSError(errno.ENOLCK, "no locks")

        monkeypatch.setattr("filelock.FileLock.acquire", acquire)
    server.delay = 0.01
    for number in range(20):
        cache = tmp_path / f"cache {number}"
        assert fetch_together(cache) == [0, 0, 0]
        assert visible(cache) == [NAME, f"{NAME}.sha256.json"]


def test_another_process_unpacks_the_same_model_without_locks(server, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    compare = hub._check_digests

    def unpack_elsewhere(*arguments):
        compare(*arguments)
        shutil.copytree(tmp_path / "model", cache / NAME)
        # The folder appears after the last check.
        monkeypatch.setattr(os.path, "lexists", lambda _: False)

    monkeypatch.setattr(hub, "_check_digests", unpack_elsewhere)
    checkpoints.fetch(NAME)
    assert visible(cache) == [NAME, f"{NAME}.sha256.json"]


def test_changed_archive_is_refused(server, tmp_path):
    """Files must equal the first download, or the published model if its digest is known."""
    cache = tmp_path / "cache"
    checkpoints.fetch(NAME)
    (cache / NAME).rename(tmp_path / "gone")
    first = server.content
    (tmp_path / "model" / "vocab.txt").write_text("[PAD]\n")
    server.content = archive(tmp_path)
    check_error(
        rf"{NAME}\.zip: vocab\.txt has SHA-256 \w{{64}}, expected \w{{64}} as in the first "
        rf"download \(see {cache}/{NAME}\.sha256\.json\); the archive was removed"
    )
    assert visible(cache) == [f"{NAME}.sha256.json"]
    server.content = first
    checkpoints.fetch(NAME)

    known = "uncased_L-12_H-768_A-12"
    (cache / f"{known}.zip").write_bytes(first)
    check_error(
        rf"{known}\.zip: bert_config\.json has SHA-256 \w+, expected 7b4e5f53\w+ as in the "
        "published model; the archive was removed",
        name=known,
    )
    assert not [name for name in os.listdir(cache) if name.startswith(known)]


def test_known_digests_are_of_published_models(published_vocab):
    known = hub._known_digests()
    assert len(known) == 7 and known.keys() <= checkpoints.MODELS.keys()
    for digests in known.values():
        assert digests.keys() == {
            "bert_config.json",
            "bert_model.ckpt.data-00000-of-00001",
            "bert_model.ckpt.index",
            "vocab.txt",
        }
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in digests.values())
    vocabulary = pathlib.Path(published_vocab).read_bytes()
    expected = known["uncased_L-12_H-768_A-12"]["vocab.txt"]
    assert hashlib.sha256(vocabulary).hexdigest() == expected
