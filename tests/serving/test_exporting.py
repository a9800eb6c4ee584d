"""Files written by an export, simultaneous exports, and requests to exhaust memory."""

import json
import os
import pathlib

import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs, serving
from bert_tf.io import processes
from bert_tf.serving import exporting
from bert_tf.serving.exporting import _checking_rows, string_specs
from tests.common import digests, run_python
from tests.serving.serving_models import LENGTH, make_servable


@pytest.mark.parametrize("has_variable_width", [False, True])
def test_batching_parameters(has_variable_width, tmp_path):
    """TF Serving cannot concatenate outputs of different widths."""
    exporting._write_batching_parameters(str(tmp_path), has_variable_width)
    text = (tmp_path / "batching_parameters.txt").read_text()
    limit = 32 if has_variable_width else 1024
    assert f"max_batch_size {{ value: {limit} }}" in text
    assert ("enable_large_batch_splitting" in text) == (not has_variable_width)


@pytest.mark.slow
def test_files_of_ids_models(vocab_file, tmp_path, caplog):
    """The graph needs only TensorFlow, and existing batching parameters are kept."""
    serving_config = configs.ServingConfig("ids", (), "int8", warm_up=False)
    servable = make_servable("token_classification", vocab_file, serving_config)
    folder = serving.export(servable, str(tmp_path))
    metadata = json.loads(pathlib.Path(folder, "assets.extra", "model.json").read_text())
    assert metadata == {"task": "token_classification", "inputs": [], "max_seq_length": LENGTH,
                        "sequence_buckets": [], "weights": "int8", "do_lower_case": True,
                        "labels": ["O", "B-X", "I-X"]}  # fmt: skip
    graph = pathlib.Path(folder, "saved_model.pb").read_bytes()
    assert b"FastWordpiece" not in graph and b"FastBertNormalize" not in graph
    ids = tf.ones((2, LENGTH), "int32")
    ((name, signature),) = tf.saved_model.load(folder).signatures.items()
    assert name == "serving_default"
    with pytest.raises(tf.errors.InvalidArgumentError, match="same number of rows"):
        signature(input_ids=ids, input_mask=ids[:1], segment_ids=ids)
    # Existing batching parameters are kept.
    before = (tmp_path / "batching_parameters.txt").read_text()
    with caplog.at_level("INFO", "bert_tf"):
        servable = make_servable("sentence_embedding", vocab_file, serving_config)
        folder = serving.export(servable, str(tmp_path))
    assert f"{tmp_path}/batching_parameters.txt, which differs" in caplog.text
    assert (tmp_path / "batching_parameters.txt").read_text() == before
    assert os.path.basename(folder) == "2"
    assert os.path.basename(serving.export(servable, str(tmp_path), 7)) == "7"
    with pytest.raises(bert_tf.UserError, match=f"`version=7`: {tmp_path} "):
        serving.export(servable, str(tmp_path), version=7)


def test_model_card(vocab_file, tmp_path):
    """The card is made from model.json and run.json."""
    run, export_dir = tmp_path / "run", tmp_path / "moods"
    run.mkdir()
    record = {
        "command_lines": [None],
        "config": {},
        "versions": {"bert_tf": "0.2", "tensorflow": "2.21"},
        "weights": {"path": "/models/uncased_L-4_H-256_A-4/bert_model.ckpt", "revision": None},
        "data": {"/private/train.tsv": {"bytes": 1}, "dev.tsv": {"bytes": 2}},
        "metrics": {"dev": {"eval_accuracy": 0.91234, "global_step": 24}},
    }
    (run / "run.json").write_text(json.dumps(record))
    serving_config = configs.ServingConfig(warm_up=False)
    servable = make_servable("classification", vocab_file, serving_config)
    serving.export(servable, str(export_dir), run_dir=str(run))
    card = (export_dir / "README.md").read_text()
    sample = '{"instances": [{"text": "He slept.", "numbers": [0.0, 0.0]}]}'
    for text in (
        "\n# moods\n", "no, yes", "x, y", "| train.tsv, dev.tsv |", "_A-4/bert_model.ckpt |",
        "tensorflow 2.21 |", "| eval_accuracy (dev) | 0.9123 |", f"curl -d '{sample}' ",
    ):  # fmt: skip
        assert text in card, text


