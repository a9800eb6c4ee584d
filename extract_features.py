#!/usr/bin/env python3
r"""Write the hidden states of a pre-trained BERT for the tokens or words of texts.

The last four layers for each token, as lines of JSON:

    python extract_features.py --input_file=input.txt \
      --output_file=output.jsonl --model=uncased_L-12_H-768_A-12

One vector for each word:

    python extract_features.py --input_file=input.txt \
      --output_file=output.jsonl --model=uncased_L-12_H-768_A-12 \
      --words=mean --layer_combination=concat_last_four
"""

from absl import flags

import bert_tf
from bert_tf.cli import pretrained
from bert_tf.cli.flags import FLAGS, check_files, parse_numbers, run
from bert_tf.configs.model import LAYER_COMBINATIONS

pretrained.define_model_flags()
flags.DEFINE_string(
    "input_file", None, 'Text file with one text per line; " ||| " separates the texts of a pair.'
)
flags.DEFINE_string("output_file", None, "File to write.")
flags.DEFINE_list("layers", "-1,-2,-3,-4", "Layers to write: 0 is the first, -1 the last.")
flags.DEFINE_bool(
    "use_one_hot_embeddings", False, "No effect; accepted for compatibility with the release."
)
flags.DEFINE_enum(
    "layer_combination",
    None,
    list(LAYER_COMBINATIONS),
    "Combine layers into a single vector, as in table 7 of the BERT paper, instead of writing the "
    "layers separately.",
)
flags.DEFINE_list(
    "layer_weights", None, "Layer weights for a weighted sum. Default: equal weights."
)
flags.DEFINE_enum(
    "words",
    None,
    ["first", "mean"],
    "Write a vector per whitespace-delimited word instead of per token: the vector of its first "
    "token, or the mean over its tokens.",
)
flags.mark_flags_as_required(["input_file", "output_file"])


def main():
    from bert_tf.tasks.token_vectors.task import json_line  # imports TensorFlow

    layers, weights = parse_numbers("layers", int), parse_numbers("layer_weights", float)
    check_flags()
    options = {name: FLAGS[name].value for name in ("layer_combination", "words")}
    options |= {"layers": layers, "layer_weights": weights}
    vectors = pretrained.load(bert_tf.TokenVectors, **options)
    count = 0
    texts = bert_tf.io.files.read_lines(FLAGS.input_file)
    with bert_tf.io.files.writing_text(FLAGS.output_file) as write:
        for text in vectors.stream(texts, FLAGS.batch_size):
            write(json_line(count, text))
            count += 1
    bert_tf.console.info("wrote %s: the vectors of %d texts", FLAGS.output_file, count)


def check_flags():
    check_files()
    is_weighted = (FLAGS.layer_combination or "").startswith("weighted")
    if FLAGS.layer_weights is not None and not is_weighted:
        raise bert_tf.UserError("--layer_weights requires a weighted sum as --layer_combination")
    if FLAGS.layer_combination and FLAGS["layers"].present:
        raise bert_tf.UserError(
            f"--layers cannot be combined with --layer_combination={FLAGS.layer_combination}"
        )
    if is_weighted and FLAGS.layer_weights is None:
        bert_tf.console.info("no --layer_weights given: all layers have the same weight")


if __name__ == "__main__":
    run(main)
