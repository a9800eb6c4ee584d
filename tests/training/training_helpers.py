"""An artificial pre-training objective, and its runs in this and other processes."""

import itertools
import json
import os
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import tensorflow as tf

from bert_tf import configs, optimization, training
from bert_tf.data import input_pipeline
from bert_tf.training.pretraining import PretrainingObjective
from tests.common import read_tensors, tiny


class Batches:
    """Endless pre-training batches; the masked word is the left neighbour plus one."""

    batch_size, length, seed = 4, 8, 0
    fingerprint = (1, 100, 2**62)  # pretends to be a file of 100 bytes
    bucket_by_length = False
    masking = None
    num_input_streams = 1

    def make(self, step):
        rng = np.random.default_rng(step)
        ids = rng.integers(5, 13, (self.batch_size, self.length)).astype("int32")
        ids[:, 2] = ids[:, 1] + 1
        labels = ids[:, 2:3].copy()
        ids[:, 2] = 4
        weights = np.ones((self.batch_size, 1), "float32")
        weights[0] = step % 2  # different on each replica
        return {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
            "masked_lm_positions": np.full((self.batch_size, 1), 2, "int32"),
            "masked_lm_ids": labels.astype("int32"),
            "masked_lm_weights": weights,
            "next_sentence_labels": (ids[:, :1] % 2).astype("int32"),
        }

    def batches(self, first_step=0, context=None):
        def generate():
            for step in itertools.count(first_step):
                yield self.make(step)

        spec = tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), self.make(0))
        dataset = tf.data.Dataset.from_generator(generate, output_signature=spec)
        batches = input_pipeline.shard_batches(dataset, self.batch_size, context)
        return batches.apply(tf.data.experimental.assert_cardinality(-1))  # infinite

    def load_counts(self, cache):
        pass


class SomeBatches(Batches):
    """Twenty batches for evaluation."""

    fingerprint = "twenty batches"

    def batches(self, context=None):
        def mark(batch):
            return {**batch, "is_real_example": tf.ones_like(batch["next_sentence_labels"][:, 0])}

        count = 20 * (context.num_replicas_in_sync if context else 1)
        count //= context.num_input_pipelines if context else 1
        return super().batches(1000, context).take(count).map(mark)


def config(dropout=0.0, num_hidden_layers=1):
    """Return a small `BertConfig`, by default with one layer, which is quick to trace.

    Its width is not tiny, so that updates and GELU are compiled as for real models: four kernels
    have at least `optimizers.COMPILED_SIZE` elements and the same shape.
    """
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    sizes = {"hidden_size": 128, "intermediate_size": 1024}
    return tiny(**rates, **sizes, num_hidden_layers=num_hidden_layers)


def one_device():
    """Return a strategy with one CPU device."""
    return training.make_strategy(configs.DeviceConfig(distribution_strategy="one_device"))


def mirrored(count):
    """Return a strategy with several logical CPU devices."""
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert len(devices) >= count, "conftest.py makes logical devices"
    return tf.distribute.MirroredStrategy(
        devices[:count], cross_device_ops=tf.distribute.ReductionToOneDevice()
    )


def make_engine(strategy=None):
    """Return an engine for a strategy, by default one device; on JAX for all devices."""
    if keras.backend.backend() == "jax":
        return training.Engine.make()
    return training.TensorFlowEngine(strategy or one_device())


def make_loop(output_dir, objective_class=PretrainingObjective, dropout=0.0):
    """Return a `Loop` of a small model on one device."""
    return training.Loop(lambda: objective_class(config(dropout)), make_engine(), str(output_dir))


def make_adam(loop, rate=1e-3):
    """Return an optimizer for a `Loop`."""
    with loop.engine.scope():
        return optimization.AdamWeightDecay(rate)


def run(
    output_dir, steps, strategy=None, dropout=0.0, total=None, init=None, rate=1e-3, save=1000,
    data=None, dtype=None, optimizer=optimization.AdamWeightDecay, **options,
):  # fmt: skip
    """Pre-train up to a step; return the `Loop`.

    Args:
      output_dir: folder of the run.
      steps: the step to stop at.
      strategy: a `tf.distribute.Strategy`, one device if None.
      dropout: both dropout rates.
      total: the step where the learning rate reaches 0, `steps` if None.
      init: initial checkpoint.
      rate: the peak learning rate.
      save: `save_checkpoints_steps`.
      data: the training data, `Batches` if None.
      dtype: a Keras dtype policy.
      optimizer: the optimizer's class.
      **options: other fields of the `TrainConfig`.
    """
    loop = training.Loop(
        lambda: PretrainingObjective(config(dropout), dtype),
        make_engine(strategy),
        str(output_dir),
        init,
    )
    schedule = optimization.LinearWarmupDecay(rate, total or steps)
    train_config = configs.TrainConfig(save_checkpoints_steps=save, **options)
    with loop.engine.scope():
        optimizer = optimizer(schedule)
    loop.train(data or Batches(), optimizer, steps, train_config, SomeBatches())
    return loop


def tensors(output_dir):
    """Return the tensors of a run's newest checkpoint by name."""
    return read_tensors(training.latest(str(output_dir)))


def assert_same(a, b, atol=0.0):
    """Assert that the newest checkpoints of two runs are equal within `atol`."""
    a, b = tensors(a), tensors(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_allclose(a[name], b[name], atol=atol, rtol=0, err_msg=name)


def curves(output_dir):
    """Return the TensorBoard scalars of a run as a dict from (name, step) to value."""
    return {
        (value.tag, event.step): float(tf.make_ndarray(value.tensor))
        for path in output_dir.glob("events.out.tfevents*")
        for event in tf.compat.v1.train.summary_iterator(str(path))
        for value in event.summary.value
    }


def start(folder, options, logs=None):
    """Start train_alone.py; it writes its output to `log` in `logs` or in the folder."""
    script = os.path.join(os.path.dirname(__file__), "train_alone.py")
    return start_python(logs or folder, script, folder, json.dumps(options))


def start_python(folder, *arguments):
    """Start Python; it writes its output to `log` in a folder."""
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "log"), "a") as output:
        command = [sys.executable, *map(str, arguments)]
        return subprocess.Popen(command, stdout=output, stderr=output)


def log(folder):
    """Return the output of a process of `start`."""
    return (folder / "log").read_text()


def wait_for_first_step(folder, processes):
    """Wait until the two workers with logs in `worker0` and `worker1` have made a step."""
    while all(process.poll() is None for process in processes):
        if all("compiled" in log(folder / f"worker{index}") for index in range(2)):
            return
        time.sleep(0.05)
    raise AssertionError(log(folder / "worker0"))


def worker_environments(count=2):
    """Return TF_CONFIG for each of some workers on free ports of this machine."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("localhost", 0))
    addresses = [f"localhost:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return [
        json.dumps({"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}})
        for index in range(count)
    ]
