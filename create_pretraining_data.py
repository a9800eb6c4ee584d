#!/usr/bin/env python3
r"""Create TFRecord files of pre-training instances from text, for run_pretraining.py.

The text has one sentence per line and a blank line between documents:

    python create_pretraining_data.py --input_file=sample_text.txt \
      --output_file=/tmp/tf_examples.tfrecord --model=uncased_L-12_H-768_A-12

Process a large corpus of JSON lines in shards, with several processes:

    python create_pretraining_data.py --input_file='wiki/*.jsonl' \
      --output_file=records/wiki --num_shards=40 --num_processes=8 \
      --vocab_file=vocab.txt --do_whole_word_mask --dupe_factor=5

Flags, defaults and instances match the 2018 release. Flags marked (bert_tf) read other formats and
create large corpora in shards, with several processes (docs/pretraining.md).
"""

from absl import flags

import bert_tf
from bert_tf.cli import tensorflow_start
from bert_tf.cli.flags import (
    FLAGS,
    TOKENIZER_FLAGS,
    define_options,
    from_flags,
    run,
    tokenizer_options,
)
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.pretraining import PretrainingDataConfig
from bert_tf.data import pretraining, tfds
from bert_tf.io import files
from bert_tf.tokenization.vocabulary import mask_id, validate_case_matches_vocabulary

define_options(ModelConfig, only=("model", "vocab_file", *TOKENIZER_FLAGS))
define_options(PretrainingDataConfig)
flags.mark_flags_as_required(["output_file"])


def make_source(config):
    if config.tfds_name:
        return tfds.TfdsTextSource(
            config.tfds_name, config.tfds_split, config.text_field, config.tfds_data_dir
        )
    paths = files.expand(config.input_file, "input_file")
    source = pretraining.TextFileSource(
        paths, config.input_format, config.text_field, config.split_sentences
    )
    if config.is_given("text_field") and not any(map(source.is_json, range(source.num_files))):
        raise bert_tf.UserError(
            "--text_field: no input file has a JSON lines extension; pass --input_format=jsonl"
        )
    return source


def load_tokenizer():
    if FLAGS.model:
        needs = ["bert_config_file", "vocab_file"]
        return bert_tf.checkpoints.resolve(from_flags(ModelConfig), needs).tokenizer
    if not FLAGS.vocab_file:
        raise bert_tf.UserError("--vocab_file or --model is required")
    files.require(FLAGS.vocab_file, "vocab_file")
    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, **tokenizer_options())
    is_lower_case = tokenizer.basic_tokenizer.do_lower_case
    validate_case_matches_vocabulary(is_lower_case, tokenizer.vocab, FLAGS.vocab_file)
    return tokenizer


def output_paths(config, input_paths):
    """Return the paths of the output files; raise UserError if one cannot be written."""
    paths = [path.strip() for path in config.output_file.split(",") if path.strip()]
    if not paths or (config.num_shards and len(paths) > 1):
        expected = "one with --num_shards" if config.num_shards else "at least one"
        raise bert_tf.UserError(f"--output_file: found {len(paths)} files, expected {expected}")
    others = [*input_paths, *filter(None, [FLAGS.vocab_file])]
    # Complete shards may be in a read-only folder.
    check = files.check_output if config.num_shards else files.check_writable
    for number, path in enumerate(paths):
        check(path, "output_file", [*others, *paths[:number]])
        if config.num_shards and files.is_stream(path):
            raise bert_tf.UserError(f"--output_file: {path} is not a prefix of file names")
    return paths


def main():
    config = from_flags(PretrainingDataConfig)
    if FLAGS.model or config.tfds_name:
        tensorflow_start.import_tensorflow()
    source = make_source(config)
    tokenizer = load_tokenizer()
    mask_id(tokenizer.vocab)  # fail before hours of reading
    paths = output_paths(config, getattr(source, "paths", []))
    if not config.num_shards:
        pretraining.create_in_memory(source, paths, tokenizer, config.instances)
        return
    shards = pretraining.Shards(
        source, paths[0], tokenizer, config.instances, config.num_shards, config.work_dir
    )
    if config.runner:
        pretraining.create_with_beam(shards, config.runner, list(config.beam_option))
    else:
        shards.create(config.num_processes)


if __name__ == "__main__":
    run(main, needs_tensorflow=lambda: False)
