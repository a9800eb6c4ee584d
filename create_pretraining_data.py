#!/usr/bin/env python3
"""Makes TFRecords for run_pretraining.py from text.

The text has one sentence a line and a blank line between documents. The flags, their defaults and
the instances that come out are those of the 2018 release. Ours make a corpus of any size in shards,
by several processes, and of other text than lines (docs/pretraining.md).
"""

import os

from absl import flags

import bert_tf

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "Text files: paths or globs, separated by commas.")
flags.DEFINE_string(
    "output_file",
    None,
    "TFRecord files to write, separated by commas; each gets its share. With --num_shards one "
    "name, to which shards add -00000-of-00004 and so on.",
)
bert_tf.cli.flags.define_tokenizer_flags()
flags.DEFINE_bool("do_whole_word_mask", False, "Whether to mask whole words, not single pieces.")
flags.DEFINE_integer("max_seq_length", 128, "Number of tokens of an instance.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "The most masked tokens of an instance.")
flags.DEFINE_integer("random_seed", 12345, "Seed of everything that is drawn.")
flags.DEFINE_integer("dupe_factor", 10, "How many times to go through the text, masks anew.")
flags.DEFINE_float("masked_lm_prob", 0.15, "Share of the tokens to mask.")
flags.DEFINE_float("short_seq_prob", 0.1, "Share of the documents cut into shorter instances.")
# Text of other kinds.
flags.DEFINE_enum(
    "input_format",
    "auto",
    ["auto", "text", "jsonl"],
    "Ours: text is one sentence a line and a blank line between documents; jsonl one JSON object "
    "a line, each a document; auto is jsonl for names in .jsonl, .ndjson or .json, else text. What "
    "is packed by gzip is unpacked.",
)
flags.DEFINE_string("text_field", "text", "Ours: where a JSON object or an example has its text.")
flags.DEFINE_bool(
    "split_sentences", False, "Ours: find the sentences in the lines of text too, as in JSON."
)
flags.DEFINE_string("tfds_name", None, "Ours: data set of tensorflow-datasets, as wiki40b/en.")
flags.DEFINE_string("tfds_data_dir", None, "Ours: where tensorflow-datasets keeps its data sets.")
flags.DEFINE_string("tfds_split", "train", "Ours: split of that data set.")
# Text of any size.
flags.DEFINE_integer(
    "num_shards",
    0,
    "Ours: make so many shards, each by itself: its memory and not that of the text is needed, by "
    "several processes, and a run that was killed goes on. 0 makes all at once, as the release.",
    lower_bound=0,
    upper_bound=99999,
)
flags.DEFINE_integer("num_processes", 1, "Ours: how many processes make shards.", lower_bound=1)
flags.DEFINE_integer(
    "max_memory_mb",
    0,
    "Ours: what they may hold together; an error names a --num_shards that is about enough.",
    lower_bound=0,
)
flags.DEFINE_string(
    "work_dir",
    None,
    "Ours: local folder in which the tokens of shards are kept while they are made.",
)
flags.DEFINE_string(
    "runner",
    None,
    "Ours: make the shards by Apache Beam with this runner, as DirectRunner or DataflowRunner.",
)
flags.DEFINE_multi_string(
    "beam_option", [], "Ours: a flag for Beam, as --beam_option=--project=mine; may be repeated."
)
# Other objectives.
flags.DEFINE_enum(
    "objective",
    "nsp",
    ["nsp", "sop", "none"],
    "Ours: what to learn beside masked words: the next sentence (nsp), the order of sentences "
    "(sop), nothing (none), which gives full sentences.",
)
flags.DEFINE_integer("max_ngram", 1, "Ours: the most words in a row that are masked together.")
flags.DEFINE_enum(
    "word_boundaries",
    "pieces",
    ["pieces", "spaces"],
    "Ours: what whole words are: a piece and the ## pieces behind it, or what stands between "
    "spaces, for Chinese in which a segmenter has put spaces.",
)
flags.DEFINE_bool(
    "dynamic_masking",
    False,
    "Ours: mask nothing here; run_pretraining.py --dynamic_masking does it, anew in each epoch.",
)
flags.mark_flags_as_required(["output_file", "vocab_file"])


def make_source():
    """What the flags say of the input."""
    pretraining = bert_tf.data.pretraining
    if bool(FLAGS.input_file) == bool(FLAGS.tfds_name):
        raise bert_tf.UserError("one of --input_file and --tfds_name must be given, and not both")
    of_files, of_tfds = ("input_format", "split_sentences"), ("tfds_split", "tfds_data_dir")
    for name in of_files if FLAGS.tfds_name else of_tfds:
        if FLAGS[name].present:
            other = "input_file" if FLAGS.tfds_name else "tfds_name"
            raise bert_tf.UserError(f"--{name} wants --{other}")
    if FLAGS.tfds_name:
        return bert_tf.data.tfds.TextSource(
            FLAGS.tfds_name, FLAGS.tfds_split, FLAGS.text_field, FLAGS.tfds_data_dir
        )
    inputs = bert_tf.files.expand(FLAGS.input_file, "input_file")
    source = pretraining.FileSource(
        inputs, FLAGS.input_format, FLAGS.text_field, FLAGS.split_sentences
    )
    if FLAGS["text_field"].present and not any(map(source.is_json, range(source.num_files))):
        raise bert_tf.UserError(
            "--text_field: no file is read as JSON lines, by its name; --input_format=jsonl says so"
        )
    return source


def output_files(input_files):
    """The files to write; what can go wrong with them is found before hours are spent."""
    paths = [path.strip() for path in FLAGS.output_file.split(",") if path.strip()]
    if not paths:
        raise bert_tf.UserError("--output_file: no file is named")
    if FLAGS.num_shards and len(paths) > 1:
        raise bert_tf.UserError("--output_file: one name was expected with --num_shards")
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
        **{name: FLAGS[name].value for name in pretraining.Settings._fields}
    ).check()
    if FLAGS.dynamic_masking and FLAGS["masked_lm_prob"].present:
        raise bert_tf.UserError(
            "--masked_lm_prob goes to run_pretraining.py with --dynamic_masking: nothing is masked "
            "here"
        )
    if not FLAGS.num_shards:
        for name in ("num_processes", "max_memory_mb", "work_dir", "runner"):
            if FLAGS[name].present:
                raise bert_tf.UserError(f"--{name} wants --num_shards")
    if FLAGS.runner:
        for name in ("num_processes", "max_memory_mb"):
            if FLAGS[name].present:
                raise bert_tf.UserError(f"--{name} does not go with --runner: Beam has its own")
    elif FLAGS.beam_option:
        raise bert_tf.UserError("--beam_option wants --runner")
    source = make_source()
    bert_tf.files.require(FLAGS.vocab_file, "vocab_file")
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    outputs = output_files(getattr(source, "paths", []))
    if FLAGS.num_shards:
        shards = pretraining.Shards(
            source, outputs[0], tokenizer, settings, FLAGS.num_shards, FLAGS.work_dir
        )
        if FLAGS.runner:
            pretraining.beam.make(shards, FLAGS.runner, FLAGS.beam_option)
        else:
            shards.make(FLAGS.num_processes, FLAGS.max_memory_mb)
    else:
        pretraining.make_whole(source, outputs, tokenizer, settings)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main, needs_tensorflow=False)
