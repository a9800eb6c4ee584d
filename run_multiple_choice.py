#!/usr/bin/env python3
"""Fine-tune BERT to choose between endings of a text, evaluate and predict."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run
from bert_tf.tasks.multiple_choice.config import MultipleChoiceConfig

fine_tuning.define_flags(MultipleChoiceConfig)


def main():
    fine_tuning.fine_tune("multiple_choice")


if __name__ == "__main__":
    run(main)
