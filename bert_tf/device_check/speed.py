"""Examples per second of training and prediction for growing batches."""

import time
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf.configs.train import TrainConfig
from bert_tf.errors import out_of_memory_errors
from bert_tf.optimization import AdamWeightDecay
from bert_tf.training.checkpointing import weights
from bert_tf.training.pretraining import PretrainingTask
from bert_tf.training.step import make_train_step
from bert_tf.training.strategy import use_xla

# The search for the best batch size ends when a larger batch gains less than this factor.
_GAIN = 1.05


class Speed(NamedTuple):
    """A measurement; `mode` is "train" or "predict", and `batch_size` is over all replicas."""

    mode: str
    max_seq_length: int
    batch_size: int
    examples_per_second: float
    note: str = ""


def measure_speed(strategy, config, dtype, lengths=(128, 512), seconds=2.0):
    """Yield a `Speed` for each mode, length and batch size, which doubles while the speed grows.

    A `BertPretrainer` predicts a fifth of the tokens, without padding. A batch that does not fit in
    memory has 0 examples per second.
    """
    train_config = TrainConfig(dtype=dtype, xla=use_xla(None, strategy))
    with strategy.scope():
        task = PretrainingTask(config, train_config.dtype_policy)
        optimizer = AdamWeightDecay(1e-5)
        optimizer.build(weights(task.model))
        step = make_train_step(task, optimizer, train_config)

    def predict(batch):
        return {"logits": task.model(batch, training=False)["next_sentence_logits"]}

    for mode, function in (("train", step), ("predict", predict)):
        for length in sorted({min(x, config.max_position_embeddings) for x in lengths}):
            size, best = 4 * strategy.num_replicas_in_sync, 0.0
            while True:
                try:
                    rate = _rate(strategy, function, config, length, size, seconds)
                except out_of_memory_errors():
                    yield Speed(mode, length, size, 0.0, "out of memory")
                    break
                yield Speed(mode, length, size, rate)
                if rate < best * _GAIN:
                    break
                best, size = rate, size * 2


def _rate(strategy, function, config, length, batch_size, seconds):
    rng = np.random.default_rng(0)
    size, num_predictions = batch_size // strategy.num_replicas_in_sync, length // 5
    ids = rng.integers(1, config.vocab_size, (size, length)).astype("int32")
    batch = {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
        "masked_lm_positions": np.tile(np.arange(num_predictions, dtype="int32"), (size, 1)),
        "masked_lm_ids": ids[:, :num_predictions],
        "masked_lm_weights": np.ones((size, num_predictions), "float32"),
        "next_sentence_labels": ids[:, :1] % 2,
    }
    shares = strategy.experimental_distribute_values_from_function(
        lambda _: {name: tf.constant(x) for name, x in batch.items()}
    )
    run = tf.function(lambda: strategy.run(function, (shares,)), autograph=False)

    def wait():
        for value in tf.nest.flatten(run()):
            for x in strategy.experimental_local_results(value):
                np.sum(x.numpy())

    wait()  # compiles
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds or count < 2:
        wait()
        count += 1
    return count * batch_size / (time.perf_counter() - start)
