#!/usr/bin/env python3
r"""Pre-train BERT on masked words and next sentences, from create_pretraining_data.py's records.

Continue pre-training a published model on your own text:

    python run_pretraining.py --input_file=/tmp/tf_examples.tfrecord \
      --do_train --do_eval --model=uncased_L-12_H-768_A-12 \
      --num_train_steps=20 --num_warmup_steps=10 --learning_rate=2e-5 \
      --output_dir=/tmp/pretrained

Train a model from scratch on many files:

    python run_pretraining.py --input_file='records/wiki-*' --do_train \
      --bert_config_file=bert_config.json --train_batch_size=256 \
      --learning_rate=1e-4 --num_train_steps=1000000 --dtype=bfloat16 \
      --output_dir=pretrained
"""

from absl import flags

import bert_tf
from bert_tf.cli.flags import (
    TOKENIZER_FLAGS,
    TRAINING_BACKENDS,
    command_line,
    define_options,
    from_flags,
    run,
)
from bert_tf.cli.tensorflow_start import keep_freed_memory
from bert_tf.configs.pretraining import UNUSED_OPTIONS, PretrainingConfig

_SKIP = (*UNUSED_OPTIONS, *TOKENIZER_FLAGS, "warmup_proportion")

define_options(PretrainingConfig, skip=_SKIP)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    keep_freed_memory()
    bert_tf.training.pretrain(from_flags(PretrainingConfig), command_line())


if __name__ == "__main__":
    run(main, backends=TRAINING_BACKENDS)
