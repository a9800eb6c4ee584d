#!/usr/bin/env python3
"""Measures what a training step needs in memory, and what a checkpoint costs in steps.

Each way of training is a process of its own, whose memory at its highest the system tells. Of that
the script takes off what the process holds before its first step: the program, the weights and the
moments.

    python benchmarks/memory.py --layers=12 --hidden_size=768 --batch_size=8 --max_seq_length=128
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_integer("layers", 12, "Layers of the model.")
flags.DEFINE_integer("hidden_size", 768, "Its width; heads are 64 wide.")
flags.DEFINE_integer("vocab_size", 30522, "Words that it knows.")
flags.DEFINE_integer("batch_size", 8, "Examples in a batch.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in an example.")
flags.DEFINE_integer("steps", 5, "Steps to measure, and checkpoints.")
flags.DEFINE_string(
    "measure", None, "One way to measure in this process, as the script itself does."
)

LAYER_COMBINATIONS = {
    "plain": {},
    "--recompute": {"recompute": True},
    "--gradient_accumulation_steps=4": {"gradient_accumulation_steps": 4},
    "both": {"recompute": True, "gradient_accumulation_steps": 4},
    "--dtype=bfloat16": {},
    "--dtype=bfloat16 --recompute": {"recompute": True},
}


def megabytes():
    """The most memory that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(way):
    """Prints memory and times of one way as JSON."""
    import numpy as np
    import tensorflow as tf

    import bert_tf
    from bert_tf.training import checkpointing

    config = bert_tf.BertConfig(
        vocab_size=FLAGS.vocab_size,
        hidden_size=FLAGS.hidden_size,
        num_hidden_layers=FLAGS.layers,
        num_attention_heads=FLAGS.hidden_size // 64,
        intermediate_size=4 * FLAGS.hidden_size,
    )
    task = bert_tf.tasks.ClassificationTask(
        config, 2, "mixed_bfloat16" if "bfloat16" in way else None
    )
    optimizer = bert_tf.optimization.AdamWeightDecay(lambda step: 1e-4)
    optimizer.build(checkpointing.weights(task.model))
    step = bert_tf.training.TrainStep(
        task, optimizer, bert_tf.training.Options(**LAYER_COMBINATIONS[way])
    )
    shape = (FLAGS.batch_size, FLAGS.max_seq_length)
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": tf.constant(rng.integers(0, FLAGS.vocab_size, shape, "int32")),
        "input_mask": tf.ones(shape, tf.int32),
        "segment_ids": tf.zeros(shape, tf.int32),
        "label_ids": tf.constant(rng.integers(0, 2, shape[:1], "int32")),
    }
    run_step = tf.function(step.replica_step)
    before = megabytes()
    run_step(batch)
    seconds = [timed(lambda: run_step(batch)) for _ in range(FLAGS.steps)]
    after = megabytes()
    state = checkpointing.run_state(task.model, optimizer)
    saves = []
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(FLAGS.steps if way == "plain" else 0):
            saves.append(timed(lambda: checkpointing.save(folder, state)))
    print(json.dumps({"held": before, "step": after - before, "seconds": seconds, "saves": saves}))


def timed(call):
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(_):
    if FLAGS.measure:
        measure(FLAGS.measure)
        return
    print("| way | memory of a step | of the plain way | seconds a step |")
    print("| --- | --- | --- | --- |")
    plain = None
    for way in LAYER_COMBINATIONS:
        command = [sys.executable, *sys.argv, f"--measure={way}"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        plain = plain or found
        share = found["step"] / plain["step"]
        seconds = statistics.median(found["seconds"])
        print(f"| {way} | {found['step']:.0f} MB | {share:.0%} | {seconds:.2f} |", flush=True)
    save = statistics.median(plain["saves"])
    steps = save / statistics.median(plain["seconds"])
    print(f"\nheld before the first step: {plain['held']:.0f} MB")
    print(f"a checkpoint: {save:.2f} s, as long as {steps:.2f} steps")


if __name__ == "__main__":
    app.run(main)
