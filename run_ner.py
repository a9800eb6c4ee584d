#!/usr/bin/env python3
"""Fine-tunes BERT to tag words (named entities, parts of speech), evaluates it and predicts."""

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import FLAGS, run
from bert_tf.task_options import TokenClassificationOptions

fine_tuning.define_flags(TokenClassificationOptions)
# Names are written with capitals (BERT paper, section 5.3), so the model is cased by default.
FLAGS.set_default("do_lower_case", False)


def main():
    fine_tuning.fine_tune("token_classification")


if __name__ == "__main__":
    run(main)
