#!/usr/bin/env python3
"""Trains BERT on masked words and next sentences, from records of create_pretraining_data.py."""

import contextlib
import os

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.flags.define_model_flags()
bert_tf.cli.flags.define_training_flags()
bert_tf.cli.flags.define_device_flags()
flags.DEFINE_string("input_file", None, "TFRecord files: paths or globs, separated by commas.")
flags.DEFINE_string(
    "eval_file", None, "Ours: TFRecord files to evaluate on, those of --input_file if not given."
)
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
flags.DEFINE_enum(
    "objective",
    "nsp",
    ["nsp", "sop", "none"],
    "Ours: what the records teach beside masked words, as in create_pretraining_data.py; nsp and "
    "sop are trained alike, none is masked words alone.",
)
flags.DEFINE_bool(
    "dynamic_masking",
    False,
    "Ours: mask the words here, others in each epoch; the records are made with --dynamic_masking.",
)
flags.DEFINE_float("masked_lm_prob", 0.15, "Ours: share of the tokens to mask with that.")
flags.DEFINE_string("vocab_file", None, "Ours: the vocabulary of the records, to mask with that.")
flags.mark_flags_as_required(["input_file", "output_dir"])


def main():
    if not FLAGS.do_train and not FLAGS.do_eval:
        raise bert_tf.UserError("one of --do_train and --do_eval must be set")
    bert_tf.cli.flags.resolve_model("bert_config_file")
    config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    bert_tf.tasks.check_length(FLAGS.max_seq_length, config)
    bert_tf.cli.flags.check_frozen_layers(config)
    schema = bert_tf.data.records.pretraining_schema(
        FLAGS.objective != "none", not FLAGS.dynamic_masking
    )
    lengths = {"S": FLAGS.max_seq_length, "P": FLAGS.max_predictions_per_seq}
    paths = bert_tf.files.expand(FLAGS.input_file, "input_file")
    eval_paths = bert_tf.files.expand(FLAGS.eval_file, "eval_file") if FLAGS.eval_file else paths
    masking = make_masking(config, lengths)
    for some in (paths, eval_paths) if FLAGS.eval_file else (paths,):
        bert_tf.data.records.check(some, schema, lengths, is_unmasked=FLAGS.dynamic_masking)
    limits = bert_tf.data.records.limits(schema, config, lengths)
    data = bert_tf.data.input_pipeline.TrainingInput(
        paths, schema, lengths, FLAGS.train_batch_size, FLAGS.seed, limits, masking=masking
    )
    eval_data = bert_tf.data.input_pipeline.EvaluationInput(
        eval_paths,
        schema,
        lengths,
        FLAGS.eval_batch_size,
        FLAGS.max_eval_steps,
        limits,
        masking=masking,
    )
    strategy = bert_tf.training.make_strategy(**bert_tf.cli.flags.device_options())
    workers = bert_tf.training.Workers(strategy)
    with contextlib.ExitStack() as stack:
        stack.enter_context(bert_tf.data.records.naming_bad_records([*paths, *eval_paths]))
        if FLAGS.do_train:  # one process may evaluate what another one trains
            stack.enter_context(
                bert_tf.training.guard.exclusive_directory(FLAGS.output_dir, workers)
            )
            # Beside the checkpoints, so that a run can be converted and started from as it is.
            workers.chief_first(lambda: bert_tf.tasks.settle_config(FLAGS.output_dir, config))
        run(strategy, config, data, eval_data)


def make_masking(config, lengths):
    """What --dynamic_masking says, None without it."""
    if not FLAGS.dynamic_masking:
        for name in ("masked_lm_prob", "vocab_file"):
            if FLAGS[name].present:
                raise bert_tf.UserError(f"--{name} is for --dynamic_masking")
        return None
    if not FLAGS.vocab_file:
        raise bert_tf.UserError("--dynamic_masking wants --vocab_file")
    vocab = bert_tf.tokenization.load_vocab(FLAGS.vocab_file)
    if max(vocab.values()) >= config.vocab_size:
        raise bert_tf.UserError(
            f"--vocab_file: {FLAGS.vocab_file} has {len(vocab)} entries, but the model's "
            f"vocab_size is {config.vocab_size}"
        )
    return bert_tf.data.dynamic_masking.DynamicMasking(
        vocab, lengths, FLAGS.masked_lm_prob, FLAGS.seed
    )


def run(strategy, config, data, eval_data):
    bert_tf.training.set_seed(FLAGS.seed)
    bert_tf.cli.flags.check_batch_sizes(
        strategy, train=FLAGS.do_train, eval=FLAGS.do_eval or FLAGS.eval_steps > 0
    )
    options = bert_tf.cli.flags.training_options(strategy)
    trainer = bert_tf.training.Trainer(
        lambda: bert_tf.tasks.PretrainingTask(
            config, bert_tf.cli.flags.dtype_policy(), FLAGS.objective != "none"
        ),
        strategy,
        FLAGS.output_dir,
        FLAGS.init_checkpoint,
    )
    trainer.check_metric(FLAGS.best_metric)
    if FLAGS.do_train:
        if FLAGS.best_metric and eval_data.paths == data.paths:
            bert_tf.console.warning(
                "--best_metric without --eval_file: the best is that on the records of training"
            )
        trainer.train(
            data,
            bert_tf.cli.flags.make_optimizer(FLAGS.num_train_steps, FLAGS.num_warmup_steps),
            FLAGS.num_train_steps,
            options,
            eval_data,
        )
    if FLAGS.do_eval:
        if FLAGS.best_metric:
            trainer.use_best(FLAGS.best_metric)
        results = trainer.evaluate(eval_data)
        path = os.path.join(FLAGS.output_dir, "eval_results.txt")
        trainer.workers.chief_first(lambda: bert_tf.tasks.write_eval_results(path, results))


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
