"""Answers lines of text with a model that TF Serving serves, by REST or gRPC.

    echo "What a meal!" | bert-tf ask --server=localhost:8501 --model_name=reviews

Lines and answers are those of predict.py.
"""

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string(
    "server", None, "host:port of the server; localhost:8501 for rest, :8500 for grpc if not given."
)
flags.DEFINE_enum("api", "rest", ["rest", "grpc"], "How to ask.")
flags.DEFINE_string("model_name", None, "Name of the model at the server.", required=True)
flags.DEFINE_integer("version", None, "Version to ask; the newest if not given.", lower_bound=0)
flags.DEFINE_string(
    "model_json", None, "The model.json of the model's assets.extra, for the names of labels."
)
flags.DEFINE_float(
    "timeout", 60.0, "Seconds that a request may take, asking again included.", lower_bound=0.001
)
flags.DEFINE_integer(
    "retries", 5, "How often a server that is unavailable is asked again.", lower_bound=0
)
bert_tf.cli.lines.define_line_flags()

_PORTS = {"rest": 8501, "grpc": 8500}


def main():
    bert_tf.cli.lines.check_line_flags()
    about = bert_tf.serving.read_metadata(FLAGS.model_json) if FLAGS.model_json else None
    if about and FLAGS.version is None:
        bert_tf.console.info(
            "--model_json is of one version, and without --version the newest is asked, whose "
            "labels may be others"
        )
    if FLAGS.api == "grpc":
        bert_tf.cli.flags.import_tensorflow()  # its messages are in the package
    client = bert_tf.serving.Client(
        FLAGS.server or f"localhost:{_PORTS[FLAGS.api]}",
        FLAGS.model_name,
        api=FLAGS.api,
        version=FLAGS.version,
        about=about,
        batch_size=FLAGS.batch_size,
        timeout=FLAGS.timeout,
        retries=FLAGS.retries,
    )
    bert_tf.cli.lines.answer_lines(client, f"{client.server} {FLAGS.model_name}")


NEEDS_TENSORFLOW = False
