#!/usr/bin/env python3
"""Writes the vectors that a pre-trained BERT has for the tokens or words of texts."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.pipelines.define_vector_flags()
flags.DEFINE_string(
    "input_file", None, 'Texts, one a line; the two texts of a pair have " ||| " between them.'
)
flags.DEFINE_string("output_file", None, "The file to write.")
flags.DEFINE_list("layers", "-1,-2,-3,-4", "Layers to give: 0 is the lowest, -1 the last.")
flags.DEFINE_bool(
    "use_one_hot_embeddings",
    False,
    "Of the release, for TPUs; it has no effect here, embeddings are looked up in the best way.",
)
flags.DEFINE_enum(
    "way",
    None,
    [
        "embeddings",
        "second_to_last",
        "last",
        "weighted_sum_last_four",
        "concat_last_four",
        "weighted_sum_all",
    ],
    "Ours: one vector made of the layers as in the paper's table 7, instead of --layers.",
)
flags.DEFINE_list(
    "layer_weights", None, "Ours: what each layer of a weighted sum weighs, equal if not given."
)
flags.DEFINE_enum(
    "words",
    None,
    ["first", "mean"],
    "Ours: a vector for each word between white space instead of each token: that of its first "
    "token, or the mean over its tokens.",
)
flags.DEFINE_enum(
    "output_format",
    "json",
    ["json", "tfrecord"],
    "Ours: the release's JSON lines, or a compact TFRecord that bert_tf.pipelines.read_vectors "
    "reads.",
)
flags.DEFINE_bool("float16", False, "Ours: numbers of the compact form in half the bytes.")
flags.mark_flags_as_required(["input_file", "output_file"])


def main():
    layers = bert_tf.cli.pipelines.numbers("layers", int)
    layer_weights = bert_tf.cli.pipelines.numbers("layer_weights", float)
    bert_tf.files.require(FLAGS.input_file, "input_file")
    bert_tf.files.check_writable(FLAGS.output_file, "output_file")
    if FLAGS.float16 and FLAGS.output_format == "json":
        raise bert_tf.UserError("--float16 wants --output_format=tfrecord")
    if FLAGS.layer_weights is not None and not (FLAGS.way or "").startswith("weighted"):
        raise bert_tf.UserError("--layer_weights wants a weighted sum as --way")
    if FLAGS.way and FLAGS["layers"].present:
        raise bert_tf.UserError(f"--layers and --way={FLAGS.way} exclude each other")
    if (FLAGS.way or "").startswith("weighted") and FLAGS.layer_weights is None:
        bert_tf.console.info("no --layer_weights: all layers weigh the same, nothing is learnt")
    vectors = bert_tf.pipelines.TokenVectors.from_preset(
        bert_tf.cli.pipelines.model_files(),
        layers=layers,
        way=FLAGS.way,
        layer_weights=layer_weights,
        words=FLAGS.words,
        **bert_tf.cli.pipelines.runner_options(),
    )
    count = 0
    dtype = "float16" if FLAGS.float16 else "float32"
    with bert_tf.pipelines.vector_writer(FLAGS.output_file, FLAGS.output_format, dtype) as write:
        for text in vectors(bert_tf.pipelines.read_texts(FLAGS.input_file)):
            count += 1
            write(text)
    bert_tf.console.info("wrote %s: the vectors of %d texts", FLAGS.output_file, count)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
