#!/usr/bin/env python3
"""Trains BERT on masked words and next sentences, from records of create_pretraining_data.py."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import (
    define_device_flags,
    define_model_flags,
    define_training_flags,
    from_flags,
    run,
)

define_model_flags()
define_training_flags()
define_device_flags()
flags.DEFINE_string("input_file", None, "TFRecord files: paths or globs, separated by commas.")
flags.DEFINE_string(
    "eval_file", None, "TFRecord files to evaluate on, input_file if not given. (bert_tf)"
)
flags.DEFINE_string("output_dir", None, "Folder for checkpoints, summaries and results.")
flags.DEFINE_integer(
    "max_seq_length", 128, "Length of the sequences, as in create_pretraining_data.py."
)
flags.DEFINE_integer(
    "max_predictions_per_seq",
    20,
    "Masked words in a sequence, as in create_pretraining_data.py.",
)
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after training if both are given.")
flags.DEFINE_integer("num_train_steps", 100000, "Number of training steps.", lower_bound=1)
flags.DEFINE_integer("num_warmup_steps", 10000, "Number of warm-up steps.", lower_bound=0)
flags.DEFINE_integer("max_eval_steps", 100, "Maximum number of evaluation batches.", lower_bound=1)
flags.DEFINE_enum(
    "objective",
    "nsp",
    ["nsp", "sop", "none"],
    "What the records teach besides masked words, as in create_pretraining_data.py: next sentence "
    "or sentence order, which are trained alike, or nothing. (bert_tf)",
)
flags.DEFINE_bool(
    "dynamic_masking",
    False,
    "Mask words during training, differently in each epoch; the records are made with "
    "--dynamic_masking. (bert_tf)",
)
flags.DEFINE_float(
    "masked_lm_prob", 0.15, "Share of the tokens to mask with dynamic_masking. (bert_tf)"
)
flags.DEFINE_string(
    "vocab_file", None, "Vocabulary of the records, to mask with dynamic_masking. (bert_tf)"
)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    training = bert_tf.training
    config = from_flags(
        training.PretrainingConfig,
        model=from_flags(training.ModelConfig),
        train=from_flags(training.TrainConfig),
        optimizer=from_flags(training.OptimizerConfig),
        device=from_flags(training.DeviceConfig),
    )
    training.pretrain(config)


if __name__ == "__main__":
    run(main)
