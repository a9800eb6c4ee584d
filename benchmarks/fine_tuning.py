#!/usr/bin/env python3
r"""Fine-tune a Hugging Face folder with run_classifier.py and with transformers, seed by seed.

    python benchmarks/fine_tuning.py --task_name=cola --data_dir=CoLA --model_dir=MODEL

Learning rate, warm-up, batch size, epochs, weight decay, clipping and optimizer are the same, and
both pad a batch to its longest text. The schedule differs slightly (see `peer_training`), and so
does what a seed determines: the weights of the head, dropout and the order of the examples.

If the files of STS-B are missing, --task_name=sts-b writes pairs of artificial sentences, whose
score is their overlap plus the noise of five annotators.
"""

import os
import random
import subprocess
import sys
import tempfile

import helpers
import numpy as np
import peer_training
from absl import flags

from bert_tf.cli.flags import FLAGS, run
from bert_tf.tasks.classification import glue
from bert_tf.tasks.classification.source import FileSource
from bert_tf.training.results import METRICS

flags.DEFINE_string("task_name", "cola", "Task of run_classifier.py.")
peer_training.define_flags(num_seeds=5)

# Parts of an artificial sentence: groups of synonyms, and the cost of a difference.
_PARTS = (
    (("A man", "A guy"), ("A woman", "A lady"), ("A child", "A kid"), ("A dog", "A puppy"), 1.5),
    (("watches", "looks at"), ("carries", "holds"), ("breaks", "smashes"), ("buys", "gets"), 1.5),
    (("a bicycle", "a bike"), ("a picture", "an image"), ("a sofa", "a couch"),
     ("a stone", "a rock"), 1.5),
    (("in the forest", "in the woods"), ("on the street", "on the road"),
     ("at home", "in the house"), ('near the "Inn"', 'close to the "Inn"'), 0.5),
)  # fmt: skip


def write_pairs(path, count, rng):
    """Write artificial pairs in the format of STS-B."""
    rows = ["index\tgenre\tfile\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"]
    for number in range(count):
        similarity, first, second = 0.0, [], []
        for *groups, weight in _PARTS:
            same = rng.random() < 0.6
            a, b = rng.choices(groups, k=2) if not same else [rng.choice(groups)] * 2
            similarity += weight * (a is b)
            first.append(rng.choice(a))
            second.append(rng.choice(b))
        votes = [min(max(round(similarity + rng.gauss(0, 0.7)), 0), 5) for _ in range(5)]
        cells = [number, *"------", *(" ".join(x) + "." for x in (first, second)), np.mean(votes)]
        rows.append("\t".join(map(str, cells)))
    with open(path, "w", encoding="utf-8") as writer:
        writer.write("\n".join(rows) + "\n")


def train_bert_tf(seed):
    """Run the script as a user would, and return the scores of its eval_results.txt."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "do_train": True,
            "do_eval": True,
            "task_name": FLAGS.task_name,
            "data_dir": FLAGS.data_dir,
            "model": FLAGS.model_dir,
            "optimizer": "adamw",
            "learning_rate": FLAGS.learning_rate,
            "warmup_proportion": peer_training.WARMUP,
            "train_batch_size": FLAGS.batch_size,
            "num_train_epochs": FLAGS.num_train_epochs,
            "max_seq_length": FLAGS.max_seq_length,
            "seed": seed,
            "output_dir": folder,
        }
        script = os.path.join(helpers.ROOT, "run_classifier.py")
        command = [sys.executable, script, *(f"--{name}={x}" for name, x in options.items())]
        subprocess.run(command, check=True)
        with open(os.path.join(folder, "eval_results.txt"), encoding="utf-8") as lines:
            results = dict(line.split(" = ") for line in lines)
    other = ("loss", "eval_loss", "global_step")
    return {name: float(value) for name, value in results.items() if name not in other}


def train_transformers(seed):
    """Run the same training with transformers."""
    import torch
    import transformers

    dataset = glue.find_dataset(FLAGS.task_name)
    train, dev = map(FileSource(dataset, FLAGS.data_dir).read, ("train", "dev"))
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FLAGS.model_dir)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        FLAGS.model_dir, num_labels=len(dataset.labels) or 1
    )

    def target(example):
        return dataset.labels.index(example.label) if dataset.labels else example.label

    def batch_of(examples):
        texts = [[example.text_a for example in examples]]
        if examples[0].text_b is not None:
            texts.append([example.text_b for example in examples])
        encoded = tokenizer(
            *texts, truncation=True, max_length=FLAGS.max_seq_length, padding="longest",
            return_tensors="pt",
        )  # fmt: skip
        return {**encoded, "labels": torch.tensor([target(example) for example in examples])}

    peer_training.train(model, lambda rows: batch_of([train[i] for i in rows]), len(train), seed)
    logits = []
    with torch.no_grad():
        for start in range(0, len(dev), 8):
            logits.append(model(**batch_of(dev[start : start + 8])).logits.numpy())
    logits = np.concatenate(logits)
    predicted = logits.argmax(-1) if dataset.labels else logits[:, 0]
    names = ("accuracy", *dataset.metrics) if dataset.labels else ("pearson", "spearman")
    true = np.array([target(example) for example in dev])
    return {f"eval_{name}": float(METRICS[name](true, predicted)) for name in names}


def main():
    if glue.find_dataset(FLAGS.task_name) == glue.DATASETS["STS-B"]:
        for seed, (split, count) in enumerate((("train", 3000), ("dev", 600))):
            path = os.path.join(FLAGS.data_dir, f"{split}.tsv")
            if not os.path.exists(path):
                write_pairs(path, count, random.Random(seed))
    peer_training.compare(bert_tf=train_bert_tf, transformers=train_transformers)


if __name__ == "__main__":
    run(main)
