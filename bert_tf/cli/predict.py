"""Answer lines of text with an exported model, in one process that stays up.

    echo "What a meal!" | bert-tf predict --model=/tmp/reviews

A line is a text, or several inputs separated by tabs, or with --json an object of the inputs or of
the columns of the training by name. Each answer is a line of JSON, in the order of the lines.

    bert-tf predict --model=/tmp/reviews --input_file=new.csv --output_file=answers.csv

A table (CSV, TSV, JSON, Parquet) is written with further columns: prediction and probabilities.
"""

from absl import flags

import bert_tf
from bert_tf.cli import lines
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string(
    "model",
    None,
    "Folder written by export_model.py, of all versions (the newest is used) or of one.",
    required=True,
)
lines.define_line_flags()


def main():
    lines.check_line_flags()
    predictor = bert_tf.serving.Predictor(FLAGS.model, FLAGS.batch_size)
    lines.answer_lines(predictor, predictor.path)
