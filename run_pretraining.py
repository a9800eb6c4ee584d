#!/usr/bin/env python3
"""Trains BERT on masked words and next sentences, from records of create_pretraining_data.py."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import define_options, from_flags, run
from bert_tf.options import (
    DeviceConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainingConfig,
    TrainConfig,
)

define_options(PretrainingConfig)
define_options(ModelConfig, skip=("do_lower_case", "strip_accents", "tokenize_chinese_chars"))
define_options(TrainConfig, skip=("num_train_epochs", "predict_batch_size", "pad_to_max_length"))
define_options(OptimizerConfig, skip=("warmup_proportion",))
define_options(DeviceConfig)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    bert_tf.training.pretrain(from_flags(PretrainingConfig))


if __name__ == "__main__":
    run(main)
