"""Batches of the stand-in for TF Serving, by the parameters that a model is exported with."""

import threading

import numpy as np
import pytest
from serving_batches import Batcher, Refused, read_parameters

from bert_tf.serving import exporting


def test_batches_are_those_of_the_parameters(tmp_path):
    """Large requests in parts, a limit of rows, and a queue that is full."""
    exporting._write_batching(str(tmp_path), "classification")
    parameters = read_parameters(tmp_path / "batching_parameters.txt")
    assert parameters["max_batch_size"] == 1024 and parameters["max_execution_batch_size"] == 32
    ran, going, found = [], threading.Event(), []

    def run(columns):
        going.wait(10)
        ran.append(len(columns["x"]))
        return {"y": 2 * columns["x"]}

    batcher = Batcher(run, {**parameters, "max_enqueued_batches": 3, "num_batch_threads": 1})
    # More than three batches are never let in at once.
    with pytest.raises(Refused, match="queue is full"):
        batcher({"x": np.arange(97)})
    with pytest.raises(Refused, match="larger than maximum input batch size 1024"):
        batcher({"x": np.arange(1025)})
    large = threading.Thread(target=lambda: found.append(batcher({"x": np.arange(69)})))
    large.start()
    going.set()
    large.join(10)
    batcher.stop()
    np.testing.assert_array_equal(found[0]["y"], 2 * np.arange(69))
    assert ran == [32, 32, 5]

    sizes = tmp_path / "sizes.txt"
    sizes.write_text("max_batch_size { value: 8 }\nbatch_timeout_micros { value: 1 }\n"
                     "max_enqueued_batches { value: 9 }\nnum_batch_threads { value: 1 }\n"
                     "allowed_batch_sizes: 2\nallowed_batch_sizes: 8\n")  # fmt: skip
    batcher = Batcher(run, read_parameters(sizes))
    np.testing.assert_array_equal(batcher({"x": np.arange(3)})["y"], [0, 2, 4])
    batcher.stop()
    assert ran[-1] == 8 and list(batcher.batches) == [3]
    sizes.write_text(sizes.read_text().replace("8 }", "9 }"))
    with pytest.raises(ValueError, match="must rise to max_batch_size"):
        read_parameters(sizes)
