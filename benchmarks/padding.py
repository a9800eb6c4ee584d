#!/usr/bin/env python3
r"""Measure the time of training steps with batches padded and computed in different ways.

Training steps of a classifier take turns: with batches padded to max_seq_length as in the release,
padded to their longest text, and with padding skipped as in runs on a CPU; the latter two also with
texts of similar length (`--bucket_by_length`). The model has random weights and the sizes in a
config of the release or of Hugging Face.

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
flags.DEFINE_enum("dtype", "float32", ["float32", "bfloat16"], "Type to compute in.")
flags.DEFINE_integer("turns", 20, "Number of steps of each kind.")
flags.mark_flags_as_required(["vocab_file", "bert_config_file", "data_dir"])


def main():
    import tensorflow as tf

    dataset = bert_tf.tasks.classification.find_task(FLAGS.task_name)
    examples = bert_tf.tasks.classification.read_examples(dataset, FLAGS.data_dir, "train")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    strategy = bert_tf.training.make_strategy(distribution_strategy="one_device")
    kind = bert_tf.tasks.TASK_CLASSES["classification"]
    with strategy.scope():
        train_config = bert_tf.configs.TrainConfig(dtype=FLAGS.dtype)
        task = kind(config, len(dataset.labels), dtype=train_config.dtype_policy)
        optimizer = bert_tf.optimization.AdamWeightDecay(1e-5)
        optimizer.build(bert_tf.training.checkpointing.weights(task.model))

    def make_step(skip_padding):
        step = bert_tf.training.TrainStep(task, optimizer, train_config)

        @tf.function
        def run(batches):  # takes a batch inside, as the loop does: any length is traced once
            batch = next(batches)
            task.model.skip_padding = skip_padding
            loss = strategy.run(step.replica_step, args=(batch,))["loss"]
            return (
                loss,
                tf.shape(batch["input_ids"])[1],
                tf.reduce_mean(tf.cast(batch["input_mask"], tf.float32)),
            )

        return run

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "train.tf_record")
        bert_tf.tasks.classification.write_features(
            path, examples, dataset.labels, tokenizer, FLAGS.max_seq_length
        )
        kinds = {}
        for name, multiple, skip_padding, buckets in (
            ("padded to max_seq_length", None, False, False),
            ("padded to the longest", 8, False, False),
            ("padding left out", 8, True, False),
            ("padded to the longest, similar lengths", 8, False, True),
            ("padding left out, similar lengths", 8, True, True),
        ):
            data = bert_tf.data.input_pipeline.TrainingInput(
                [path],
                kind.schema,
                {"S": FLAGS.max_seq_length},
                FLAGS.batch_size,
                0,
                length_multiple=multiple,
                bucket_by_length=buckets,
            )
            data.load_counts()
            kinds[name] = make_step(skip_padding), iter(data.batches())
        seconds, lengths, tokens = ({name: [] for name in kinds} for _ in range(3))
        for turn in range(FLAGS.turns + 2):
            for name, (run, batches) in kinds.items():
                start = time.perf_counter()
                _, length, share = (x.numpy() for x in run(batches))
                if turn >= 2:  # the first steps trace
                    seconds[name].append(time.perf_counter() - start)
                    lengths[name].append(length)
                    tokens[name].append(share)
    print("| | seconds per step | length | tokens | time, the first is 1 | time, the second is 1 |")
    print("| --- | --- | --- | --- | --- | --- |")
    first, second, *_ = kinds
    for name in kinds:
        print(
            f"| {FLAGS.task_name}, {FLAGS.dtype}, {name} "
            f"| {statistics.mean(seconds[name]):.3f} | "
            f"{statistics.mean(lengths[name]):.1f} | {100 * statistics.mean(tokens[name]):.0f} % | "
            f"{_ratio(seconds[name], seconds[first])} | "
            f"{_ratio(seconds[name], seconds[second])} |"
        )


def _ratio(times, baseline):
    """Return the ratio of the totals: the batches of a kind have different lengths."""
    return f"{sum(times) / sum(baseline):.2f}"


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
