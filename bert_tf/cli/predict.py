r"""Answer lines of text with a model, in one process that stays up.

    echo "What a meal!" | bert-tf predict --model=/tmp/reviews

A line is a text, or several inputs separated by tabs, or with --json an object of the inputs or of
the columns of the training by name. Each answer is a line of JSON, in the order of the lines.

    bert-tf predict --model=/tmp/reviews --input_file=new.csv \
      --output_file=answers.csv

A table (CSV, TSV, JSON, Parquet) is written with further columns: prediction and probabilities.
The model may also be the folder of a run, a Hugging Face folder, or the name of a published model.
"""

from absl import flags

import bert_tf
from bert_tf.cli import lines
from bert_tf.cli.flags import FLAGS
from bert_tf.configs.export import ServingConfig
from bert_tf.configs.model import ModelConfig

flags.DEFINE_string(
    "model",
    None,
    "Folder written by export_model.py, of all versions (the newest is used) or of one; or the "
    "folder of a run, a Hugging Face folder, the name of a published model, or "
    "hf://OWNER/NAME[@REVISION], whose head determines the answers.",
    required=True,
)
lines.define_line_flags()


def main():
    lines.check_line_flags()
    lines.answer_lines(load_predictor(FLAGS.model, FLAGS.batch_size), FLAGS.model)


def load_predictor(model, batch_size):
    """Return the `serving.Predictor` of an exported model, or a similar object for other models."""
    metadata, model = bert_tf.checkpoints.metadata, bert_tf.checkpoints.local_folder(model)
    has_config = metadata.find_companion_file(model, metadata.CONFIG_FILES)
    is_other = has_config or model in bert_tf.checkpoints.MODELS
    if bert_tf.serving.is_exported(model) or not is_other:
        return bert_tf.serving.Predictor(model, batch_size)
    needs = ("init_checkpoint", "bert_config_file", "vocab_file")
    model_files = bert_tf.checkpoints.resolve(ModelConfig(model), needs)
    servable = bert_tf.tasks.load_servable(model_files, ServingConfig())
    return bert_tf.serving.ServablePredictor(servable, batch_size)
