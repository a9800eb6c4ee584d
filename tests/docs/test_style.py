"""Conventions: lint, format, types, import layers, and where flags are used."""

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


def test_heavy_libraries_are_imported_on_use(modules):
    heavy = {"scipy", "sklearn", "tensorflow_datasets", "matplotlib", "apache_beam"}
    for path, tree in modules.items():
        for name in imported_modules(tree.body):
            assert name.split(".")[0] not in heavy, f"bert_tf/{path}: import {name}"


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


def test_only_the_command_line_uses_flags(modules):
    for path, tree in modules.items():
        if path.parts[0] in ("cli", "__main__.py"):
            continue
        names = imported_modules(ast.walk(tree))
        assert not {"absl.flags", "absl.app", "bert_tf.cli.flags"} & set(names), f"bert_tf/{path}"


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


def imported_modules(nodes):
    """Yield the dotted name of each import among syntax nodes, "package.name" for a `from`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def used_packages(node):
    """Yield the packages of bert_tf that a syntax node imports, or reads as `bert_tf.NAME`."""
    names = [name.split(".") for name in imported_modules([node])]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        names.append([node.value.id, node.attr])
    yield from (
        name[1] for name in names if name[0] == "bert_tf" and name[1:2] and name[1] in LAYER_OF
    )
