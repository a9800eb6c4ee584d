"""`pip install .` installs the library, its data, the scripts and `bert-tf`."""

import email
import os
import pathlib
import re
import shutil
import zipfile

import pytest

from tests.common import python_process, run_python

# The scripts of the 2018 release, and bert_tf's three more tasks and export.
SCRIPTS = {
    "create_pretraining_data.py", "run_pretraining.py", "run_classifier.py", "run_squad.py",
    "run_ner.py", "run_multiple_choice.py", "run_sentence_encoder.py", "extract_features.py",
    "export_model.py",
}  # fmt: skip

# Versions in a Colab runtime, from its published list of August 2026. A TPU runtime has the same
# versions, without TensorFlow and TensorBoard.
COLAB = {
    "absl-py": "1.4.0", "filelock": "3.32.3", "google-crc32c": "1.8.0", "keras": "3.13.2",
    "numpy": "2.1.3", "safetensors": "0.8.0", "scikit-learn": "1.6.1",
    "scipy": "1.16.3", "tensorboard": "2.20.0", "tensorflow": "2.20.0",
    "tensorflow-datasets": "4.9.10", "tensorflow-text": "2.20.1", "tokenizers": "0.22.2",
    "tqdm": "4.67.3",
}  # fmt: skip


@pytest.fixture(scope="module")
def wheel(root, tmp_path_factory):
    """The path of a wheel, built from a temporary copy of the sources."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("wheel")
    unneeded = shutil.ignore_patterns(".*", "build", "dist", "*.egg-info", "__pycache__", "tests",
                                      "docs", "site", "benchmarks", "*_output")  # fmt: skip
    shutil.copytree(root, folder / "source", ignore=unneeded)
    build = f"from setuptools import build_meta; build_meta.build_wheel({str(folder)!r})"
    run_python("-c", build, cwd=folder / "source")
    shutil.rmtree(folder / "source")
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def metadata(wheel):
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        return email.message_from_bytes(archive.read(name))


def test_contents(root, wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
        assert archive.read(entry_points).decode().split() == [
            "[console_scripts]", "bert-tf", "=", "bert_tf.__main__:main"
        ]  # fmt: skip
    library = (path.relative_to(root) for path in (root / "bert_tf").rglob("*"))
    expected = {x.as_posix() for x in library if x.suffix and x.parent.name != "__pycache__"}
    assert {name for name in names if name.startswith("bert_tf/")} == expected
    scripts = {pathlib.PurePath(name).name for name in names if ".data/scripts/" in name}
    assert scripts == SCRIPTS
    assert {path.name for path in root.glob("*.py")} - SCRIPTS == {
        "setup.py", "predict.py", "quickstart.py"
    }  # fmt: skip


def test_metadata_for_an_index(root, metadata):
    """The description has no links that work only in the repository."""
    description = metadata.get_payload()
    links = re.findall(r"\]\(([^)]*)\)|src=\"([^\"]*)", description)
    targets = [target for pair in links for target in pair if target]
    assert targets and all(target.startswith("https://") for target in targets), targets
    assert description.count("```") == (root / "README.md").read_text("utf-8").count("```")


def test_no_package_of_a_runtime_is_replaced(metadata):
    """TensorFlow is an extra, and Colab's versions satisfy every bound."""
    requirements = pytest.importorskip("packaging.requirements")
    needed = {"": set(), "tensorflow": set()}
    for text in metadata.get_all("Requires-Dist"):
        requirement = requirements.Requirement(text)
        for extra, names in needed.items():
            if not requirement.marker or requirement.marker.evaluate(
                {"extra": extra, "python_version": "3.13"}
            ):
                names.add(requirement.name)
                version = COLAB.get(requirement.name)  # None if pip installs it on Colab
                assert version is None or requirement.specifier.contains(version), text
    assert needed["tensorflow"] - needed[""] == {"tensorflow", "tensorboard", "tensorflow-text"}
    assert needed[""] - set(COLAB) == {"importlib_resources", "lazy-loader"}


def test_import_without_tensorflow(root, tmp_path):
    (tmp_path / "lazy_loader.py").touch()
    path = f"{root}{os.pathsep}{tmp_path}"
    done = python_process("-S", "-c", "import bert_tf", PYTHONPATH=path)
    assert done.returncode and done.stderr.splitlines()[-1].startswith(
        "ImportError: bert_tf requires TensorFlow, which is not installed: pip install "
    )
