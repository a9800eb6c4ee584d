"""Shows where the heads of a pre-trained BERT look: as a page, a picture, or in numbers."""

import contextlib
import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.pipelines.define_vector_flags()
flags.DEFINE_string("text", None, 'A text, or two with " ||| " between them.')
flags.DEFINE_string("input_file", None, "Texts, one a line; for a .tfrecord.")
flags.DEFINE_list(
    "output_file",
    None,
    "Files to write: a page (.html), a picture (.png, needs matplotlib), or all probabilities "
    "(.tfrecord), which bert_tf.pipelines.read_vectors reads.",
)
flags.DEFINE_list("layers", None, "Layers to show, from 0; all if not given.")
flags.DEFINE_list("heads", None, "Heads to show, from 0; all if not given.")
flags.DEFINE_bool("float16", False, "Numbers of the .tfrecord in half the bytes.")
flags.mark_flags_as_required(["output_file"])


def main():
    kinds = check_flags()
    layers = bert_tf.cli.pipelines.numbers("layers", int)
    heads = bert_tf.cli.pipelines.numbers("heads", int)
    attention = bert_tf.pipelines.Attention.from_preset(
        bert_tf.cli.pipelines.model_files(),
        layers=layers,
        heads=heads,
        **bert_tf.cli.pipelines.runner_options(),
    )
    texts = [FLAGS.text]
    if FLAGS.input_file:
        texts = bert_tf.pipelines.read_texts(FLAGS.input_file)
    with contextlib.ExitStack() as stack:
        write = None
        if ".tfrecord" in kinds:
            dtype = "float16" if FLAGS.float16 else "float32"
            write = stack.enter_context(
                bert_tf.pipelines.vector_writer(kinds[".tfrecord"], "tfrecord", dtype)
            )
        for text in attention(texts):
            if write:
                write(text)
            if ".html" in kinds:
                bert_tf.pipelines.write_page(kinds[".html"], text, attention.heads)
            if ".png" in kinds:
                bert_tf.pipelines.draw(kinds[".png"], text, attention.heads)
    bert_tf.console.info("wrote %s", ", ".join(FLAGS.output_file))


def check_flags():
    """Returns a dict from the ending of each file to its path."""
    if (FLAGS.text is None) == (FLAGS.input_file is None):
        raise bert_tf.UserError("one of --text and --input_file must be given")
    if FLAGS.input_file:
        bert_tf.files.require(FLAGS.input_file, "input_file")
    kinds = {os.path.splitext(path)[1]: path for path in FLAGS.output_file}
    for path in FLAGS.output_file:
        if os.path.splitext(path)[1] not in (".html", ".png", ".tfrecord"):
            raise bert_tf.UserError(f"--output_file: {path} ends in none of .html, .png, .tfrecord")
        bert_tf.files.check_writable(path, "output_file")
    if len(kinds) < len(FLAGS.output_file):
        raise bert_tf.UserError("--output_file: only one file of each kind can be written")
    if FLAGS.input_file and set(kinds) != {".tfrecord"}:
        raise bert_tf.UserError("--input_file wants one .tfrecord; a page or picture wants --text")
    if FLAGS.float16 and ".tfrecord" not in kinds:
        raise bert_tf.UserError("--float16 wants a .tfrecord to write")
    if ".png" in kinds:
        bert_tf.pipelines.matplotlib_parts()
    return kinds
