#!/usr/bin/env python3
r"""Measure the memory of a process that answers many requests with long texts.

    python benchmarks/serving_memory.py --task=token_classification --requests=2000

A tiny model with random weights is exported and answers texts of random words, each about --bytes
long and different from all others. The script prints the resident memory after each tenth of the
requests. Linux only.
"""

import os
import random
import tempfile
import time

from absl import flags

import bert_tf
from bert_tf import configs, modeling, serving
from bert_tf.cli.flags import FLAGS
from bert_tf.tasks.token_classification import Tags
from bert_tf.training.task_spec import served_tasks

_MODELS = {
    "token_classification": lambda config: modeling.BertTokenClassifier(config, 3),
    "question_answering": modeling.BertSpanLabeler,
    "multiple_choice": modeling.BertMultipleChoice,
}
flags.DEFINE_enum("task", "token_classification", list(_MODELS), "Task of the model.")
flags.DEFINE_integer("requests", 10_000, "Number of requests.", lower_bound=10)
flags.DEFINE_integer("bytes", 50_000, "Size of each text.", lower_bound=1)
flags.DEFINE_integer("seed", 0, "Seed of the texts.")

_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *_LETTERS, *(f"##{x}" for x in _LETTERS)]


def main():
    rng = random.Random(FLAGS.seed)
    with tempfile.TemporaryDirectory() as folder:
        predictor = serving.Predictor(serving.export(make_servable(folder), f"{folder}/export"))
        start = time.perf_counter()
        print("requests    MB      seconds", flush=True)
        for number in range(FLAGS.requests + 1):
            if number:
                predictor([row_of(predictor, rng)])
            if number % (FLAGS.requests // 10) == 0:
                seconds = time.perf_counter() - start
                print(f"{number:<11} {memory():<7.0f} {seconds:.0f}", flush=True)


def make_servable(folder):
    """Return the servable of a tiny model of the task, whose vocabulary is in the folder."""
    with open(f"{folder}/vocab.txt", "w", encoding="utf-8") as writer:
        writer.write("\n".join(_WORDS) + "\n")
    config = bert_tf.BertConfig(
        vocab_size=len(_WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=384,
    )  # fmt: skip
    model = _MODELS[FLAGS.task](config)
    tags = {"tags": Tags(("O", "B-X", "I-X"), "iob2", "iob2")}
    values = tags if FLAGS.task == "token_classification" else {}
    spec, _ = served_tasks()[FLAGS.task]
    config = spec.config_class(config, f"{folder}/vocab.txt", True, 384, **values)
    return spec.make_servable(model, config, configs.ServingConfig())


def row_of(predictor, rng):
    """Return a row whose context, text or endings are long."""
    values = {"question": "a b c", "endings": [random_text(rng), random_text(rng)]}
    return {name: values.get(name) or random_text(rng) for name in predictor.inputs}


def random_text(rng):
    """Return random words of 1 to 12 letters, about --bytes in all."""
    words, size = [], 0
    while size < FLAGS.bytes:
        words.append("".join(rng.choices(_LETTERS, k=rng.randint(1, 12))))
        size += len(words[-1]) + 1
    return " ".join(words)


def memory():
    """Return the memory of this process in MB."""
    with open("/proc/self/statm", encoding="ascii") as reader:
        return int(reader.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
