"""Answers lines of text with an exported model, in one process that stays up.

    echo "What a meal!" | predict.py --model=/tmp/reviews

A line is a text, or its inputs between tabs, or with --json an object by their names. Each answer
is a line of JSON, in the order of the lines.
"""

from absl import flags

import bert_tf
from bert_tf.cli import lines
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string(
    "model", None, "Folder that export_model.py wrote, of all versions or of one.", required=True
)
lines.define_line_flags()


def main():
    lines.check_line_flags()
    predictor = bert_tf.serving.Predictor(FLAGS.model, FLAGS.batch_size)
    lines.answer_lines(predictor, predictor.path)