def test_exports_at_the_same_time_and_after_a_killed_one(vocab_file, tmp_path):
    serving_config = configs.ServingConfig("ids", warm_up=False)
    servable = make_servable("sentence_embedding", vocab_file, serving_config)
    (tmp_path / "4.tmp-12345" / "variables").mkdir(parents=True)
    (tmp_path / "batching_parameters.txt.tmp-12345").write_text("")
    (tmp_path / "README.md").write_text("mine\n")  # a model card of the user
    with processes.locked(str(tmp_path), "export_dir", "exports"), pytest.raises(
        bert_tf.UserError, match=r"`export_dir`: another process \(PID \d+\)"
    ):  # fmt: skip
        serving.export(servable, str(tmp_path))
    serving.export(servable, str(tmp_path))
    names = {x.name for x in tmp_path.iterdir()}
    assert names == {"1", "batching_parameters.txt", "README.md", ".lock"}
    assert (tmp_path / "README.md").read_text() == "mine\n"


_EXPORT = """
import sys
from bert_tf import configs, serving
from tests.serving.serving_models import make_servable
servable = make_servable("token_classification", sys.argv[1], configs.ServingConfig())
serving.export(servable, sys.argv[2])
"""


@pytest.mark.slow
def test_exports_of_a_model_are_equal(vocab_file, tmp_path):
    """All bytes are equal, except the random id that TensorFlow writes to fingerprint.pb."""
    found = []
    for name in "ab":
        run_python("-c", _EXPORT, vocab_file, tmp_path / name)
        found.append(digests(tmp_path / name / "1"))
        del found[-1]["fingerprint.pb"]
    assert len(found[0]) > 4
    assert found[0] == found[1]


_SIZES = (40_000, 80_000, 160_000)

_PEAKS = """
import json, resource, sys
import tensorflow as tf
from tests.serving import serving_models
from bert_tf import configs
from bert_tf.modeling import cpu_graph

vocab_file, task, *sizes = sys.argv[1:]
servable = serving_models.make_servable(task, vocab_file, configs.ServingConfig())
serve = tf.function(servable.serve_text, input_signature=[servable.text_signature])

def peak(*texts):
    row = serving_models.rows_of(task, texts)
    with cpu_graph.portable():
        serve({name: tf.constant([x[name] for x in row]) for name in row[0]})
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

first = peak("a b", "x" * 300)
sizes = map(int, sizes)
print(json.dumps([peak("x" * size, "a " * (size // 16), *["b"] * 20) - first for size in sizes]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", ["question_answering", "token_classification"])
def test_memory_grows_in_proportion_to_the_bytes(task, vocab_file, root):
    """The number of words times the longest word would be gigabytes."""
    printed = run_python("-c", _PEAKS, vocab_file, task, *_SIZES, PYTHONPATH=str(root))
    peaks = json.loads(printed.splitlines()[-1])
    print(dict(zip(_SIZES, peaks, strict=True)))
    for size, peak in zip(_SIZES, peaks, strict=True):
        assert peak < 30_000_000 + 1000 * size, peaks


@pytest.mark.parametrize("lengths", [(1, 3), (3, 1), (2, 3)])
def test_inputs_of_unequal_lengths(lengths):
    """TensorFlow would broadcast the only row of one input to all rows of the other."""
    specs = string_specs("text_a", "text_b")
    serve = tf.function(_checking_rows(dict), input_signature=[specs])
    a, b = (tf.constant(["x"] * length) for length in lengths)
    expected = rf"(?s)text_a, text_b: .*\[{lengths[0]} {lengths[1]}\]"
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
        serve({"text_a": a, "text_b": b})
    assert serve({"text_a": a, "text_b": a})["text_b"].shape == lengths[:1]
