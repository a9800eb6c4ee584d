#!/usr/bin/env python3
"""Trains BERT on masked words and next sentences, from records of create_pretraining_data.py."""

import os

from absl import flags

import bert_tf
from bert_tf.flags import FLAGS

bert_tf.flags.define_model_flags()
bert_tf.flags.define_training_flags()
bert_tf.flags.define_device_flags()
flags.DEFINE_string("input_file", None, "TFRecord files: paths or globs, separated by commas.")
flags.DEFINE_string("output_dir", None, "Folder for checkpoints, summaries and results.")
flags.DEFINE_integer(
    "max_seq_length", 128, "Length of the sequences, as in create_pretraining_data.py."
)
flags.DEFINE_integer(
    "max_predictions_per_seq", 20, "Masked words a sequence, as in create_pretraining_data.py."
)
flags.DEFINE_bool("do_train", False, "Whether to train.")
flags.DEFINE_bool("do_eval", False, "Whether to evaluate, after training if both are asked for.")
flags.DEFINE_integer("num_train_steps", 100000, "Number of training steps.", lower_bound=1)
flags.DEFINE_integer("num_warmup_steps", 10000, "Number of warm-up steps.", lower_bound=0)
flags.DEFINE_integer("max_eval_steps", 100, "Most batches to evaluate on.", lower_bound=1)
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise bert_tf.UserError("one of --do_train and --do_eval must be set")
    bert_tf.flags.resolve_model("bert_config_file")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    bert_tf.tasks.check_length(FLAGS.max_seq_length, config)
    paths = bert_tf.files.expand(FLAGS.input_file, "input_file")
    schema = bert_tf.data.records.PRETRAINING
    lengths = {"S": FLAGS.max_seq_length, "P": FLAGS.max_predictions_per_seq}
    limits = bert_tf.data.records.limits(schema, config, lengths)
    bert_tf.data.records.check(paths, schema, lengths)
    bert_tf.files.make_folder(FLAGS.output_dir)

    bert_tf.training.set_seed(FLAGS.seed)
    strategy = bert_tf.training.make_strategy(**bert_tf.flags.device_options())
    bert_tf.flags.check_batch_sizes(strategy, train=FLAGS.do_train, eval=FLAGS.do_eval)
    trainer = bert_tf.training.Trainer(
        lambda: bert_tf.tasks.PretrainingTask(config),
        strategy,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
    )

    if FLAGS.do_train:
        # Beside the checkpoints, so that a run can be converted and started from as it is.
        path = os.path.join(FLAGS.output_dir, "bert_config.json")
        bert_tf.files.write_text(path, config.to_json_string())
        if FLAGS.num_warmup_steps >= FLAGS.num_train_steps:
            bert_tf.console.warning(
                "--num_warmup_steps=%d is not less than --num_train_steps=%d: the learning rate "
                "never reaches --learning_rate",
                FLAGS.num_warmup_steps,
                FLAGS.num_train_steps,
            )
    with bert_tf.data.records.reading(paths):
        train_and_evaluate(trainer, paths, schema, lengths, limits)


def train_and_evaluate(trainer, paths, schema, lengths, limits):
    if FLAGS.do_train:
        trainer.train(
            lambda step: bert_tf.data.pipelines.training(
                paths, schema, lengths, FLAGS.train_batch_size, FLAGS.seed, step, limits
            ),
            bert_tf.optimization.AdamWeightDecay(
                bert_tf.optimization.linear_warmup_decay(
                    FLAGS.learning_rate, FLAGS.num_train_steps, FLAGS.num_warmup_steps
                )
            ),
            FLAGS.num_train_steps,
            **bert_tf.flags.training_options(),
        )
    if FLAGS.do_eval:
        batches = bert_tf.data.pipelines.evaluation(
            paths, schema, lengths, FLAGS.eval_batch_size, FLAGS.max_eval_steps, limits
        )
        results = trainer.evaluate(batches)
        path = os.path.join(FLAGS.output_dir, "eval_results.txt")
        bert_tf.tasks.write_eval_results(path, results)


if __name__ == "__main__":
    bert_tf.flags.run(main)
