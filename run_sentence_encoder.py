#!/usr/bin/env python3
"""Fine-tune BERT sentence vectors on pairs of texts, evaluate and score pairs."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.tasks.sentence_embedding.config import SentenceEmbeddingConfig

fine_tuning.define_flags(SentenceEmbeddingConfig)


def main():
    fine_tuning.fine_tune("sentence_embedding")


if __name__ == "__main__":
    run(main)
