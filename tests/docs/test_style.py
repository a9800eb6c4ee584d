"""Conventions: lint, format, types, import layers, and names of arguments in messages."""

import ast
import re

import pytest

from tests.common import python_process

# A module imports from its own and earlier layers.
LAYERS = [
    ("errors", "keras_registry"), ("console", "commands"), ("io",), ("tokenization",),
    ("configs",), ("modeling",), ("data",), ("checkpoints",), ("optimization",), ("training",),
    ("serving",), ("tasks",), ("device_check",), ("cli", "__main__"),
]  # fmt: skip
# Imports inside functions that need a later layer.
EXCEPTIONS = {
    ("modeling/base.py", "checkpoints"): "from_preset, save_to_preset",
    ("serving/predictor.py", "tasks"): "the answers of registered tasks",
    ("tokenization/wordpiece.py", "checkpoints"): "from_preset",
}
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}


@pytest.fixture(scope="module")
def modules(root):
    """Dict from module path, relative to the package, to syntax tree."""
    package = root / "bert_tf"
    return {
        path.relative_to(package): ast.parse(path.read_text(encoding="utf-8"), str(path))
        for path in sorted(package.rglob("*.py"))
    }


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_tools_have_no_complaints(root, command):
    module, *arguments = command.split()
    pytest.importorskip(module)
    done = python_process("-m", module, *arguments, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr


def test_layers_import_downwards_only(modules):
    wrong, exceptions = [], set()
    for path, tree in modules.items():
        package = path.parts[0].removesuffix(".py")
        if package == "__init__":
            continue
        functions = [x for x in ast.walk(tree) if isinstance(x, ast.FunctionDef)]
        in_functions = {node for function in functions for node in ast.walk(function)}
        for node in ast.walk(tree):
            for other in used_packages(node):
                if LAYER_OF[other] <= LAYER_OF[package]:
                    continue
                if (path.as_posix(), other) in EXCEPTIONS and node in in_functions:
                    exceptions.add((path.as_posix(), other))
                else:
                    wrong.append(f"bert_tf/{path}, line {node.lineno}: bert_tf.{other}")
    assert not wrong, "\n".join(wrong)
    assert exceptions == EXCEPTIONS.keys()


def test_the_library_names_arguments_not_flags(modules):
    """Messages of the library name `argument`; scripts print it as --argument."""
    wrong = []
    for path, tree in modules.items():
        if path.parts[0] in ("cli", "__main__.py"):
            continue
        docstrings = {id(x.value) for x in ast.walk(tree) if isinstance(x, ast.Expr)}
        for node in ast.walk(tree):
            if not isinstance(node, ast.Constant) or id(node) in docstrings:
                continue
            if isinstance(node.value, str) and re.search(r"(?<![\w-])--[a-z]\w+", node.value):
                wrong.append(f"bert_tf/{path}, line {node.lineno}: {node.value!r}")
    assert not wrong, "\n".join(wrong)


def used_packages(node):
    """Yield the packages of bert_tf that a syntax node imports, or reads as `bert_tf.NAME`."""
    names = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom):
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        names = [f"{node.value.id}.{node.attr}"]
    for name in names:
        root, *packages = name.split(".")
        if root == "bert_tf" and packages and packages[0] in LAYER_OF:
            yield packages[0]
