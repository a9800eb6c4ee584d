#!/usr/bin/env python3
r"""Train sentence vectors with bert_tf and with sentence-transformers, seed by seed.

    python benchmarks/sentence_training.py --data_dir=MRPC --model_dir=MODEL \
      --num_train_epochs=1 --max_seq_length=64

`--data_dir` has train.csv and dev.csv with the lines of STS-B (sentence, sentence, score from 0 to
5), or the files of MRPC, where paraphrases have the score 1, other pairs 0. The result is
Spearman's correlation between the scores and the cosines of the development pairs, before and after
training, and the training time in seconds, of the clock and of the processors. Optimizer, schedule,
batch size and length are the same; the order of the pairs and dropout differ.
"""

import csv
import os
import random
import time
import types

import numpy as np
import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run
from bert_tf.tasks.classification import glue
from bert_tf.tasks.classification.source import FileSource
from bert_tf.tasks.sentence_embedding.search import l2_normalize
from bert_tf.training.results import METRICS

peer_training.define_flags(num_seeds=3)
flags.DEFINE_enum("loss", "cosent", ["cosent", "cosine"], "Loss of pairs with scores.")
flags.DEFINE_integer("num_pairs", None, "Train on so many pairs of train.csv, drawn at random.")


def main():
    peer_training.compare(bert_tf=train_bert_tf, transformers=train_sentence_transformers)


def read(split):
    """Return the pairs of a split, and their scores from 0 to 1."""
    path = os.path.join(FLAGS.data_dir, f"{split}.csv")
    if os.path.exists(path):
        with open(path, encoding="utf-8", newline="") as file:
            rows = list(csv.reader(file))
        if split == "train" and FLAGS.num_pairs:
            rows = random.Random(0).sample(rows, FLAGS.num_pairs)
        return [(first, second) for first, second, _ in rows], [float(row[2]) / 5 for row in rows]
    examples = FileSource(glue.find_dataset("MRPC"), FLAGS.data_dir).read(split)
    pairs = [(example.text_a, example.text_b) for example in examples]
    return pairs, [float(example.label == "1") for example in examples]


def times():
    """Return the seconds of the clock, and of the processors in this process."""
    return np.array([time.perf_counter(), time.process_time()])


def evaluate(encode):
    """Return Spearman's correlation on the development pairs."""
    pairs, scores = read("dev")
    first, second = (l2_normalize(encode(list(texts))) for texts in zip(*pairs, strict=True))
    return METRICS["spearman"](scores, (first * second).sum(-1))


def train_bert_tf(seed):
    """Train with `SentenceEncoder.fit`, with the optimizer of the comparison."""
    import keras

    keras.utils.set_random_seed(seed)
    encoder = bert_tf.SentenceEncoder.from_preset(
        FLAGS.model_dir, max_seq_length=FLAGS.max_seq_length
    )
    before = evaluate(encoder.encode)
    pairs, scores = read("train")
    epochs = int(FLAGS.num_train_epochs)
    config = bert_tf.configs.OptimizerConfig(
        optimizer="adamw", learning_rate=FLAGS.learning_rate, warmup_proportion=peer_training.WARMUP
    )
    num_steps = -(-len(pairs) // FLAGS.batch_size) * epochs
    encoder.compile(bert_tf.optimization.make_optimizer(config, num_steps))
    started = times()
    options = {"epochs": epochs, "batch_size": FLAGS.batch_size, "loss": FLAGS.loss, "verbose": 2}
    encoder.fit(pairs, scores, **options)
    seconds, processor = times() - started
    scores = {"before": before, "spearman": evaluate(encoder.encode)}
    return {**scores, "training": seconds, "processor": processor}


def train_sentence_transformers(seed):
    """Train with the loss and the model of sentence-transformers in a plain loop of PyTorch."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import losses

    torch.manual_seed(seed)
    model = SentenceTransformer(FLAGS.model_dir, device="cpu")
    model.max_seq_length = FLAGS.max_seq_length
    before = evaluate(model.encode)
    pairs, scores = read("train")
    classes = {"cosent": losses.CoSENTLoss, "cosine": losses.CosineSimilarityLoss}
    loss = classes[FLAGS.loss](model)

    class Training(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, columns, labels):
            features = [model.tokenize(list(column)) for column in columns]
            return types.SimpleNamespace(loss=loss(features, labels))

    def batch_of(rows):
        columns = zip(*(pairs[i] for i in rows), strict=True)
        return {"columns": list(columns), "labels": torch.tensor(np.float32(scores)[rows])}

    started = times()
    peer_training.train(Training(), batch_of, len(pairs), seed)
    seconds, processor = times() - started
    scores = {"before": before, "spearman": evaluate(model.encode)}
    return {**scores, "training": seconds, "processor": processor}


if __name__ == "__main__":
    run(main)
