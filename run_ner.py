#!/usr/bin/env python3
"""Fine-tune BERT to tag words (named entities, parts of speech), evaluate and predict."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.tasks.token_classification.config import TokenClassificationConfig

fine_tuning.define_flags(TokenClassificationConfig)


def main():
    fine_tuning.fine_tune("token_classification")


if __name__ == "__main__":
    run(main)
