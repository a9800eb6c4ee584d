#!/usr/bin/env python3
"""Fine-tune BERT to classify or score texts or pairs of texts, evaluate and predict."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.tasks.classification.config import ClassificationConfig

fine_tuning.define_flags(ClassificationConfig, can_distill=True)


def main():
    fine_tuning.fine_tune("classification")


if __name__ == "__main__":
    run(main)
