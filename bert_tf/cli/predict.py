r"""Answer lines of text with a model.

    echo "What a meal!" | bert-tf predict --model=/tmp/reviews

A line has the model's inputs, separated by tabs. With --json, it is a JSON object whose keys are
the inputs or the columns used for training. Each answer is a line of JSON, in the order of the
input.

    bert-tf predict --model=/tmp/reviews --input_file=new.csv \
      --output_file=answers.csv

For a table (CSV, TSV, JSON, Parquet), columns with predictions and probabilities are added.
"""

from absl import flags

import bert_tf
from bert_tf.cli import lines
from bert_tf.cli.flags import FLAGS
from bert_tf.configs.export import ServingConfig
from bert_tf.configs.model import ModelConfig
from bert_tf.serving.predictor import ONNX_FILE, Predictor, find_version

flags.DEFINE_string(
    "model",
    None,
    "Folder written by export_model.py (the newest version is used), folder of a training run, "
    "Hugging Face folder, name of a published model, or OWNER/NAME[@REVISION] of the Hugging Face "
    "hub.",
    required=True,
)
lines.define_line_flags()


def needs_tensorflow():
    return "://" in FLAGS.model or find_version(FLAGS.model)[1] != ONNX_FILE


def main():
    lines.check_line_flags()
    predictor = Predictor(_load() if needs_tensorflow() else FLAGS.model, FLAGS.batch_size)
    lines.answer_lines(predictor, FLAGS.model)


def _load():
    """Return the folder of an exported model, or the `Servable` of another one."""
    model = bert_tf.checkpoints.hub.local_folder(FLAGS.model)
    metadata = bert_tf.checkpoints.metadata
    is_folder = bert_tf.io.files.is_folder(model)
    is_empty = is_folder and not metadata.find_companion_file(model, metadata.CONFIG_FILES)
    if find_version(model)[1] or is_empty:
        return model
    from bert_tf.tasks import registry  # imports TensorFlow

    task = registry.load(ModelConfig(model))
    return task.make_servable(task.model, task.config, ServingConfig())
