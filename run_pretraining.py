#!/usr/bin/env python3
"""Trains BERT on masked words and next sentences, from records of create_pretraining_data.py."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import define_options, from_flags, run
from bert_tf.configs.pretraining import PretrainingConfig

# Those of fine-tuning only.
_SKIP = ("do_lower_case", "strip_accents", "tokenize_chinese_chars", "num_train_epochs",
         "predict_batch_size", "pad_to_max_length", "bucket_by_length",
         "warmup_proportion")  # fmt: skip

define_options(PretrainingConfig, skip=_SKIP)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    bert_tf.training.pretrain(from_flags(PretrainingConfig))


if __name__ == "__main__":
    run(main)
