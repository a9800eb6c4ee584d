"""The notebooks run from top to bottom without a network, and are saved as they ran."""

import os
import re

import pytest

from bert_tf.toy_corpus import SAMPLE_TEXTS

nbformat = pytest.importorskip("nbformat")

# How many pictures each shows.
PICTURES = {"bert_finetuning_with_cloud_tpus": 0, "bert_for_the_first_time": 5}

# Paths of a machine, an error, and what TensorFlow tells of its own work.
UNWANTED = re.compile(
    r"(?<![\w.])/(root|home|work|tmp|opt|usr|content)\b|Traceback|I0000|cpu_feature_guard|/dev/"
)


def read(root, name):
    return nbformat.read(root / "notebooks" / f"{name}.ipynb", as_version=4)


def code_of(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def text_of(cell):
    """What a cell printed and showed as text."""
    outputs = cell.outputs
    return "".join(x.get("text", "") or x.get("data", {}).get("text/plain", "") for x in outputs)


def pictures(notebook):
    outputs = [output for cell in code_of(notebook) for output in cell.outputs]
    return ["image/png" in output.get("data", {}) for output in outputs].count(True)


@pytest.mark.parametrize("name", PICTURES)
def test_saved_as_run(root, name):
    notebook = read(root, name)
    nbformat.validate(notebook)
    cells = code_of(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    # The first cell does something on Colab only.
    assert not cells[0].outputs and any(cell.outputs for cell in cells)
    for cell in cells:
        assert not any(output.output_type == "error" for output in cell.outputs)
        found = UNWANTED.search(text_of(cell))
        assert not found, f"{found.group()} in the output of: {cell.source[:60]}"
    assert pictures(notebook) == PICTURES[name]
    assert (root / "notebooks" / f"{name}.ipynb").stat().st_size < 1_000_000


@pytest.mark.slow
def test_run_without_a_network(root, tmp_path, monkeypatch):
    """One after the other, in one folder: the second finds the model that the first has made."""
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    for name in ("BERT_TF_MODEL", "BERT_TF_MRPC", "BERT_TF_SENTIMENT", "COLAB_RELEASE_TAG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERT_TF_QUICK", "1")
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BERT_TF_MODELS_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)
    where = {"metadata": {"path": str(tmp_path)}}
    for name, count in PICTURES.items():
        notebook = read(root, name)
        client.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources=where
        ).execute()
        assert pictures(notebook) == count
        said = "".join(map(text_of, code_of(notebook)))
        assert "cannot be reached" in said and "bert_tf makes model and texts by itself" in said
        assert "I0000" not in said
        assert re.search(r"eval_accuracy = [01]\.\d", said)
        assert all(text in said for text in SAMPLE_TEXTS)
    # Made once.
    assert "$ python" in said and "quickstart.py" not in said
