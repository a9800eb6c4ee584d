#!/usr/bin/env python3
r"""Measure how much memory a process keeps from each run of --num_seeds.

    python benchmarks/seed_memory.py --num_seeds=10 --replicas=2

A small classifier is trained, evaluated and used for prediction with one seed after the other, with
logical CPUs as replicas. The script prints the resident memory before each run, the numbers of
Python objects and TensorFlow functions, and the mean growth from the third run on; the first two
runs fill caches.
"""

import gc
import os
import tempfile

import tensorflow as tf
from absl import flags

import bert_tf
from bert_tf import configs, tasks, training
from bert_tf.cli.flags import FLAGS, run
from bert_tf.training import fine_tuning

flags.DEFINE_integer("num_seeds", 10, "Number of runs.", lower_bound=4)
flags.DEFINE_integer("replicas", 2, "Number of replicas.", lower_bound=1)
flags.DEFINE_integer("hidden_size", 128, "Width of the model, which has two layers.")

_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d", "e"]


def main():
    cpu = tf.config.list_physical_devices("CPU")[0]
    devices = [tf.config.LogicalDeviceConfiguration()] * FLAGS.replicas
    tf.config.set_logical_device_configuration(cpu, devices)
    replicas = [f"cpu:{i}" for i in range(FLAGS.replicas)]
    fine_tuning.make_strategy = lambda **_: tf.distribute.MirroredStrategy(replicas)
    sizes = []
    make_run = fine_tuning.Run.run

    def measured_run(experiment, folder, seed):
        sizes.append(memory(f"before seed {seed}"))
        return make_run(experiment, folder, seed)

    fine_tuning.Run.run = measured_run
    with tempfile.TemporaryDirectory() as folder:
        training.fine_tune(tasks.TASKS["classification"], make_config(folder))
        sizes.append(memory("at the end"))
    growth = (sizes[-1] - sizes[2]) / (len(sizes) - 3)
    print(f"growth per seed: {growth:.1f} MB")


def memory(when):
    """Print and return the resident memory of this process in MB."""
    from tensorflow.python.eager import context  # the only place that lists functions

    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as reader:
        size = int(reader.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6
    num_functions = len(context.context().list_function_names())
    print(f"{when}: {size:.0f} MB, {len(gc.get_objects())} objects, {num_functions} functions")
    return size


def make_config(folder):
    """Write a model and a few rows, and return the configuration of a run on them."""
    width = FLAGS.hidden_size
    config = bert_tf.BertConfig(
        vocab_size=len(_WORDS), hidden_size=width, num_hidden_layers=2,
        num_attention_heads=max(1, width // 64), intermediate_size=4 * width,
        max_position_embeddings=32,
    )  # fmt: skip
    rows = "".join(f"{'a b c' if i % 2 else 'd e'}\t{i % 2}\n" for i in range(32))
    texts = {"vocab.txt": "\n".join(_WORDS) + "\n", "bert_config.json": config.to_json_string()}
    texts |= {f"{part}.tsv": f"text\tlabel\n{rows}" for part in ("train", "dev")}
    bert_tf.io.files.write_texts({os.path.join(folder, name): text for name, text in texts.items()})
    options = tasks.ClassificationConfig(task_name="tsv", data_dir=folder, max_seq_length=16)
    model = configs.ModelConfig(
        bert_config_file=f"{folder}/bert_config.json", vocab_file=f"{folder}/vocab.txt"
    )
    train = configs.TrainConfig(train_batch_size=8, num_train_epochs=1.0)
    return configs.FineTuneConfig(
        f"{folder}/out", options, model, do_train=True, do_eval=True, train=train,
        num_seeds=FLAGS.num_seeds,
    )  # fmt: skip


if __name__ == "__main__":
    run(main)
