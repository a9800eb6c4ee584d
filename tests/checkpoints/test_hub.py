"""Models by name, from a server on loopback that serves an archive made here."""

import http.server
import io
import os
import threading
import zipfile

import pytest
from test_modeling import TINY, features

import bert_tf
from bert_tf import checkpoints

NAME = "uncased_L-2_H-128_A-2"


def archive(tmp_path, top=f"{NAME}/", extra=None):
    """A zip file as the release published them, with a tiny model."""
    values = {n: v.numpy() for n, v in checkpoints.weights(bert_tf.BertModel(TINY)).items()}
    checkpoints.write(str(tmp_path / "made" / "bert_model.ckpt"), values)
    (tmp_path / "made" / "bert_config.json").write_text(TINY.to_json_string())
    (tmp_path / "made" / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n")
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as writer:
        for path in (tmp_path / "made").iterdir():
            writer.write(path, top + path.name)
        writer.writestr(extra or "README", "text")
    return data.getvalue()


@pytest.fixture
def server(monkeypatch, tmp_path):
    """Serves `server.content` at the small model's path; `cut` is where a connection breaks off."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            server.requests.append((self.path, self.headers.get("Range")))
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
            self.wfile.write(body[: server.cut] if server.cut else body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.cut, server.requests = archive(tmp_path), None, []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("BERT_TF_MODELS_URL", f"http://127.0.0.1:{server.server_port}/models/")
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    yield server
    server.shutdown()
    server.server_close()


def test_every_model_that_was_published_has_a_name():
    names = set(checkpoints.MODELS)
    assert len(names) == 24 + 9  # the largest small one stands for two
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
    assert base.archive == "2018_10_18/uncased_L-12_H-768_A-12.zip"
    cased = {name for name, model in checkpoints.MODELS.items() if not model.do_lower_case}
    assert cased == {name for name in names if "cased_" in name and "uncased_" not in name}


@pytest.mark.parametrize("top", [f"{NAME}/", ""])
def test_fetched_once_and_used(server, tmp_path, top, caplog):
    caplog.set_level("INFO")
    server.content = archive(tmp_path, top)
    found = checkpoints.fetch(NAME)
    assert found.do_lower_case
    assert checkpoints.fetch(NAME) == found
    assert len(server.requests) == 1
    assert sorted(os.listdir(tmp_path / "cache")) == [NAME]
    assert "MB" in caplog.text
    model = bert_tf.BertModel.from_preset(NAME)
    assert "39 of 39 from" in caplog.text
    assert model.config == TINY
    labels = bert_tf.BertClassifier.from_preset(NAME, num_labels=3)
    assert labels(features())["logits"].shape == (3, 3)


def test_a_download_that_is_cut_off_goes_on(server, tmp_path):
    server.cut = 1000
    # Each connection brings 1000 bytes more, and the file is whole at the end.
    checkpoints.fetch(NAME)
    ranges = [asked for _, asked in server.requests]
    assert ranges[:3] == [None, "bytes=1000-", "bytes=2000-"]

    # So does the next start of a process that was killed.
    part = tmp_path / "other" / f"{NAME}.zip.part"
    part.parent.mkdir()
    part.write_bytes(server.content[:1500])
    server.cut, server.requests[:] = None, []
    checkpoints.fetch(NAME, cache=str(part.parent))
    assert server.requests[0][1] == "bytes=1500-"
    assert os.listdir(part.parent) == [NAME]

    # What is left of another file is thrown away.
    part.parent.joinpath(NAME).rename(tmp_path / "gone")
    part.write_bytes(b"x" * (len(server.content) + 5))
    checkpoints.fetch(NAME, cache=str(part.parent))


def refused(message, **options):
    with pytest.raises(bert_tf.UserError, match=message):
        checkpoints.fetch(options.pop("name", NAME), **options)


def test_mistakes(server, tmp_path, monkeypatch):
    refused("--model: 'bert-base' is not one of .*uncased_L-12_H-768_A-12", name="bert-base")
    refused("the server answers 404", name="uncased_L-4_H-128_A-2")
    refused("must begin with http", base_url="ftp://127.0.0.1/x")
    closed = "http://127.0.0.1:9"
    refused(rf"{closed}/2020_02_20/{NAME}.zip cannot be reached .* put it at .*", base_url=closed)

    server.content = archive(tmp_path, extra="../../evil")
    refused("'../../evil' leads out of the folder")
    assert not (tmp_path / "evil").exists()
    assert os.listdir(tmp_path / "cache") == [f"{NAME}.zip"]
    os.remove(tmp_path / "cache" / f"{NAME}.zip")

    server.content = archive(tmp_path, extra="/absolute")
    refused("'/absolute' leads out of the folder")
    os.remove(tmp_path / "cache" / f"{NAME}.zip")

    server.content = archive(tmp_path)[:-100]
    refused("not a whole zip archive .* fetches it anew")
    assert os.listdir(tmp_path / "cache") == []

    monkeypatch.setattr(hub, "_MOST_BYTES", 1000)
    server.content = archive(tmp_path)
    refused("would unpack to more than")
    os.remove(tmp_path / "cache" / f"{NAME}.zip")
    monkeypatch.undo()

    folder = tmp_path / "cache" / NAME
    folder.mkdir()
    refused("bert_config.json is missing; remove the folder", cache=str(tmp_path / "cache"))


def test_an_archive_put_there_by_hand_needs_no_network(tmp_path):
    cache = tmp_path / "cache"
    cache.mkdir()
    (cache / f"{NAME}.zip").write_bytes(archive(tmp_path))
    found = checkpoints.fetch(NAME, cache=str(cache), base_url="http://127.0.0.1:9")
    assert bert_tf.BertConfig.from_json_file(found.config) == TINY
