"""Models of the Hugging Face Hub, downloaded by its client from a local stand-in server."""

import hashlib
import importlib
import json
import os
import re
import urllib.parse

import pytest

import bert_tf
from bert_tf import checkpoints
from tests.common import WORDS, Handler, http_server, tiny, write_hugging_face

constants = pytest.importorskip("huggingface_hub.constants")

# Commits of "main" and of "v1".
MAIN, OLD = "1" * 40, "2" * 40


class Hub(Handler):
    """Responds as the Hub does; `server.repositories` maps names to dicts of files."""

    protocol_version = "HTTP/1.1"

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        path = urllib.parse.unquote(self.path.partition("?")[0])
        self.server.requests.append(path)
        name = re.match(r"/(?:api/models/)?([^/]+/[^/]+)", path)[1]
        rest = path.partition(name)[2]
        if name not in self.server.repositories:
            return self.refuse(404, "RepoNotFound")
        if name.startswith("gated/") and self.headers["Authorization"] != "Bearer secret":
            return self.refuse(403, "GatedRepo")
        files = self.server.repositories[name]
        if path.startswith("/api/"):
            revision = rest.split("/")[2] if rest else "main"
            commit = {"main": MAIN, "v1": OLD}.get(revision, revision)
            if commit not in (MAIN, OLD):
                return self.refuse(404, "RevisionNotFound")
            if rest.startswith("/tree/"):
                entries = [
                    {"type": "file", "path": x, "size": len(y), "oid": hashlib.sha1(y).hexdigest()}
                    for x, y in files.items()
                ]
                return self.send(json.dumps(entries).encode())
            siblings = [{"rfilename": x} for x in files]
            return self.send(json.dumps({"id": name, "sha": commit, "siblings": siblings}).encode())
        _, _, commit, file = rest.split("/", 3)
        self.send(files[file], commit)

    def send(self, data, commit=MAIN):
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha1(data).hexdigest()}"')
        self.send_header("X-Repo-Commit", commit)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(data)

    def refuse(self, status, code):
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.fixture(scope="module")
def repositories(tmp_path_factory):
    """The files that the server has for each model."""
    folder = tmp_path_factory.mktemp("hub")
    model = bert_tf.BertModel(tiny(vocab_size=len(WORDS)))
    write_hugging_face(folder / "hf", model, do_lower_case=False)
    model = {path.name: path.read_bytes() for path in (folder / "hf").iterdir()}
    pickled = {**model, "pytorch_model.bin": b"pickle"}
    del pickled["model.safetensors"]
    roberta = {**model, "config.json": b'{"model_type": "roberta", "vocab_size": 9}'}
    return {
        "me/tiny": {
            **model,
            "pytorch_model.bin": b"pickle",
            "onnx/model.onnx": b"large",
            "config_sentence_transformers.json": b"{}",
        },
        "gated/tiny": model,
        "me/pickled": pickled,
        "me/roberta": roberta,
        "me/empty": {"README.md": b"nothing"},
        "google-bert/bert-base-cased": model,
    }


@pytest.fixture
def hub(repositories, monkeypatch, tmp_path):
    """The server; `hub.restart()` makes the client reread its environment variables."""
    with http_server(Hub) as server:
        server.repositories, server.requests = repositories, []
        server.restart = lambda: importlib.reload(constants)
        with monkeypatch.context() as patch:
            patch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
            patch.setenv("HF_HOME", str(tmp_path / "home"))
            for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "HF_HUB_CACHE", "TRANSFORMERS_OFFLINE"):
                patch.delenv(name, raising=False)
            server.restart()
            yield server
        server.restart()


