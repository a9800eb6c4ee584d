"""The linter and the formatter agree with every file."""

import inspect
import subprocess
import sys

import pytest

import bert_tf


@pytest.mark.parametrize("command", [("check",), ("format", "--check")])
def test_ruff(root, command):
    pytest.importorskip("ruff")
    done = subprocess.run(
        [sys.executable, "-m", "ruff", *command, str(root)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_heavy_libraries_are_imported_when_they_are_used(root):
    for path in sorted((root / "bert_tf").rglob("*.py")):
        for line in path.read_text().splitlines():
            words = line.split()[:2]
            if line.startswith(("import ", "from ")):
                name = words[1].split(".")[0]
                assert name not in (
                    "scipy",
                    "sklearn",
                    "tensorflow_datasets",
                    "matplotlib",
                    "apache_beam",
                ), f"{path}: {line}"


def test_no_room_imports_from_a_floor_above(root):
    floors = [
        ("config", "errors", "files", "console", "processes", "commands"),
        ("modeling", "tokenization"),
        ("data", "checkpoints", "optimization"),
        ("tasks",),
        ("serving", "training", "features"),
        ("flags", "data_flags", "line_flags", "tuning_flags", "vector_flags", "embedded"),
    ]
    floor_of = {room: floor for floor, rooms in enumerate(floors) for room in rooms}
    # The one shortcut upwards, which its comment owns up to.
    allowed = {("modeling", "checkpoints")}
    for path in sorted((root / "bert_tf").rglob("*.py")):
        room = path.relative_to(root / "bert_tf").parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        for line in path.read_text().splitlines():
            words = line.split("#")[0].split()
            if words[:2] == ["from", "bert_tf"]:
                imported = [word.strip("(),") for word in words[3:]]
            elif words[:1] == ["from"] and words[1].startswith("bert_tf."):
                imported = [words[1].split(".")[1]]
            else:
                continue
            for other in imported:
                if other in floor_of and (room, other) not in allowed:
                    assert floor_of[other] <= floor_of[room], f"{path}: {line.strip()}"


def test_types(root):
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy"], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_programs_call_has_type_hints():
    names = [name for name in bert_tf._NAMES if name != "UserError"]
    called = {f"{name}.__init__": getattr(bert_tf, name).__init__ for name in names}
    for name in ("from_json_file", "from_dict", "to_json_string"):
        called[name] = getattr(bert_tf.BertConfig, name)
    for name in ("tokenize", "encode", "encode_batch", "encode_with_offsets"):
        called[name] = getattr(bert_tf.FullTokenizer, name)
    for name in ("convert", "fetch", "find", "warm_start", "write"):
        called[name] = getattr(bert_tf.checkpoints, name)
    called |= {"predict": bert_tf.FillMask.predict, "encode_": bert_tf.SentenceEncoder.encode}
    for name, function in called.items():
        for parameter in list(inspect.signature(function).parameters.values()):
            hinted = parameter.annotation is not inspect.Parameter.empty
            assert hinted or parameter.name in ("self", "cls"), f"{name}: {parameter.name}"
