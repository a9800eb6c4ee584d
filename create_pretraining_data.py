#!/usr/bin/env python3
"""Makes TFRecords for run_pretraining.py from plain text.

The text has one sentence a line and a blank line between documents. The flags, their defaults and
the instances that come out are those of the 2018 release.
"""

import os

from absl import flags

import bert_tf

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "Text files: paths or globs, separated by commas.")
flags.DEFINE_string(
    "output_file", None, "TFRecord files to write, separated by commas; each gets its share."
)
bert_tf.flags.define_tokenizer_flags()
flags.DEFINE_bool("do_whole_word_mask", False, "Whether to mask whole words, not single pieces.")
flags.DEFINE_integer("max_seq_length", 128, "Number of tokens of an instance.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "The most masked tokens of an instance.")
flags.DEFINE_integer("random_seed", 12345, "Seed of everything that is drawn.")
flags.DEFINE_integer("dupe_factor", 10, "How many times to go through the text, masks anew.")
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to mask.")
flags.DEFINE_float("short_seq_prob", 0.1, "Share of the documents cut into shorter instances.")
flags.mark_flags_as_required(["input_file", "output_file", "vocab_file"])


def output_files(input_files):
    """The files to write; what can go wrong with them is found before hours are spent."""
    paths = [path.strip() for path in FLAGS.output_file.split(",") if path.strip()]
    if not paths:
        raise bert_tf.UserError("--output_file: no file is named")
    read = {os.path.realpath(path) for path in [*input_files, FLAGS.vocab_file]}
    for path in paths:
        if paths.count(path) > 1:
            raise bert_tf.UserError(f"--output_file: {path} is named twice")
        if os.path.realpath(path) in read:
            raise bert_tf.UserError(f"--output_file: {path} is also to be read")
        if os.path.isdir(path):
            raise bert_tf.UserError(f"--output_file: {path} is a folder, a file was expected")
        bert_tf.files.check_writable(path, "output_file")
    return paths


def main():
    pretraining = bert_tf.data.pretraining
    settings = pretraining.Settings(
        max_seq_length=FLAGS.max_seq_length,
        max_predictions_per_seq=FLAGS.max_predictions_per_seq,
        masked_lm_prob=FLAGS.masked_lm_prob,
        short_seq_prob=FLAGS.short_seq_prob,
        dupe_factor=FLAGS.dupe_factor,
        do_whole_word_mask=FLAGS.do_whole_word_mask,
        random_seed=FLAGS.random_seed,
    ).check()
    inputs = bert_tf.files.expand(FLAGS.input_file, "input_file")
    bert_tf.files.require(FLAGS.vocab_file, "vocab_file")
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    outputs = output_files(inputs)

    corpus = pretraining.read_corpus(inputs, tokenizer)
    instances = pretraining.create_instances(corpus, tokenizer.vocab, settings)
    pretraining.write(outputs, instances, corpus, tokenizer.vocab, settings)
    pretraining.summarize(instances, corpus, tokenizer.vocab)


if __name__ == "__main__":
    bert_tf.flags.run(main)
