r"""Answer lines of text with a model in TF Serving, over REST or gRPC.

    echo "What a meal!" | bert-tf ask --server=localhost:8501 \
      --model_name=reviews

Add columns with the answers to a table:

    bert-tf ask --model_name=reviews --api=grpc --input_file=new.csv \
      --output_file=answers.csv

The input and the answers have the same formats as for `bert-tf predict`.
"""

from absl import flags

import bert_tf
from bert_tf.cli import lines, tensorflow_start
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string(
    "server",
    None,
    "host:port of the server. Default: localhost:8501, or localhost:8500 for grpc.",
)
flags.DEFINE_enum("api", "rest", ["rest", "grpc"], "API to use.")
flags.DEFINE_string("model_name", None, "Name of the model on the server.", required=True)
flags.DEFINE_integer("version", None, "Version of the model. Default: the newest.", 0)
flags.DEFINE_string(
    "model_json", None, "The file assets.extra/model.json of the model, for the label names."
)
flags.DEFINE_float("timeout", 60.0, "Seconds before a request times out, including retries.", 0.001)
flags.DEFINE_integer("retries", 5, "Maximum number of retries if the server is unavailable.", 0)
lines.define_line_flags(batch_size=32)

# The REST client does not use TensorFlow.
NEEDS_TENSORFLOW = False

_PORTS = {"rest": 8501, "grpc": 8500}


def main():
    lines.check_line_flags()
    metadata = bert_tf.serving.read_metadata(FLAGS.model_json) if FLAGS.model_json else None
    if metadata and FLAGS.version is None:
        bert_tf.console.info(
            "without --version, requests go to the newest version of the model, whose labels may "
            "differ from --model_json"
        )
    if FLAGS.api == "grpc":
        tensorflow_start.import_tensorflow()  # for the messages of tensorflow-serving-api
    client = bert_tf.serving.Client(
        FLAGS.server or f"localhost:{_PORTS[FLAGS.api]}",
        FLAGS.model_name,
        api=FLAGS.api,
        version=FLAGS.version,
        metadata=metadata,
        batch_size=FLAGS.batch_size,
        timeout=FLAGS.timeout,
        retries=FLAGS.retries,
    )
    lines.answer_lines(client, f"{client.server} {FLAGS.model_name}")