def test_model_of_the_hub(hub, tmp_path, caplog, monkeypatch):
    caplog.set_level("INFO", "bert_tf")
    model_files = checkpoints.resolve("hf://me/tiny")
    assert f"hf://me/tiny: revision {MAIN} in {model_files.folder}" in caplog.text
    assert model_files.revision == MAIN
    assert model_files.folder.startswith(str(tmp_path / "home"))
    assert not model_files.do_lower_case
    assert sorted(os.listdir(model_files.folder)) == [
        "config.json", "config_sentence_transformers.json", "model.safetensors", "tokenizer.json",
        "tokenizer_config.json", "vocab.txt",
    ]  # fmt: skip
    assert checkpoints.resolve("hf://me/tiny@v1").revision == OLD

    # Every option that names a model accepts it.
    config = bert_tf.configs.ModelConfig(init_checkpoint="hf://me/tiny")
    assert checkpoints.resolve(config).checkpoint == model_files.folder
    bert_tf.TextClassifier.from_preset("hf://me/tiny", labels=["x", "y"])
    assert bert_tf.FullTokenizer.from_preset("hf://me/tiny").tokenize("a b") == ["a", "b"]
    checkpoints.convert("hf://me/tiny", str(tmp_path / "release"), "release")
    assert bert_tf.BertModel.from_preset(str(tmp_path / "release")).config.vocab_size == len(WORDS)

    # Cached files work offline.
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    hub.restart()
    hub.requests.clear()
    assert checkpoints.resolve("hf://me/tiny").revision == MAIN
    assert not hub.requests
    with pytest.raises(bert_tf.UserError, match=r"^hf://gated/tiny: .*HF_HUB_OFFLINE"):
        checkpoints.resolve("hf://gated/tiny")


def test_names_without_hf(hub, tmp_path, monkeypatch):
    """Local files win; the hub's oldest models have no owner, also in the cache."""
    monkeypatch.chdir(tmp_path)
    for owner, name in (("me", "tiny"), ("google-bert", "bert-base-cased")):
        found = checkpoints.resolve(f"{owner}/{name}", needs=["init_checkpoint"])
        assert f"models--{owner}--{name}/snapshots/{MAIN}" in found.folder
    for name in ("bert-base-cased", "bert-base-cased@main"):
        assert checkpoints.resolve(name).folder == found.folder
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # no network
    hub.restart()
    assert checkpoints.resolve("bert-base-cased").folder == found.folder
    home = tmp_path / "home" / "hub"
    (home / "models--google-bert--bert-base-cased").rename(home / "models--bert-base-cased")
    for name in ("bert-base-cased", "google-bert/bert-base-cased", "hf://bert-base-cased"):
        folder = checkpoints.resolve(name).folder
        assert folder == str(home / "models--bert-base-cased" / "snapshots" / MAIN)
    for name in ("me/nothing", "bort-base-cased", "me/x/tiny", "x/uncased_L-12_H-768_A-12"):
        with pytest.raises(bert_tf.UserError, match=f"{name} is neither"):
            checkpoints.resolve(name)
    checkpoints.convert("me/tiny", "me/tiny", "release")
    assert checkpoints.resolve("me/tiny").folder == "me/tiny"


def test_token(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    assert checkpoints.resolve("hf://gated/tiny").revision == MAIN


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("me/nothing", "Repository Not Found"),
        ("me/tiny@v9", "Revision Not Found"),
        ("gated/tiny", "gated"),
        ("me/pickled", "no model.safetensors"),
        ("me/roberta", "'roberta'"),
        ("me/empty", "no config.json"),
        ("a/b/c", "namespace/repo_name"),
        ("no/network", "refused"),
    ],
)
def test_errors(hub, monkeypatch, name, value):
    if name == "no/network":
        monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
        hub.restart()
    with pytest.raises(bert_tf.UserError, match=rf"^hf://{name}: .*{value}") as caught:
        checkpoints.resolve(f"hf://{name}")
    assert "\n" not in str(caught.value)
    # Unusable and pickled weights are not downloaded.
    assert not [path for path in hub.requests if path.endswith((".bin", ".safetensors"))]


def test_without_the_client(monkeypatch):
    monkeypatch.setitem(importlib.sys.modules, "huggingface_hub", None)
    with pytest.raises(bert_tf.UserError, match=r"^hf://me/tiny requires .* '\.\[hub\]' in"):
        checkpoints.resolve("hf://me/tiny")
