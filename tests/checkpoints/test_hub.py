"""Downloads of published models, from a local server."""

import hashlib
import io
import multiprocessing
import os
import pathlib
import signal
import time
import zipfile

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.checkpoints import hub
from tests.common import TINY, WORDS, Handler, features, http_server, write_release

NAME = "uncased_L-2_H-128_A-2"
KNOWN = "uncased_L-12_H-768_A-12"  # its digests are known


def archive(tmp_path, top=f"{NAME}/", without=""):
    """Return a zip archive of a tiny model, laid out like the release's archives."""
    folder = tmp_path / "model"
    if not folder.exists():
        folder.mkdir()
        write_release(folder, bert_tf.BertModel(TINY), WORDS[:5])
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as writer:
        for path in folder.iterdir():
            if path.name != without:
                writer.write(path, top + path.name)
        writer.writestr("../evil", "")
    return data.getvalue()


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Serve `server.content` as every model, `server.delay` seconds after the header.

    The connection closes after `server.cut` bytes.
    """

    class Models(Handler):
        def do_GET(self):
            server.requests.append(self.path)
            if "L-4" in self.path:
                self.send_error(404)
                return
            self.send_response(200)
            self.send_header("Content-Length", str(len(server.content)))
            self.end_headers()
            time.sleep(server.delay)
            self.wfile.write(server.content[: server.cut])

    with http_server(Models) as server:
        server.content, server.cut, server.delay, server.requests = archive(tmp_path), None, 0, []
        monkeypatch.setenv("BERT_TF_MODELS_URL", f"http://127.0.0.1:{server.server_port}/models/")
        monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
        yield server


def visible(folder):
    """Return the names of the files in a folder, without lock files."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


@pytest.mark.parametrize("top", [f"{NAME}/", ""])
def test_downloads_once(server, tmp_path, top, caplog, capsys):
    caplog.set_level("INFO")
    server.content = archive(tmp_path, top)
    assert checkpoints.fetch(NAME) == str(tmp_path / "cache" / NAME / "bert_model.ckpt")
    model_files = checkpoints.resolve(NAME)
    assert model_files.do_lower_case
    assert model_files.checkpoint == checkpoints.fetch(NAME)
    assert model_files.config == str(tmp_path / "cache" / NAME / "bert_config.json")
    assert server.requests == [f"/models/2020_02_20/{NAME}.zip"]
    assert visible(tmp_path / "cache") == [NAME]
    assert visible(tmp_path / "cache" / NAME) == visible(tmp_path / "model")
    assert not (tmp_path / "cache" / "evil").exists()
    assert not capsys.readouterr().out
    model = bert_tf.BertModel.from_preset(NAME)
    assert "39 of 39 from" in caplog.text
    assert model.config == TINY
    classifier = bert_tf.BertClassifier.from_preset(NAME, num_labels=3)
    assert classifier(features())["logits"].shape == (3, 3)


def test_local_folder_with_a_published_name(server, tmp_path, monkeypatch, caplog):
    """The user has unzipped the archive by hand."""
    caplog.set_level("INFO", "bert_tf")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(bert_tf.UserError, match=f"`model`: .*{NAME}"):
        checkpoints.resolve(bert_tf.configs.ModelConfig(f"./{NAME}"))
    (tmp_path / "model").rename(NAME)
    for path in (NAME, f"./{NAME}"):
        for preset in (path, bert_tf.configs.ModelConfig(path)):
            model_files = checkpoints.resolve(preset, needs=["init_checkpoint", "vocab_file"])
            assert model_files.vocab_file == f"{path}/vocab.txt"
            assert model_files.do_lower_case
    assert f"using the local folder {NAME} instead of downloading the model" in caplog.text
    assert not server.requests


@pytest.mark.parametrize(
    ("name", "cut", "without", "values"),
    [
        ("bert-base", None, "", ["`model`: 'bert-base'", KNOWN]),
        ("uncased_L-4_H-128_A-2", None, "", ["`model`: uncased_L-4_H-128_A-2 ", "404"]),
        (NAME, 1000, "", [f"`model`: {NAME} ", "1000 out of"]),
        (NAME, None, "vocab.txt", [f"{NAME}.zip", "vocab.txt"]),
        (KNOWN, None, "", [f"{KNOWN}.zip", "bert_config.json", "expected 7b4e5f53"]),
        (NAME, None, "damage", [f"`model`: {NAME} ", "CRC"]),
    ],
    ids=["unknown", "not found", "cut off", "incomplete", "wrong digest", "damaged"],
)
def test_errors_leave_nothing(server, tmp_path, name, cut, without, values):
    server.content, server.cut = archive(tmp_path, without=without), cut
    if without == "damage":
        server.content = server.content.replace(b"[UNK]", b"[UNX]")
    with pytest.raises(bert_tf.UserError) as error:
        checkpoints.fetch(name)
    assert all(value in str(error.value) for value in values)
    assert not os.path.isdir(tmp_path / "cache") or not visible(tmp_path / "cache")


def test_without_a_network(tmp_path, monkeypatch):
    closed = "http://127.0.0.1:9"
    monkeypatch.setenv("BERT_TF_MODELS_URL", closed)
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path))
    with pytest.raises(
        bert_tf.UserError, match=rf"`model`: {NAME} .*{closed}.*refused.*{tmp_path}"
    ):
        checkpoints.fetch(NAME)
    archive(tmp_path)
    (tmp_path / "model").rename(tmp_path / NAME)
    checkpoint = checkpoints.fetch(NAME)
    assert checkpoints.load_config(checkpoint) == TINY


def fetch_in_process(results):
    try:
        results.put(sorted(os.listdir(os.path.dirname(checkpoints.fetch(NAME)))))
    except Exception as error:
        results.put(repr(error))


def test_processes_share_a_download_and_one_is_killed(server, tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def start():
        process = context.Process(target=fetch_in_process, args=(results,))
        process.start()
        return process

    server.delay = 60
    killed = start()
    while not server.requests:
        time.sleep(0.01)
    (partial,) = visible(tmp_path / "cache")
    assert partial == f"{NAME}.tmp-{killed.pid}"
    server.delay = 0.5
    others = [start() for _ in range(3)]
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    assert [results.get() for _ in others] == [visible(tmp_path / "model")] * 3
    assert len(server.requests) == 2
    assert visible(tmp_path / "cache") == [NAME]


def test_known_digests_are_of_published_models(published_vocab):
    known = {name: hub._known_digests(name) for name in checkpoints.MODELS}
    assert sum(map(bool, known.values())) == 7
    vocabulary = pathlib.Path(published_vocab).read_bytes()
    assert hashlib.sha256(vocabulary).hexdigest() == known[KNOWN]["vocab.txt"]
