"""The flags of the scripts that use a pre-trained model as it is, and what they come to."""

from absl import flags

import bert_tf
from bert_tf import console

FLAGS = flags.FLAGS

flags.disclaim_key_flags()


def define_vector_flags():
    """Model, casing, devices and batches."""
    bert_tf.cli.flags.define_model_flags()
    bert_tf.cli.flags.define_tokenizer_flags()
    bert_tf.cli.flags.define_device_flags()
    flags.DEFINE_integer(
        "max_seq_length", 128, "Longest sequence in tokens; what is too much of a text is cut off."
    )
    flags.DEFINE_integer("batch_size", 32, "Total batch size for predictions.", lower_bound=1)
    flags.DEFINE_enum(
        "dtype", "float32", ["float32", "bfloat16", "float16"], "Ours: what to compute in."
    )


def model_files():
    """The files of the model that the flags name, as `features.ModelFiles`.

    Config, vocabulary and casing that are not given are those that lie beside --init_checkpoint.
    """
    if FLAGS.init_checkpoint and not FLAGS.model:
        # That there is one comes before what lies beside it.
        bert_tf.checkpoints.open_checkpoint(FLAGS.init_checkpoint)
        beside = bert_tf.pipelines.files_of(FLAGS.init_checkpoint)
        meant = {
            "bert_config_file": beside.config,
            "vocab_file": beside.vocab,
            "do_lower_case": beside.do_lower_case,
        }
        taken = [name for name in meant if not FLAGS[name].present and meant[name] is not None]
        for name in taken:
            FLAGS[name].value = meant[name]
        if taken:
            console.info("as beside %s: %s", FLAGS.init_checkpoint, ", ".join(taken))
    bert_tf.cli.flags.resolve_model("init_checkpoint", "bert_config_file", "vocab_file")
    bert_tf.tokenization.validate_case_matches_checkpoint(
        FLAGS.do_lower_case, FLAGS.init_checkpoint
    )
    return bert_tf.pipelines.ModelFiles(
        FLAGS.init_checkpoint, FLAGS.bert_config_file, FLAGS.vocab_file, FLAGS.do_lower_case
    )


def runner_options():
    """How to run the model, as keyword arguments of the classes in `bert_tf.pipelines`."""
    if bert_tf.training.workers.tf_config() > 1:
        raise bert_tf.UserError(bert_tf.pipelines.ONE_PROCESS)
    strategy = bert_tf.training.make_strategy(**bert_tf.cli.flags.device_options())
    return {
        "dtype": bert_tf.cli.flags.dtype_policy(),
        "strategy": strategy,
        "batch_size": FLAGS.batch_size,
        "max_seq_length": FLAGS.max_seq_length,
    }


def check_used(given, of):
    """Raises UserError if a flag is given whose only use is with another that is not.

    Args:
      given: the flag's name.
      of: the names of the flags of which one must be there.
    """
    is_given = FLAGS[given].present and FLAGS[given].value is not False
    if is_given and not any(FLAGS[name].value for name in of):
        raise bert_tf.UserError(f"--{given} wants {' or '.join(f'--{name}' for name in of)}")


def numbers(flag, kind):
    """The numbers of a flag that is a list; None if it is not given."""
    if FLAGS[flag].value is None:
        return None
    if not FLAGS[flag].value:
        raise bert_tf.UserError(f"--{flag}= is empty; leave it out, or give numbers")
    try:
        return [kind(value) for value in FLAGS[flag].value]
    except ValueError:
        wanted = "whole numbers" if kind is int else "numbers"
        raise bert_tf.UserError(
            f"--{flag}={','.join(FLAGS[flag].value)}: {wanted} with commas between them were "
            "expected"
        ) from None
