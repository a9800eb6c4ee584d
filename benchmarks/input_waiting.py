#!/usr/bin/env python3
"""Measure how long training waits for its input.

Batches are taken one by one, as in the training loop, and each step is awaited. The device waits
until the next batch is available, and this time is measured.

    python benchmarks/input_waiting.py --input_file='data/*.tfrecord' --vocab_file=vocab.txt \
      --layers=4 --hidden_size=256
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Records of create_pretraining_data.py.", required=True)
flags.DEFINE_string("vocab_file", None, "Vocabulary of the records.", required=True)
flags.DEFINE_bool("dynamic_masking", False, "Whether the records are unmasked.")
flags.DEFINE_integer("layers", 4, "Number of layers.")
flags.DEFINE_integer("hidden_size", 256, "Hidden size; heads have size 64.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
flags.DEFINE_integer("steps", 20, "Number of steps to measure.")


def main(_):
    import tensorflow as tf

    import bert_tf
    from bert_tf.data import dynamic_masking, input_pipeline, records
    from bert_tf.training import checkpointing

    vocab = bert_tf.tokenization.load_vocab(FLAGS.vocab_file)
    config = bert_tf.BertConfig(
        vocab_size=len(vocab),
        hidden_size=FLAGS.hidden_size,
        num_hidden_layers=FLAGS.layers,
        num_attention_heads=FLAGS.hidden_size // 64,
        intermediate_size=4 * FLAGS.hidden_size,
    )
    task = bert_tf.tasks.PretrainingTask(config)
    optimizer = bert_tf.optimization.AdamWeightDecay(1e-4)
    optimizer.build(checkpointing.weights(task.model))
    run_step = tf.function(
        bert_tf.training.TrainStep(task, optimizer, bert_tf.configs.TrainConfig()).replica_step
    )
    lengths = {"S": 128, "P": 20}
    schema = records.pretraining_schema(has_masks=not FLAGS.dynamic_masking)
    masker = dynamic_masking.DynamicMasking
    mask = masker(vocab, lengths, 0.15, 0) if FLAGS.dynamic_masking else None
    paths = bert_tf.io.files.expand(FLAGS.input_file, "input_file")
    limits = records.limits(schema, config, lengths)
    data = input_pipeline.TrainingInput(
        paths, schema, lengths, FLAGS.batch_size, 0, limits, masking=mask
    ).batches()
    batches = iter(data)
    run_step(next(batches))
    waiting = working = 0
    for _ in range(FLAGS.steps):
        start = time.perf_counter()
        batch = next(batches)
        ready = time.perf_counter()
        float(run_step(batch)["loss"])
        waiting += ready - start
        working += time.perf_counter() - ready
    milliseconds = 1000 / FLAGS.steps
    print(
        f"a step {working * milliseconds:.0f} ms, waiting for its batch "
        f"{waiting * milliseconds:.2f} ms: {100 * waiting / (waiting + working):.2f} % of the time"
    )


if __name__ == "__main__":
    app.run(main)
