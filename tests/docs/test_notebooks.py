"""The notebooks run from top to bottom without a network, and are saved with outputs."""

import ast
import functools
import os
import re

import pytest

import bert_tf
from bert_tf.toy_corpus import SAMPLE_TEXTS

nbformat = pytest.importorskip("nbformat")

# The number of images in each notebook.
NUM_IMAGES = {"bert_finetuning_with_cloud_tpus": 0, "bert_for_the_first_time": 5}

# Local paths, errors and log lines of TensorFlow, which must not be in saved outputs.
UNWANTED = re.compile(
    r"(?<![\w.])/(root|home|work|tmp|opt|usr|content)\b|Traceback|I0000|cpu_feature_guard|/dev/"
)


def read(root, name):
    return nbformat.read(root / "notebooks" / f"{name}.ipynb", as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def output_text(cell):
    """Return what a cell printed or returned as text."""
    outputs = cell.outputs
    return "".join(x.get("text", "") or x.get("data", {}).get("text/plain", "") for x in outputs)


def count_images(notebook):
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    return ["image/png" in output.get("data", {}) for output in outputs].count(True)


@pytest.mark.parametrize("name", NUM_IMAGES)
def test_saved_outputs(root, name):
    notebook = read(root, name)
    nbformat.validate(notebook)
    cells = code_cells(notebook)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    # The first cell only does something on Colab.
    assert not cells[0].outputs and any(cell.outputs for cell in cells)
    for cell in cells:
        assert not any(output.output_type == "error" for output in cell.outputs)
        match = UNWANTED.search(output_text(cell))
        assert not match, f"{match.group()} in the output of: {cell.source[:60]}"
    assert count_images(notebook) == NUM_IMAGES[name]
    assert (root / "notebooks" / f"{name}.ipynb").stat().st_size < 1_000_000


@pytest.mark.parametrize("name", NUM_IMAGES)
def test_names_exist(root, name, recwarn):
    """Each `bert_tf.x.y` of the code exists and is not deprecated."""
    modules, names = {"bert_tf"}, set()
    for cell in code_cells(read(root, name)):
        tree = ast.parse(re.sub(r"(?m)^( *)%(?:.*\\\n)*.*", r"\1pass", cell.source))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "bert_tf":
                modules |= {alias.name for alias in node.names}
            if isinstance(node, ast.Attribute):
                names.add(ast.unparse(node))
    names = {x.removeprefix("bert_tf.") for x in names if x.partition(".")[0] in modules}
    assert len(names) > 10
    for path in (x for x in names if re.fullmatch(r"[\w.]+", x)):
        functools.reduce(getattr, path.split("."), bert_tf)
    assert not [w for w in recwarn if w.category is FutureWarning]


@pytest.mark.slow
def test_run_without_network(root, tmp_path, monkeypatch):
    """Both notebooks run in one folder: the second uses the model that the first has created."""
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    for name in ("BERT_TF_MODEL", "BERT_TF_MRPC", "BERT_TF_SENTIMENT", "COLAB_RELEASE_TAG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BERT_TF_QUICK", "1")
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BERT_TF_MODELS_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)
    resources = {"metadata": {"path": str(tmp_path)}}
    for name, num_images in NUM_IMAGES.items():
        notebook = read(root, name)
        client.NotebookClient(
            notebook, timeout=600, kernel_name="python3", resources=resources
        ).execute()
        assert count_images(notebook) == num_images
        text = "".join(map(output_text, code_cells(notebook)))
        assert "http://127.0.0.1:9" in text and "bert_tf pre-trains a small model" in text
        assert "I0000" not in text
        assert re.search(r"eval_accuracy = [01]\.\d", text)
        assert all(sample in text for sample in SAMPLE_TEXTS)
    # The second notebook did not pre-train the model again.
    assert "$ python" in text and "quickstart.py" not in text
