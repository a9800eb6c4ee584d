"""docs/api documents the public classes, under names that can be imported."""

import functools
import importlib
import re

import pytest

import bert_tf

_ENTRY = re.compile(r"^::: (\S+)((?:\n +.*)*)", re.MULTILINE)
_ROW = re.compile(r"^\| \[`([\w.]+)`\]\(#([\w.]+)\) \| .", re.MULTILINE)


@pytest.fixture(scope="module")
def pages(root):
    return {path.name: path.read_text("utf-8") for path in sorted((root / "docs/api").glob("*.md"))}


def entries(page):
    """Yield (path of the definition, public name) of each entry of a page."""
    for path, options in _ENTRY.findall(page):
        heading = re.search(r"heading: (\S+)", options)
        yield path, heading[1] if heading else path


def find(name):
    """Return the object with a dotted name."""
    parts = name.split(".")
    for size in range(len(parts) - 1, 0, -1):
        try:
            module = importlib.import_module(".".join(parts[:size]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[size:], module)
    raise AssertionError(name)


def test_names_can_be_imported(pages):
    for name, page in pages.items():
        for path, public in entries(page):
            assert find(public) is find(path), f"{name}: {public}"
            assert find(path).__doc__, f"{name}: {public}"


def test_classes_of_the_package_are_documented(pages):
    documented = {public for page in pages.values() for _, public in entries(page)}
    assert {f"bert_tf.{name}" for name in bert_tf._NAMES} <= documented


def test_tables_list_the_entries(pages):
    del pages["index.md"]
    for name, page in pages.items():
        expected = [(public.removeprefix("bert_tf."), path) for path, public in entries(page)]
        assert _ROW.findall(page) == expected, name
