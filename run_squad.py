#!/usr/bin/env python3
"""Fine-tune BERT to answer questions about a text, evaluate and predict."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.tasks.question_answering.config import QuestionAnsweringConfig

fine_tuning.define_flags(QuestionAnsweringConfig)


def main():
    fine_tuning.fine_tune("question_answering")


if __name__ == "__main__":
    run(main)
