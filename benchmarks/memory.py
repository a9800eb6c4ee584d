#!/usr/bin/env python3
"""Measure the memory of a training step, and the time of a checkpoint in steps.

Each setting runs in a separate process. The result is the peak memory of the process minus its
memory before the first step, which holds the program, the weights and the moments. All positions
are computed, as on GPUs. With --padding=0.5 half of them are padding and are skipped, as in runs on
a CPU.

    python benchmarks/memory.py --layers=12 --hidden_size=768 --batch_size=8 --max_seq_length=128
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import helpers
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_integer("layers", 12, "Number of layers.")
flags.DEFINE_integer("hidden_size", 768, "Hidden size; heads have size 64.")
flags.DEFINE_integer("vocab_size", 30522, "Vocabulary size.")
flags.DEFINE_integer("batch_size", 8, "Examples in a batch.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in an example.")
flags.DEFINE_float("padding", None, "Share of padding in each example, which is left out.")
flags.DEFINE_integer("steps", 5, "Number of steps and of checkpoints to measure.")
flags.DEFINE_string(
    "measure", None, "A setting to measure in this process; used by the script itself."
)

SETTINGS = {
    "plain": {},
    "--recompute": {"recompute": True},
    "--gradient_accumulation_steps=4": {"gradient_accumulation_steps": 4},
    "both": {"recompute": True, "gradient_accumulation_steps": 4},
    "--dtype=bfloat16": {},
    "--dtype=bfloat16 --recompute": {"recompute": True},
}


def megabytes():
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(setting):
    """Print memory and times of one setting as JSON."""
    import bert_tf  # noqa: I001 - before TensorFlow, for which it sets an environment variable
    import numpy as np
    import tensorflow as tf
    from bert_tf.tasks.classification.objective import ClassificationObjective
    from bert_tf.training import checkpointing

    config = bert_tf.BertConfig(
        vocab_size=FLAGS.vocab_size,
        hidden_size=FLAGS.hidden_size,
        num_hidden_layers=FLAGS.layers,
        num_attention_heads=FLAGS.hidden_size // 64,
        intermediate_size=4 * FLAGS.hidden_size,
    )
    dtype = "mixed_bfloat16" if "bfloat16" in setting else None
    objective = ClassificationObjective(bert_tf.BertClassifier(config, 2, dtype))
    optimizer = bert_tf.optimization.AdamWeightDecay(1e-4)
    optimizer.build(bert_tf.checkpoints.weights(objective.model))
    step = bert_tf.training.make_train_step(
        objective, optimizer, bert_tf.configs.TrainConfig(**SETTINGS[setting])
    )
    shape = (FLAGS.batch_size, FLAGS.max_seq_length)
    rng = np.random.default_rng(0)
    num_tokens = round((1 - (FLAGS.padding or 0)) * FLAGS.max_seq_length)
    objective.model.skip_padding = FLAGS.padding is not None
    batch = {
        "input_ids": tf.constant(rng.integers(0, FLAGS.vocab_size, shape, "int32")),
        "input_mask": tf.cast(tf.broadcast_to(tf.range(shape[1]) < num_tokens, shape), tf.int32),
        "segment_ids": tf.zeros(shape, tf.int32),
        "label_ids": tf.constant(rng.integers(0, 2, shape[:1], "int32")),
    }
    run_step = tf.function(step)
    before = megabytes()
    run_step(batch)
    (seconds,) = helpers.take_turns({"step": lambda: run_step(batch)}, FLAGS.steps).values()
    after = megabytes()
    state = checkpointing.run_state(objective.model, optimizer)
    with tempfile.TemporaryDirectory() as folder:
        save = {"save": lambda: checkpointing.save(folder, state)}
        (saves,) = helpers.take_turns(save, FLAGS.steps if setting == "plain" else 0).values()
    results = {"before": before, "step": after - before, "seconds": seconds, "saves": saves}
    print(json.dumps(results))


def main(_):
    if FLAGS.measure:
        measure(FLAGS.measure)
        return
    helpers.print_head("setting", "memory of a step", "relative to plain", "seconds per step")
    plain = None
    for setting in SETTINGS:
        command = [sys.executable, *sys.argv, f"--measure={setting}"]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        result = json.loads(done.stdout.splitlines()[-1])
        plain = plain or result
        share = result["step"] / plain["step"]
        seconds = statistics.median(result["seconds"])
        helpers.print_row(setting, f"{result['step']:.0f} MiB", f"{share:.0%}", f"{seconds:.2f}")
    save = statistics.median(plain["saves"])
    steps = save / statistics.median(plain["seconds"])
    print(f"\nmemory before the first step: {plain['before']:.0f} MB")
    print(f"a checkpoint: {save:.2f} s, as long as {steps:.2f} steps")


if __name__ == "__main__":
    app.run(main)
