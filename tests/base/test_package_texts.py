"""Texts of packages are read from docstrings and `raise` statements, and are reproducible."""

from examples import package_texts

SOURCE = '''
def public(x):
    """Return the square of a number. The second sentence is ignored."""
    if x is None:
        raise ValueError(f"x must be a number, but it is {x!r} here")
    raise TypeError("this message is in both of the two packages")


def _private():
    """Return what is not part of the public interface."""
    raise ValueError("too short")
'''


def test_texts_come_from_docstrings_and_errors(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "one_module.py").write_text(SOURCE)
    (tmp_path / "a_package").mkdir()
    (tmp_path / "a_package/__init__.py").touch()
    (tmp_path / "a_package/part.py").write_text(
        SOURCE.replace("square", "cube").replace("x must", "y must")
    )
    assert package_texts.messages_by_package(["one_module", "a_package"]) == {
        "one_module": ["x must be a number, but it is … here"],
        "a_package": ["y must be a number, but it is … here"],
    }
    monkeypatch.setattr(package_texts, "TOPICS", {"squares": "one_module", "cubes": "a_package"})
    assert package_texts.sentences_by_topic() == {
        "squares": ["Return the square of a number."],
        "cubes": ["Return the cube of a number."],
    }
