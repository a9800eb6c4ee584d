"""quickstart.py: its results, the folder that it deletes, and its errors."""

import hashlib
import os
import re
import sys
import types

import pytest

from bert_tf.errors import UserError
from examples import toy_corpus
from tests import scripts_alone
from tests.common import run_python


@pytest.fixture
def quickstart(root, monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("quickstart.py"):
        module = sys.modules["quickstart"]
        monkeypatch.setattr(module, "FLAGS", types.SimpleNamespace(output_dir=str(tmp_path)))
        yield module


@pytest.mark.slow
def test_whole_path_with_two_steps(root, tmp_path):
    folder = tmp_path / "out"
    run_python("quickstart.py", f"--output_dir={folder}", "--num_train_steps=2", cwd=root)
    # Like a server, this process does not import bert_tf.
    code = """import sys, tensorflow as tf; x = tf.ones((1, 3), tf.int32)
tf.saved_model.load(sys.argv[1]).signatures["serving_default"](
    input_ids=x, input_mask=x, segment_ids=x); assert "bert_tf" not in sys.modules"""
    run_python("-I", "-c", code, folder / "export" / "1")
    table = (folder / "results.txt").read_text()
    assert len(re.findall(r"\d %", table)) == 6 + len(toy_corpus.SAMPLE_TEXTS)
    assert all(text in table for text in toy_corpus.SAMPLE_TEXTS)


def test_deletes_only_its_own_folder(root, quickstart, tmp_path):
    other, own = tmp_path / "other", tmp_path / "out"
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    quickstart.make_output_folder(str(own))
    (own / "text").mkdir()
    (own / "text" / "old.txt").write_text("old")
    quickstart.make_output_folder(str(own))
    assert os.listdir(own) == ["made_by_quickstart.txt"]
    for path in (other, other / "thesis.txt", other / "thesis.txt" / "new"):
        with pytest.raises(UserError, match="other"):
            quickstart.make_output_folder(str(path))
    assert (other / "thesis.txt").read_text() == "years of work"


def test_text_has_the_same_bytes_on_every_version_of_python():
    texts, small = toy_corpus.make(), {"corpus": 1, "train": 1, "dev": 1, "test": 1}
    digest = hashlib.sha256("".join(texts[name] for name in sorted(texts)).encode()).hexdigest()
    assert digest[:16] == "a68697d07495a90f"
    assert toy_corpus.make(**small)["heldout"] == texts["heldout"]
    assert toy_corpus.make(seed=1, **small)["heldout"] != texts["heldout"]
