"""Downloads of published models, from a local folder."""

import hashlib
import io
import multiprocessing
import os
import pathlib
import signal
import zipfile

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.checkpoints import hub
from tests.common import TINY, WORDS, features, write_release

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
def published(monkeypatch, tmp_path):
    """A function that writes the published archive of a model, and returns its path."""
    monkeypatch.setenv("BERT_TF_MODELS_URL", f"file://{tmp_path}/models/")
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))

    def write(data, name=NAME):
        path = tmp_path / "models" / checkpoints.MODELS[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    return write


def visible(folder):
    """Return the names of the files in a folder, without lock files."""
    return sorted(name for name in os.listdir(folder) if not name.startswith("."))


@pytest.mark.parametrize("top", [f"{NAME}/", ""])
def test_downloads_once(published, tmp_path, top, caplog, capsys):
    caplog.set_level("INFO")
    path = published(archive(tmp_path, top))
    assert checkpoints.fetch(NAME) == str(tmp_path / "cache" / NAME / "bert_model.ckpt")
    path.unlink()
    model_files = checkpoints.resolve(NAME)
    assert model_files.do_lower_case
    assert model_files.checkpoint == checkpoints.fetch(NAME)
    assert model_files.config_file == str(tmp_path / "cache" / NAME / "bert_config.json")
    assert visible(tmp_path / "cache") == [NAME]
    assert visible(tmp_path / "cache" / NAME) == visible(tmp_path / "model")
    assert not (tmp_path / "cache" / "evil").exists()
    assert not capsys.readouterr().out
    model = bert_tf.BertModel.from_preset(NAME)
    assert "39 of 39 from" in caplog.text
    assert model.config == TINY
    classifier = bert_tf.BertClassifier.from_preset("bert_tiny_en_uncased", num_labels=3)
    assert classifier(features())["logits"].shape == (3, 3)
    assert {*hub._KERAS_HUB.values()} < hub.MODELS.keys()


def test_local_folder_with_a_published_name(published, tmp_path, monkeypatch, caplog):
    """The user has unzipped the archive by hand."""
    caplog.set_level("INFO", "bert_tf")
    monkeypatch.chdir(tmp_path)
    archive(tmp_path)
    with pytest.raises(bert_tf.UserError, match=f"`model`: .*{NAME}"):
        checkpoints.resolve(bert_tf.configs.ModelConfig(f"./{NAME}"))
    (tmp_path / "model").rename(NAME)
    for path in (NAME, f"./{NAME}"):
        for preset in (path, bert_tf.configs.ModelConfig(path)):
            model_files = checkpoints.resolve(preset, needs=["init_checkpoint", "vocab_file"])
            assert model_files.vocab_file == f"{path}/vocab.txt"
            assert model_files.do_lower_case
    assert f"using the local folder {NAME} instead of downloading the model" in caplog.text


@pytest.mark.parametrize(
    ("name", "cut", "without", "values"),
    [
        ("uncased_L-4", None, "", ["`name`: uncased_L-4 ", "uncased_L-4_H"]),
        ("uncased_L-4_H-128_A-2", None, "", ["`name`: uncased_L-4_H-128_A-2 ", "No such file"]),
        (NAME, 1000, "", [f"`name`: {NAME} ", "not a zip file"]),
        (NAME, None, "vocab.txt", [f"{NAME}.zip", "vocab.txt"]),
        (KNOWN, None, "", [f"{KNOWN}.zip", "bert_config.json", "expected 7b4e5f53"]),
        (NAME, None, "damage", [f"`name`: {NAME} ", "CRC"]),
    ],
    ids=["unknown", "not found", "cut off", "incomplete", "wrong digest", "damaged"],
)
def test_errors_leave_nothing(published, tmp_path, name, cut, without, values):
    data = archive(tmp_path, without=without)[:cut]
    if without == "damage":
        data = data.replace(b"[UNK]", b"[UNX]")
    for model in (NAME, KNOWN):
        published(data, model)
    with pytest.raises(bert_tf.UserError) as error:
        checkpoints.fetch(name)
    assert all(value in str(error.value) for value in values)
    assert not os.path.isdir(tmp_path / "cache") or not visible(tmp_path / "cache")


def test_without_a_network(tmp_path, monkeypatch):
    closed = "http://127.0.0.1:9"
    monkeypatch.setenv("BERT_TF_MODELS_URL", closed)
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path))
    with pytest.raises(bert_tf.UserError, match=rf"`name`: {NAME} .*{closed}.*refused.*{tmp_path}"):
        checkpoints.fetch(NAME)


def fetch_in_process(results):
    try:
        results.put(sorted(os.listdir(os.path.dirname(checkpoints.fetch(NAME)))))
    except Exception as error:
        results.put(repr(error))


def test_processes_share_a_download_and_one_is_killed(published, tmp_path):
    context = multiprocessing.get_context("fork")
    results = context.SimpleQueue()

    def start():
        process = context.Process(target=fetch_in_process, args=(results,))
        process.start()
        return process

    path = published(b"")
    path.unlink()
    os.mkfifo(path)
    killed = start()
    writer = os.open(path, os.O_WRONLY)  # returns when the download reads, which then waits
    assert visible(tmp_path / "cache") == [f"{NAME}.tmp-{killed.pid}"]
    path.unlink()
    published(archive(tmp_path))
    others = [start() for _ in range(3)]
    os.kill(killed.pid, signal.SIGKILL)
    killed.join()
    os.close(writer)
    assert [results.get() for _ in others] == [visible(tmp_path / "model")] * 3
    assert visible(tmp_path / "cache") == [NAME]


def test_known_digests_are_of_published_models(published_vocab):
    known = {name: hub._known_digests(name) for name in checkpoints.MODELS}
    assert sum(map(bool, known.values())) == 7
    vocabulary = pathlib.Path(published_vocab).read_bytes()
    assert hashlib.sha256(vocabulary).hexdigest() == known[KNOWN]["vocab.txt"]
