"""The benchmarks import existing names, and their shared code works."""

import ast
import importlib
import re
import sys
import types
import warnings

import pytest
from absl.testing import flagsaver

import bert_tf


def test_names_exist(root):
    """Names imported from bert_tf, often inside functions, exist and are not deprecated."""
    paths = sorted((root / "benchmarks").glob("*.py"))
    assert len(paths) > 20
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        for path in paths:
            check_names(ast.parse(path.read_text(encoding="utf-8")), path.name)


def check_names(tree, name):
    """Resolve the imports from bert_tf and the attributes of its modules in a syntax tree."""
    imported = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(x.name == "bert_tf" for x in node.names):
            imported["bert_tf"] = bert_tf
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "bert_tf":
            module = importlib.import_module(node.module)
            for x in node.names:
                if not hasattr(module, x.name):
                    importlib.import_module(f"{node.module}.{x.name}")
                imported[x.asname or x.name] = getattr(module, x.name)
    for node in ast.walk(tree):
        path = ast.unparse(node) if isinstance(node, ast.Attribute) else ""
        if not re.fullmatch(r"\w+(\.\w+)+", path):
            continue
        first, *names = path.split(".")
        value = imported.get(first)
        for x in names:
            if isinstance(value, types.ModuleType):
                assert hasattr(value, x), f"{name}, line {node.lineno}: {path}"
                value = getattr(value, x)


@pytest.fixture
def peer_training(root, monkeypatch):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    import peer_training

    return peer_training


def test_saved_results_are_reused_with_the_same_flags_only(
    peer_training, tmp_path, monkeypatch, capsys
):
    # absl finds the flags of a script by the module name in sys.argv[0].
    monkeypatch.setattr(sys, "argv", [__name__])
    trained_seeds = []

    def run(seed):
        trained_seeds.append(seed)
        return {"eval_f1": seed / 10}

    before = set(bert_tf.cli.flags.FLAGS)
    peer_training.define_flags(num_seeds=2)
    try:
        required = ["--data_dir=a", "--model_dir=b", f"--output_dir={tmp_path}"]

        def compare(seeds, *flags):
            with flagsaver.flagsaver():
                bert_tf.cli.flags.FLAGS([__name__, *required, *flags])
                peer_training.compare(run, run, range(seeds))

        compare(1)
        assert trained_seeds == [0, 0]
        compare(3, "--libraries=bert_tf")
        assert trained_seeds == [0, 0, 1, 2]
        assert "mean 0.1000" in capsys.readouterr().out.split("bert_tf ")[-2]
        with pytest.raises(bert_tf.UserError, match=r"bert_tf\.json has results .*batch_size"):
            compare(3, "--batch_size=4")
    finally:
        for name in set(bert_tf.cli.flags.FLAGS) - before:
            delattr(bert_tf.cli.flags.FLAGS, name)
    assert trained_seeds == [0, 0, 1, 2]


@pytest.mark.slow  # test_pretraining_shards.py counts the calls
def test_shard_startup_starts_each_program(root, monkeypatch, run_script, capsys):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    flags = ["--shards=40", "--records=5", "--texts=3", "--milliseconds=1"]
    run_script("shard_startup", *flags)
    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()[1:]]
    calls = {name: int(count) for name, count, *_ in rows}
    assert len(calls) == len(rows) == 10
    assert 40 < calls["create, finished"] < calls["create, without counts"]
    for name in ("one missing", "half missing", "one missing, Beam", "half missing, Beam"):
        assert calls[f"create, {name}"] < 80
    assert calls["train, host 1 of 8, 8 streams"] < calls["train, host 1 of 8"]


@pytest.mark.slow  # test_input_pipeline.py counts the files that a resumed run opens
def test_startup_reads_counts_files_and_bytes(root, monkeypatch, run_script, capsys):
    monkeypatch.syspath_prepend(str(root / "benchmarks"))
    flags = ["--shards=30", "--records=5", "--max_seq_length=64", "--batch_size=8"]
    run_script("startup_reads", *flags)
    rows = [re.split(r"  +", line.strip()) for line in capsys.readouterr().out.splitlines()[1:]]
    opened = {name: int(opens) for name, _, opens, *_ in rows}
    assert len(opened) == 5
    # The first records of 20 files, and all 30 files as one block.
    # The side file, and files of the next epoch that are read ahead.
    for name in opened.keys() - {"the same, without counts"}:
        assert 50 <= opened[name] <= 81
    assert opened["the same, without counts"] >= 79
