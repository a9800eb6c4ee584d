#!/usr/bin/env python3
r"""Measure the time that padding batches to their longest text saves over --pad_to_max_length.

Training steps of a classifier on the texts of a task, with each kind of padding in turn. The model
has the sizes of a config (of the release or of Hugging Face) and random weights.

    python benchmarks/padding.py --task_name=cola --data_dir=CoLA --vocab_file=vocab.txt \
      --bert_config_file=config.json
"""

import os
import statistics
import tempfile
import time

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.flags.define_tokenizer_flags()
flags.DEFINE_string("bert_config_file", None, "Configuration of the model.")
flags.DEFINE_string("task_name", "cola", "Task of run_classifier.py.")
flags.DEFINE_string("data_dir", None, "Folder with the files of the task.")
flags.DEFINE_integer("batch_size", 32, "Batch size.")
flags.DEFINE_integer("max_seq_length", 128, "Maximum sequence length.")
flags.DEFINE_integer("turns", 20, "Number of steps with each kind of padding.")
flags.mark_flags_as_required(["vocab_file", "bert_config_file", "data_dir"])


def main():
    import tensorflow as tf

    task = bert_tf.tasks.classification.find_task(FLAGS.task_name)
    examples = bert_tf.tasks.classification.read_examples(task, FLAGS.data_dir, "train")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    strategy = bert_tf.training.make_strategy(distribution_strategy="one_device")
    kind = bert_tf.tasks.TASK_CLASSES["classification"]
    with strategy.scope():
        model_task = kind(config, len(task.labels))
        optimizer = bert_tf.optimization.AdamWeightDecay(1e-5)
        optimizer.build(bert_tf.training.checkpointing.weights(model_task.model))
        step = bert_tf.training.TrainStep(model_task, optimizer, bert_tf.training.TrainConfig())

    @tf.function
    def run(batches):  # takes a batch inside, as the loop does, so that any length is traced once
        batch = next(batches)
        loss = strategy.run(step.replica_step, args=(batch,))["loss"]
        return loss, tf.shape(batch["input_ids"])[1]

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.tf_record")
        bert_tf.tasks.classification.write_features(
            path, examples, task.labels, tokenizer, FLAGS.max_seq_length
        )
        iterators = {}
        for name, multiple in (("to max_seq_length", None), ("to the longest", 8)):
            data = bert_tf.data.input_pipeline.TrainingInput(
                [path],
                kind.schema,
                {"S": FLAGS.max_seq_length},
                FLAGS.batch_size,
                0,
                length_multiple=multiple,
            )
            iterators[name] = iter(data.batches())
        seconds, lengths = {name: [] for name in iterators}, {name: [] for name in iterators}
        for turn in range(FLAGS.turns + 2):
            for name, batches in iterators.items():
                start = time.perf_counter()
                length = int(run(batches)[1])
                if turn >= 2:  # the first steps trace
                    seconds[name].append(time.perf_counter() - start)
                    lengths[name].append(length)
    padded, short = iterators
    for name in iterators:
        median, length = statistics.median(seconds[name]), statistics.mean(lengths[name])
        print(f"{FLAGS.task_name:6} {name:18} {median:6.3f} s per step, length {length:.1f}")
    ratio = [b / a for a, b in zip(seconds[padded], seconds[short], strict=True)]
    share = statistics.median(ratio)
    print(f"{FLAGS.task_name:6} padding to the longest takes {share:.2f} of the time")


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
