#!/usr/bin/env python3
"""Measure what computing the last layer only for the first token saves.

A classifier reads one token of the last layer, so the layer needs its queries, output projection
and feed-forward network only for this token. Forward passes and training steps with and without
this optimization take turns, for models of several depths. Padding is left out, as in runs on a CPU
and in exported models.

    python benchmarks/last_layer.py --layers=2,4,12 --hidden_size=768
"""

import statistics
import time
from unittest import mock

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_list("layers", ["2", "4", "12"], "Numbers of layers.")
flags.DEFINE_integer("hidden_size", 768, "Hidden size; heads have size 64.")
flags.DEFINE_integer("batch_size", 8, "Examples in a batch.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in an example, half to all of them real.")
flags.DEFINE_integer("turns", 11, "Number of turns.")


def main():
    print("| | whole layer | first token | ratio |")
    print("| --- | --- | --- | --- |")
    for num_layers in map(int, FLAGS.layers):
        for name, kinds in make_functions(num_layers).items():
            seconds = {kind: [] for kind in kinds}
            for turn in range(FLAGS.turns + 2):
                for kind, run in kinds.items():
                    start = time.perf_counter()
                    run().numpy()
                    if turn >= 2:  # the first ones trace
                        seconds[kind].append(time.perf_counter() - start)
            whole, first = seconds.values()
            ratio = statistics.median(b / a for a, b in zip(whole, first, strict=True))
            medians = [f"{1000 * statistics.median(x):.0f} ms" for x in (whole, first)]
            print(f"| {num_layers} layers, {name} | {' | '.join(medians)} | {ratio:.2f} |")


def make_functions(num_layers):
    """Return {"forward" and "train": {"whole" and "first": function}} that share one model."""
    import tensorflow as tf

    config = bert_tf.BertConfig(
        vocab_size=30522,
        hidden_size=FLAGS.hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=FLAGS.hidden_size // 64,
        intermediate_size=4 * FLAGS.hidden_size,
    )
    task = bert_tf.tasks.ClassificationTask(config, 2)
    task.model.skip_padding = True
    optimizer = bert_tf.optimization.AdamWeightDecay(1e-5)
    optimizer.build(bert_tf.training.checkpointing.weights(task.model))
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    batch = make_batch()

    def make_forward():
        inputs = {name: batch[name] for name in ("input_ids", "input_mask", "segment_ids")}
        return tf.function(lambda: task.model(inputs, training=False)["logits"])

    def make_train():
        step = bert_tf.training.TrainStep(task, optimizer, bert_tf.configs.TrainConfig())
        return tf.function(lambda: strategy.run(step.replica_step, args=(batch,))["loss"])

    call = bert_tf.BertModel.call

    def call_for_all_tokens(model, *arguments, positions=None, **options):
        outputs = call(model, *arguments, **options)
        return {name: outputs[name] for name in ("sequence_output", "pooled_output")}

    results = {}
    for name, make in (("forward", make_forward), ("train", make_train)):
        whole, first = make(), make()
        with mock.patch.object(bert_tf.BertModel, "call", call_for_all_tokens):
            expected = whole()  # traced here
        if name == "forward":  # training steps have different dropout
            tf.debugging.assert_near(expected, first(), atol=1e-5)
        results[name] = {"whole": whole, "first": first}
    return results


def make_batch():
    import tensorflow as tf

    shape = (FLAGS.batch_size, FLAGS.max_seq_length)
    lengths = tf.random.uniform((shape[0], 1), shape[1] // 2, shape[1] + 1, tf.int32, seed=0)
    mask = tf.cast(tf.range(shape[1]) < lengths, tf.int32)
    return {
        "input_ids": tf.random.uniform(shape, 1, 30522, tf.int32, seed=1) * mask,
        "input_mask": mask,
        "segment_ids": tf.zeros(shape, tf.int32),
        "label_ids": tf.random.uniform((shape[0],), 0, 2, tf.int32, seed=2),
    }


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
