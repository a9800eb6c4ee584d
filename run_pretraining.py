#!/usr/bin/env python3
"""Pre-train BERT on masked words and next sentences, with records of create_pretraining_data.py."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import TOKENIZER_FLAGS, command_line, define_options, from_flags, run
from bert_tf.configs.pretraining import FINE_TUNING_ONLY, PretrainingConfig

_SKIP = (*FINE_TUNING_ONLY, *TOKENIZER_FLAGS, "warmup_proportion")

define_options(PretrainingConfig(), skip=_SKIP)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    bert_tf.training.pretrain(from_flags(PretrainingConfig()), command_line())


if __name__ == "__main__":
    run(main)
