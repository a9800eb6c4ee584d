"""Labeled texts from the installed Python packages: real text that requires no network.

The labels come from the names of the packages. Nobody checked them, so some are debatable.
"""

import ast
import collections
import importlib.util
import pathlib
import random
import re

# Packages and modules by topic.
TOPICS = {
    "statistics": "scipy.stats numpy.random sklearn.metrics sklearn.covariance statistics random",
    "linear algebra": "scipy.linalg scipy.sparse.linalg numpy.linalg sklearn.decomposition "
    "tensorflow.python.ops.linalg",
    "charts": "matplotlib",
    "files": "shutil pathlib zipfile tarfile tempfile glob gzip bz2 lzma filecmp fileinput "
    "fsspec h5py",
    "network": "http.client http.server http.cookiejar urllib.request socket socketserver ftplib "
    "smtplib imaplib poplib asyncio ssl requests urllib3",
}

_SKIPPED = re.compile(r"test|_lib/|_vendor|externals|compat")


def sentences_by_topic():
    """Return a dict from each of the `TOPICS` to first sentences of docstrings, shuffled."""
    return _read(TOPICS, _first_sentences)


def messages_by_package(packages):
    """Return a dict from each package to messages of the errors that it raises, shuffled."""
    return _read({package: package for package in packages}, _error_messages)


def _read(modules_by_label, extract):
    """Return the texts of each label, without the texts that occur under several labels."""
    texts = {
        label: {text.lower(): text for tree in _parse(modules.split()) for text in extract(tree)}
        for label, modules in modules_by_label.items()
    }
    counts = collections.Counter(key for by_key in texts.values() for key in by_key)
    result = {}
    for label, by_key in texts.items():
        result[label] = sorted(text for key, text in by_key.items() if counts[key] == 1)
        random.Random(0).shuffle(result[label])
    return result


def _parse(modules):
    """Yield the syntax trees of all files of modules and packages."""
    for module in modules:
        path = pathlib.Path(importlib.util.find_spec(module).origin)
        files = path.parent.rglob("*.py") if path.name == "__init__.py" else [path]
        for file in sorted(files):
            if not _SKIPPED.search(file.relative_to(path.parent).as_posix()):
                yield ast.parse(file.read_text("utf-8"))


def _first_sentences(tree):
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.name[0] != "_":
            paragraph = " ".join((ast.get_docstring(node) or "").split("\n\n")[0].split())
            sentence = re.split(r"(?<=[.!?]) (?=[A-Z])", paragraph)[0]
            if len(sentence.split()) >= 5 and len(sentence) <= 150 and sentence.endswith("."):
                yield sentence


def _error_messages(tree):
    """Yield the messages in `raise Error("...")` and `raise Error(f"...")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            message = node.exc.args[0]
            parts = message.values if isinstance(message, ast.JoinedStr) else [message]
            text = "".join(_constant(part) for part in parts)
            text = " ".join(text.split())
            if 7 <= len(text.split()) <= 40:
                yield text


def _constant(node):
    return str(node.value) if isinstance(node, ast.Constant) else "…"
