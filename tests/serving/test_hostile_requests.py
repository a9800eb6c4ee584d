"""Requests made to exhaust a server's memory, and inconsistent requests."""

import json

import pytest
import tensorflow as tf

from bert_tf.serving.exporting import _checking_rows, string_specs
from tests.common import run_python

_SIZES = (40_000, 80_000, 160_000)

_PEAKS = """
import json, resource, sys
import tensorflow as tf
from tests.serving import serving_models
from bert_tf import configs

vocab_file, task, *sizes = sys.argv[1:]
servable = serving_models.make_servable(task, vocab_file, configs.ServingConfig())
serve = tf.function(servable.serve_text, input_signature=[servable.text_signature])

def peak(*texts):
    row = serving_models.rows_of(task, texts)
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
