#!/usr/bin/env python3
"""Create TFRecords for run_pretraining.py from text.

The text has one sentence per line and a blank line between documents. Flags, defaults and the
resulting instances are those of the 2018 release. Flags marked (bert_tf) read other kinds of text
and create corpora of any size in shards, with several processes (docs/pretraining.md).
"""

import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import (
    FLAGS,
    define_options,
    define_tokenizer_flags,
    from_flags,
    run,
    tokenizer_options,
)
from bert_tf.configs.pretraining import InstanceConfig
from bert_tf.configs.train import MAX_PROCESSES

flags.DEFINE_string("input_file", None, "Text files: comma-separated paths or globs.")
flags.DEFINE_string(
    "output_file",
    None,
    "Comma-separated TFRecord files to write; each gets an equal share. With --num_shards a single "
    "name, to which the shards append -00000-of-00004 and so on.",
)
define_tokenizer_flags()
define_options(InstanceConfig)
# Other kinds of text.
flags.DEFINE_enum(
    "input_format",
    "auto",
    ["auto", "text", "jsonl"],
    "text is one sentence per line and a blank line between documents; jsonl is one JSON object "
    "per line, each a document; auto is jsonl for names in .jsonl, .ndjson or .json, else text. "
    "Files compressed by gzip are unpacked. (bert_tf)",
)
flags.DEFINE_string(
    "text_field", "text", "Key of the text in a JSON object or an example of a dataset. (bert_tf)"
)
flags.DEFINE_bool(
    "split_sentences", False, "Split lines of text into sentences, as is done for JSON. (bert_tf)"
)
flags.DEFINE_string(
    "tfds_name", None, "Dataset of tensorflow-datasets, such as wiki40b/en. (bert_tf)"
)
flags.DEFINE_string("tfds_data_dir", None, "Data folder of tensorflow-datasets. (bert_tf)")
flags.DEFINE_string("tfds_split", "train", "Split of --tfds_name. (bert_tf)")
# Text of any size.
flags.DEFINE_integer(
    "num_shards",
    0,
    "Create this many independent shards: with the memory of a shard instead of the whole text, "
    "several processes, and resuming after a run was killed. 0 creates everything in memory, as "
    "the 2018 release does. (bert_tf)",
    lower_bound=0,
    upper_bound=99999,
)
flags.DEFINE_integer(
    "num_processes",
    1,
    "Number of processes that create shards. (bert_tf)",
    lower_bound=1,
    upper_bound=MAX_PROCESSES,
)
flags.DEFINE_integer(
    "max_memory_mb",
    0,
    "Memory limit of all processes together; if it is too low, an error suggests a --num_shards. "
    "0 for no limit. (bert_tf)",
    lower_bound=0,
)
flags.DEFINE_string(
    "work_dir", None, "Local folder for the tokens of shards until these are complete. (bert_tf)"
)
flags.DEFINE_string(
    "runner",
    None,
    "Create the shards by Apache Beam with this runner, such as DirectRunner or DataflowRunner. "
    "(bert_tf)",
)
flags.DEFINE_multi_string(
    "beam_option",
    [],
    "A flag of Beam, such as --beam_option=--project=mine; may be repeated. (bert_tf)",
)
flags.mark_flags_as_required(["output_file", "vocab_file"])


def check_flag_combinations():
    """Raise UserError if a flag is given without the flag that it depends on."""

    def check(names, is_applicable, reason):
        for name in names:
            if FLAGS[name].present and not is_applicable:
                raise bert_tf.UserError(f"--{name} {reason}")

    check(
        ["masked_lm_prob"],
        not FLAGS.dynamic_masking,
        "cannot be combined with --dynamic_masking; pass it to run_pretraining.py",
    )
    shard_flags = ("num_processes", "max_memory_mb", "work_dir", "runner")
    check(shard_flags, FLAGS.num_shards, "requires --num_shards")
    check(
        ["num_processes", "max_memory_mb"],
        not FLAGS.runner,
        "cannot be combined with --runner; use the options of Beam",
    )
    check(["beam_option"], FLAGS.runner, "requires --runner")
    if bool(FLAGS.input_file) == bool(FLAGS.tfds_name):
        raise bert_tf.UserError("exactly one of --input_file and --tfds_name is required")
    check(["input_format", "split_sentences"], not FLAGS.tfds_name, "requires --input_file")
    check(["tfds_split", "tfds_data_dir"], FLAGS.tfds_name, "requires --tfds_name")


def make_source():
    """Return the source of text for the flags."""
    if FLAGS.tfds_name:
        return bert_tf.data.tfds_builder.TfdsTextSource(
            FLAGS.tfds_name, FLAGS.tfds_split, FLAGS.text_field, FLAGS.tfds_data_dir
        )
    paths = bert_tf.io.files.expand(FLAGS.input_file, "input_file")
    source = bert_tf.data.pretraining.FileSource(
        paths, FLAGS.input_format, FLAGS.text_field, FLAGS.split_sentences
    )
    if FLAGS["text_field"].present and not any(map(source.is_json, range(source.num_files))):
        raise bert_tf.UserError(
            "--text_field: no file has a name of JSON lines; pass --input_format=jsonl"
        )
    return source


def output_paths(input_paths):
    """Return the files to write, after checking that they can be written.

    With --num_shards that is left to `Shards`, because all shards may exist in a folder that cannot
    be written.
    """
    paths = [path.strip() for path in FLAGS.output_file.split(",") if path.strip()]
    if not paths:
        raise bert_tf.UserError("--output_file: no file is named")
    if FLAGS.num_shards and len(paths) > 1:
        raise bert_tf.UserError("--output_file: expected a single name with --num_shards")
    inputs = {os.path.realpath(path) for path in [*input_paths, FLAGS.vocab_file]}
    for path in paths:
        if paths.count(path) > 1:
            raise bert_tf.UserError(f"--output_file: {path} is named twice")
        if os.path.realpath(path) in inputs:
            raise bert_tf.UserError(f"--output_file: {path} is also an input file")
        if os.path.isdir(path):
            raise bert_tf.UserError(f"--output_file: {path} is a folder, expected a file")
        if not FLAGS.num_shards:
            bert_tf.io.files.check_writable(path, "output_file")
    return paths


def main():
    pretraining = bert_tf.data.pretraining
    config = from_flags(InstanceConfig).validate()
    check_flag_combinations()
    source = make_source()
    bert_tf.io.files.require(FLAGS.vocab_file, "vocab_file")
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, **tokenizer_options())
    paths = output_paths(getattr(source, "paths", []))
    if not FLAGS.num_shards:
        pretraining.create_in_memory(source, paths, tokenizer, config)
        return
    shards = pretraining.Shards(
        source, paths[0], tokenizer, config, FLAGS.num_shards, FLAGS.work_dir
    )
    if FLAGS.runner:
        pretraining.beam.create_shards(shards, FLAGS.runner, FLAGS.beam_option)
    else:
        shards.create(FLAGS.num_processes, FLAGS.max_memory_mb)


if __name__ == "__main__":
    run(main, needs_tensorflow=False)
