r"""Write the attention probabilities of a pre-trained BERT as HTML, PNG or TFRecord.

    bert-tf attention --model=uncased_L-12_H-768_A-12 --output_file=cat.html \
      --text="The cat sat on the mat, because it was tired."

Selected layers and heads, also as a picture:

    bert-tf attention --model=uncased_L-12_H-768_A-12 \
      --output_file=cat.html,cat.png --text="The cat sat. ||| It was tired." \
      --layers=0,5,11 --heads=0,1,2
"""

import contextlib
import os

from absl import flags

import bert_tf
from bert_tf.cli import pipelines
from bert_tf.cli.flags import FLAGS

pipelines.define_pipeline_flags()
flags.DEFINE_string("text", None, 'Input text; " ||| " separates the texts of a pair.')
flags.DEFINE_string(
    "input_file", None, "Text file with one text per line. Requires a .tfrecord output_file."
)
flags.DEFINE_list(
    "output_file",
    None,
    "Files to write: a page (.html), a picture (.png, requires matplotlib), or all probabilities "
    "(.tfrecord, for bert_tf.pipelines.read_vectors).",
)
flags.DEFINE_list("layers", None, "Layers to include, counted from 0. Default: all.")
flags.DEFINE_list("heads", None, "Heads to include, counted from 0. Default: all.")
flags.DEFINE_bool("float16", False, "Whether to write the .tfrecord in float16, at half the size.")
flags.mark_flags_as_required(["output_file"])


def main():
    paths = check_flags()
    layers = pipelines.parse_numbers("layers", int)
    heads = pipelines.parse_numbers("heads", int)
    attention = bert_tf.pipelines.Attention.from_preset(
        pipelines.model_files(), layers=layers, heads=heads, **pipelines.pipeline_options()
    )
    texts = bert_tf.pipelines.read_texts(FLAGS.input_file) if FLAGS.input_file else [FLAGS.text]
    writer = contextlib.nullcontext()
    if ".tfrecord" in paths:
        dtype = "float16" if FLAGS.float16 else "float32"
        writer = bert_tf.pipelines.vector_writer(paths[".tfrecord"], "tfrecord", dtype)
    with writer as write:
        for text in attention(texts):
            if write:
                write(text)
            if ".html" in paths:
                bert_tf.pipelines.write_attention_page(paths[".html"], text, attention.heads)
            if ".png" in paths:
                bert_tf.pipelines.draw_attention(paths[".png"], text, attention.heads)
    bert_tf.console.info("wrote %s", ", ".join(FLAGS.output_file))


def check_flags():
    """Return a dict from extension to output path; raise UserError for invalid flags."""
    if (FLAGS.text is None) == (FLAGS.input_file is None):
        raise bert_tf.UserError("exactly one of --text and --input_file is required")
    if FLAGS.input_file:
        bert_tf.io.files.require(FLAGS.input_file, "input_file")
    paths = {os.path.splitext(path)[1]: path for path in FLAGS.output_file}
    for extension, path in paths.items():
        if extension not in (".html", ".png", ".tfrecord"):
            raise bert_tf.UserError(
                f"--output_file={path}: expected the extension .html, .png or .tfrecord"
            )
        bert_tf.io.files.check_writable(path, "output_file")
    if len(paths) < len(FLAGS.output_file):
        raise bert_tf.UserError(
            "--output_file: found several files with the same extension, expected one of each"
        )
    if FLAGS.input_file and set(paths) != {".tfrecord"}:
        raise bert_tf.UserError(
            "--input_file requires a single .tfrecord as --output_file; .html and .png require "
            "--text"
        )
    if FLAGS.float16 and ".tfrecord" not in paths:
        raise bert_tf.UserError("--float16 requires a .tfrecord as --output_file")
    if ".png" in paths:
        bert_tf.pipelines.import_matplotlib()
    return paths
