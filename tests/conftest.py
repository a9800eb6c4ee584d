"""What the tests share: where the release's own outputs and the real data lie, if they are here."""

import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared():
    """The folder that holds `golden/` and `data/`; the test is skipped where there is none.

    It is the environment variable BERT_TF_SHARED, else `shared` beside the repository.
    """
    folder = pathlib.Path(os.environ.get("BERT_TF_SHARED") or ROOT.parent / "shared")
    if not (folder / "golden").is_dir():
        pytest.skip(f"no golden files in {folder}: set BERT_TF_SHARED to the folder that has them")
    return folder


@pytest.fixture(scope="session")
def root():
    """The repository's root, where the scripts are."""
    return ROOT
