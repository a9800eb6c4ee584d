#!/usr/bin/env python3
r"""Search for the paragraph that answers a question, before and after training.

    python benchmarks/search.py --train_file=train.json --dev_file=dev.json --model=MODEL
    python benchmarks/search.py --text_file=corpus.txt --model=MODEL

The files have SQuAD's format. Pairs of a question and its paragraph train the vectors with a
contrastive loss; the questions in dev_file are searched among the paragraphs of both files. In a
text file, blank lines separate documents; the first line of a document is the question and the rest
is the paragraph. A fifth of the documents are used for evaluation. --rerank also trains a
classifier that orders the 20 nearest paragraphs. It learns from the same pairs and from as many
pairs with a wrong paragraph that is close in the trained vector space.
"""

import json
import time

import numpy as np
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run
from bert_tf.tasks.sentence_embedding import NearestNeighbors, Reranker

flags.DEFINE_string("train_file", None, "JSON file of questions and paragraphs to train on.")
flags.DEFINE_string("dev_file", None, "JSON file of questions and paragraphs to search.")
flags.DEFINE_string("text_file", None, "Text file instead of these two.")
flags.DEFINE_string("model", None, "Folder of the pre-trained model.", required=True)
flags.DEFINE_integer("epochs", 1, "Number of passes over the pairs.")
flags.DEFINE_integer("max_seq_length", 128, "Maximum number of tokens.")
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
flags.DEFINE_integer("layer", None, "Layer of the vectors; by default as in the folder.")
flags.DEFINE_bool("rerank", False, "Whether to train a classifier that orders the paragraphs.")


def main():
    train, dev = read()
    queries = [question for question, _ in dev]
    paragraphs = list(dict.fromkeys(paragraph for _, paragraph in [*dev, *train]))
    numbers = {paragraph: i for i, paragraph in enumerate(paragraphs)}
    relevant = [[numbers[paragraph]] for _, paragraph in dev]
    bert_tf.console.write(
        f"{len(train)} pairs to train on, {len(queries)} questions, {len(paragraphs)} paragraphs\n"
    )
    options = {"max_seq_length": FLAGS.max_seq_length}
    encoder = bert_tf.SentenceEncoder.from_preset(FLAGS.model, layer=FLAGS.layer, **options)

    def report(name, seconds=0.0):
        found = [encoder.evaluate_search(queries, paragraphs, relevant, k) for k in (1, 10)]
        values = f"recall@1 {found[0]['recall@1']:.3f}  recall@10 {found[1]['recall@10']:.3f}"
        bert_tf.console.write(
            f"{name:10} {values}  mrr@10 {found[1]['mrr@10']:.3f}  {seconds:.0f} s\n"
        )

    report("before")
    start = time.perf_counter()
    encoder.fit(
        train, epochs=FLAGS.epochs, batch_size=32, learning_rate=FLAGS.learning_rate, verbose=0
    )
    report("trained", time.perf_counter() - start)
    if FLAGS.rerank:
        rerank(encoder, train, queries, paragraphs, relevant)


def rerank(encoder, train, queries, paragraphs, relevant):
    start = time.perf_counter()
    classifier = bert_tf.TextClassifier.from_preset(
        FLAGS.model, labels=["no", "yes"], max_seq_length=FLAGS.max_seq_length
    )
    texts = list(dict.fromkeys(paragraph for _, paragraph in train))
    nearest = NearestNeighbors([question for question, _ in train], 10, encoder).add_texts(texts)
    rng = np.random.default_rng(0)
    wrong = [
        (question, rng.choice([x.item for x in found if x.item != paragraph]))
        for (question, paragraph), found in zip(train, nearest.results(), strict=True)
    ]
    labels = ["yes"] * len(train) + ["no"] * len(wrong)
    classifier.fit(
        [*train, *wrong], labels, epochs=FLAGS.epochs, learning_rate=FLAGS.learning_rate, verbose=0
    )
    reranker = Reranker(classifier, num_candidates=20)
    found = NearestNeighbors(queries, 10, encoder, reranker).add_texts(paragraphs).results()
    ranks = [
        next((i for i, x in enumerate(row) if x.index == number), None)
        for row, (number,) in zip(found, relevant, strict=True)
    ]
    first = np.mean([rank == 0 for rank in ranks])
    some = np.mean([rank is not None for rank in ranks])
    mrr = np.mean([0 if rank is None else 1 / (rank + 1) for rank in ranks])
    values = f"recall@1 {first:.3f}  recall@10 {some:.3f}  mrr@10 {mrr:.3f}"
    bert_tf.console.write(f"reranked   {values}  {time.perf_counter() - start:.0f} s\n")


def read():
    """Return the pairs to train on and the pairs to search."""
    if FLAGS.text_file:
        with open(FLAGS.text_file, encoding="utf-8") as file:
            documents = [x.strip().split("\n", 1) for x in file.read().split("\n\n")]
        pairs = [tuple(x) for x in documents if len(x) == 2]
        size = len(pairs) // 5
        return pairs[size:], pairs[:size]
    return [read_questions(path) for path in (FLAGS.train_file, FLAGS.dev_file)]


def read_questions(path):
    with open(path, encoding="utf-8") as file:
        articles = json.load(file)["data"]
    paragraphs = [paragraph for article in articles for paragraph in article["paragraphs"]]
    return [(qa["question"], x["context"]) for x in paragraphs for qa in x["qas"]]


if __name__ == "__main__":
    run(main)
