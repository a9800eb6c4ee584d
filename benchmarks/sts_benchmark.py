#!/usr/bin/env python3
r"""Fine-tune a Hugging Face folder on the STS benchmark with bert_tf and with transformers.

    python benchmarks/sts_benchmark.py --data_dir=stsbenchmark --model_dir=MODEL \
      --output_dir=/tmp/sts

The folder has the downloaded files sts-train.csv and sts-dev.csv: tab-separated, with 7 or 9
columns, no header, and quotes that are text. If they are missing, the script writes synthetic files
in the same format, with pairs of artificial sentences whose scores are their overlap plus the noise
of five annotators. Hyper-parameters are as in `fine_tuning.py`; transformers learns the raw scores.
"""

import os
import random

import numpy as np
import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

peer_training.define_flags(num_seeds=3)
flags.DEFINE_integer("num_train_rows", 3000, "Rows of a stand-in for training.")
flags.DEFINE_integer("num_dev_rows", 600, "Rows of a stand-in for evaluation.")

# Columns of the texts and of the score.
TEXTS, SCORE = ("5", "6"), "4"

# Parts of a sentence: groups of synonyms, and the cost of a difference.
_SUBJECTS = (("A man", "A guy"), ("A woman", "A lady"), ("A child", "A kid"), ("A dog", "A puppy"))
_VERBS = (("watches", "looks at"), ("carries", "holds"), ("breaks", "smashes"), ("buys", "gets"))
_OBJECTS = (("a bicycle", "a bike"), ("a picture", "an image"), ("a sofa", "a couch"),
            ("a stone", "a rock"))  # fmt: skip
_PLACES = (("in the forest", "in the woods"), ("on the street", "on the road"),
           ("at home", "in the house"), ('near the "Inn"', 'close to the "Inn"'))  # fmt: skip
_PARTS = ((_SUBJECTS, 1.5), (_VERBS, 1.5), (_OBJECTS, 1.5), (_PLACES, 0.5))


def main():
    write_stand_ins(FLAGS.data_dir, FLAGS.num_train_rows, FLAGS.num_dev_rows)
    peer_training.compare(train_bert_tf, train_transformers, range(FLAGS.num_seeds))


def write_stand_ins(folder, num_train_rows, num_dev_rows):
    """Write sts-train.csv and sts-dev.csv unless they exist."""
    for i, (split, count) in enumerate((("train", num_train_rows), ("dev", num_dev_rows))):
        path = path_of(folder, split)
        if not os.path.exists(path):
            rng = random.Random(i)
            text = "".join("\t".join(_row(rng, number)) + "\n" for number in range(count))
            bert_tf.io.files.write_text(path, text)
            print(f"wrote a stand-in with {count} rows: {path}")


def path_of(folder, split):
    return os.path.join(folder, f"sts-{split}.csv")


def _row(rng, number):
    """Return the cells of an artificial row."""
    similarity, sentences = 0.0, ([], [])
    for groups, weight in _PARTS:
        same = rng.random() < 0.6
        first, second = rng.choices(groups, k=2) if not same else [rng.choice(groups)] * 2
        similarity += weight * (first is second)
        for words, group in zip(sentences, (first, second), strict=True):
            words.append(rng.choice(group))
    # The mean of five whole numbers from 0 to 5.
    votes = [min(max(round(similarity + rng.gauss(0, 0.7)), 0), 5) for _ in range(5)]
    cells = ["main-captions", "stand-in", "2012test", f"{number:04}", f"{np.mean(votes):.3f}"]
    cells += [" ".join(words) + "." for words in sentences]
    return [*cells, "licence", "source"] if number % 10 == 9 else cells


def train_bert_tf(seed):
    """Run the script as a user would."""
    return peer_training.run_script(
        "run_classifier.py",
        seed,
        task_type="regression",
        train_file=path_of(FLAGS.data_dir, "train"),
        dev_file=path_of(FLAGS.data_dir, "dev"),
        text_columns=",".join(TEXTS),
        label_column=SCORE,
    )


def train_transformers(seed):
    """Run the same training with transformers."""
    import torch
    import transformers

    classification = bert_tf.tasks.classification
    layout = classification.Layout(TEXTS, (SCORE,))
    dataset = classification.custom_dataset("regression", layout=layout)
    train, dev = (
        classification.read_examples(dataset, None, split, path_of(FLAGS.data_dir, split))
        for split in ("train", "dev")
    )
    transformers.set_seed(seed)
    tokenizer = transformers.AutoTokenizer.from_pretrained(FLAGS.model_dir)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        FLAGS.model_dir, num_labels=1, problem_type="regression"
    )

    def batch_of(examples):
        encoded = tokenizer(
            [example.text_a for example in examples], [example.text_b for example in examples],
            truncation=True, max_length=FLAGS.max_seq_length, padding="longest",
            return_tensors="pt",
        )  # fmt: skip
        return {**encoded, "labels": torch.tensor([example.label for example in examples])}

    peer_training.train(
        model,
        lambda rows: batch_of([train[i] for i in rows]),
        len(train),
        int(len(train) / FLAGS.batch_size * FLAGS.num_train_epochs),
        FLAGS.batch_size,
        FLAGS.learning_rate,
        seed,
    )
    predicted = []
    with torch.no_grad():
        for start in range(0, len(dev), 8):
            predicted.append(model(**batch_of(dev[start : start + 8])).logits[:, 0].numpy())
    true = np.array([example.label for example in dev])
    metrics = bert_tf.training.metrics.METRICS
    return {
        f"eval_{name}": float(metrics[name](true, np.concatenate(predicted)))
        for name in ("pearson", "spearman")
    }


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
