"""Conventions: lint, format, types and import layers."""

import ast

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
    ("tokenization/wordpiece.py", "checkpoints"): "from_preset",
}
LAYER_OF = {name: number for number, names in enumerate(LAYERS) for name in names}


@pytest.mark.parametrize("command", ["ruff check", "ruff format --check", "mypy"])
def test_tools_have_no_complaints(root, command):
    module, *arguments = command.split()
    pytest.importorskip(module)
    done = python_process("-m", module, *arguments, cwd=root)
    assert done.returncode == 0, done.stdout + done.stderr


def test_layers_import_downwards_only(root):
    wrong, exceptions = [], set()
    for file in (root / "bert_tf").rglob("*.py"):
        path, tree = file.relative_to(root / "bert_tf"), ast.parse(file.read_text(encoding="utf-8"))
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
