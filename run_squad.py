#!/usr/bin/env python3
"""Fine-tunes BERT to answer questions about a text, answers questions and scores the answers."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.task_options import QuestionAnsweringOptions

fine_tuning.define_flags(QuestionAnsweringOptions)


def main():
    fine_tuning.fine_tune("question_answering")


if __name__ == "__main__":
    run(main)
