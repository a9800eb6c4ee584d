#!/usr/bin/env python3
"""Fine-tunes BERT to choose between endings of a text, evaluates it and predicts."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.task_options import MultipleChoiceOptions

fine_tuning.define_flags(MultipleChoiceOptions)


def main():
    fine_tuning.fine_tune("multiple_choice")


if __name__ == "__main__":
    run(main)
