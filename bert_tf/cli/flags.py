"""The flags that scripts share, defined once, and the way every script starts.

Names, defaults and meanings are those of the 2018 release; what we add stands under "ours".
"""

import contextlib
import importlib
import os
import re
import sys
import tempfile

from absl import app, flags, logging

import bert_tf
from bert_tf import console
from bert_tf.errors import Stopped, UserError

FLAGS = flags.FLAGS

# `--help` shows a script's own flags; shared ones count as its own.
flags.disclaim_key_flags()

# TensorFlow reports its build and its devices at every start; a user's own setting wins.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def as_flags(message):
    """Rewrite `argument` names in a library message as --flags, where they are flags."""

    def flag(match):
        return f"--{match[1]}{match[2] or ''}" if match[1] in FLAGS else match[0]

    return _ARGUMENT.sub(flag, str(message))


# `name` or `name=value`, as the library's messages quote arguments.
_ARGUMENT = re.compile(r"`(\w+)(=[^`]*)?`")


@contextlib.contextmanager
def naming_flags():
    """Make a UserError of the library name flags instead of arguments."""
    try:
        yield
    except UserError as error:
        error.args = (as_flags(error),)
        raise


def run(main, needs_tensorflow=True):
    """Runs a script's `main()`: parses flags, prints a UserError as one sentence, exit status 1."""

    def guarded(argv):
        console.show(rewrite=as_flags)
        name = os.path.basename(argv[0])
        try:
            if len(argv) > 1:
                raise UserError(f"what is {argv[1]!r}? Flags are written --name=value")
            _warn_of_aliases(sys.argv)
            if needs_tensorflow:
                import_tensorflow()
            with naming_flags():
                main()
        except UserError as error:
            print(f"{name}: error: {error}", file=sys.stderr)
            sys.exit(1)
        except Stopped as stopped:
            print(f"{name}: {stopped}", file=sys.stderr)
            sys.exit(stopped.status)
        except KeyboardInterrupt:
            print(f"{name}: interrupted", file=sys.stderr)
            sys.exit(130)

    # absl would show what TensorFlow tells of its own work; --verbosity=0 does.
    FLAGS.verbosity = logging.WARNING
    app.run(guarded)


# What TensorFlow's C++ side writes before its logging is set up, at any TF_CPP_MIN_LOG_LEVEL
# (tensorflow/tensorflow issue 100442): that it has oneDNN, and that there is no GPU.
_NOISE = re.compile(r"I0000 |WARNING: All log messages before absl|E0000 .* cuInit: ")


def import_tensorflow():
    """Imports TensorFlow and looks for its devices without that noise; other lines are kept."""
    if os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0":
        return
    with tempfile.TemporaryFile("w+", errors="replace") as caught:
        stderr = os.dup(2)
        os.dup2(caught.fileno(), 2)
        try:
            importlib.import_module("tensorflow").config.list_physical_devices()
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)
            caught.seek(0)
            sys.stderr.writelines(line for line in caught if not _NOISE.match(line))


def define_alias(old, new):
    """Define the deprecated flag `old`: it sets `new` and logs a warning.

    Call it after `new` is defined; both must be given as --name=value.
    """
    _ALIASES[old] = new
    flags.DEFINE_alias(old, new)


_ALIASES: dict[str, str] = {}


def _warn_of_aliases(argv):
    for argument in argv[1:]:
        name = argument.lstrip("-").partition("=")[0]
        if argument.startswith("-") and name in _ALIASES and name in FLAGS:
            console.warning("--%s is deprecated; use --%s", name, _ALIASES[name])


def define_tokenizer_flags():
    """Vocabulary and casing."""
    flags.DEFINE_string("vocab_file", None, "The vocabulary that the BERT model was trained on.")
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Whether to lower case the text: True for uncased models, False for cased ones.",
    )


def define_model_flags():
    """Configuration and first weights."""
    flags.DEFINE_string(
        "model",
        None,
        "Ours: a model of the 2018 release by name, such as uncased_L-12_H-768_A-12; stands for "
        "bert_config_file, init_checkpoint, vocab_file and do_lower_case where they are not given.",
    )
    flags.DEFINE_string("bert_config_file", None, "JSON file with the sizes of the BERT model.")
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Checkpoint to start from (usually a pre-trained BERT model). Not read when output_dir "
        "already holds a checkpoint: then that run goes on.",
    )


def resolve_model(*needed):
    """Fills in the flags that --model stands for; UserError if one of `needed` has no value."""
    if FLAGS.model:
        found = bert_tf.checkpoints.fetch(FLAGS.model)
        meant = {
            "bert_config_file": found.config,
            "init_checkpoint": found.checkpoint,
            "vocab_file": found.vocab,
            "do_lower_case": found.do_lower_case,
        }
        for name, value in meant.items():
            if name in FLAGS and not FLAGS[name].present:
                FLAGS[name].value = value
    for name in needed:
        if not FLAGS[name].value:
            raise UserError(f"--{name} must be given, or --model")


def define_training_flags():
    """Optimizer, checkpoints and summaries."""
    flags.DEFINE_integer("train_batch_size", 32, "Total batch size for training.", lower_bound=1)
    flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for evaluation.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 5e-5, "The initial learning rate.", lower_bound=0.0)
    flags.DEFINE_integer(
        "save_checkpoints_steps", 1000, "How often to save a checkpoint, in steps.", lower_bound=1
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "The most steps to make on the devices before control returns to the host.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Ours: parts to work through each device's share of train_batch_size in, for less memory; "
        "the steps are those of the whole batch.",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "recompute",
        False,
        "Ours: compute the inside of each layer again in the backward pass instead of keeping it: "
        "much less memory, about a third more time.",
    )
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16", "float16"],
        "Ours: what to compute in; weights are float32. float16 has its loss scaled.",
    )
    flags.DEFINE_bool(
        "xla", None, "Ours: compile training steps with XLA; by default on a GPU, and not on a CPU."
    )
    flags.DEFINE_enum(
        "optimizer",
        "bert_adam",
        ["bert_adam", "adamw", "lamb"],
        "Ours: bert_adam is the release's; adamw also corrects the bias of the moments; lamb is "
        "for large batches.",
    )
    flags.DEFINE_float(
        "layer_decay",
        1.0,
        "Ours: learning rate of a layer as a share of that of the layer above it.",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "num_frozen_layers",
        0,
        "Ours: how many of the lowest layers stay as they are, and the embeddings with them.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "eval_steps",
        0,
        "Ours: how often to evaluate in the course of training, in steps; 0 is never.",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "best_metric",
        None,
        "Ours: the metric by which to keep the best checkpoint, in output_dir/best; that one is "
        "then evaluated, and predicts, at the end. The least loss is the best, or the greatest of "
        "other metrics.",
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "Ours: stop after so many evaluations without a better best_metric; 0 is never.",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "seed",
        0,
        "Ours: seed of initial weights, dropout and the order of the input.",
        lower_bound=0,
        upper_bound=2**32 - 1,
    )


def check_batch_sizes(strategy, **wanted):
    """Checks that the batch sizes that are used divide over the devices.

    >>> check_batch_sizes(strategy, train=FLAGS.do_train, eval=FLAGS.do_eval)
    """
    for kind, is_wanted in wanted.items():
        if is_wanted:
            parts = FLAGS.gradient_accumulation_steps if kind == "train" else 1
            flag = f"{kind}_batch_size"
            bert_tf.training.per_replica(FLAGS[flag].value, strategy, flag, parts)


def check_frozen_layers(config):
    """Checks that the model has the layers that are to be frozen."""
    if FLAGS.num_frozen_layers > config.num_hidden_layers:
        raise UserError(
            f"--num_frozen_layers={FLAGS.num_frozen_layers}, but the model has "
            f"{config.num_hidden_layers} layers"
        )


def training_options(strategy):
    """The training flags as `training.Options`; UserError for those that do not go together."""
    if FLAGS.best_metric and FLAGS.do_train and not FLAGS.eval_steps:
        raise UserError(f"--best_metric={FLAGS.best_metric} wants --eval_steps, to be looked at")
    if FLAGS.eval_steps and not FLAGS.do_train:
        bert_tf.console.warning("--eval_steps has no effect without --do_train")
    if FLAGS.early_stopping_patience and not FLAGS.best_metric:
        raise UserError("--early_stopping_patience wants --best_metric, to know what is better")
    return bert_tf.training.Options(
        save_checkpoints_steps=FLAGS.save_checkpoints_steps,
        iterations_per_loop=FLAGS.iterations_per_loop,
        num_frozen_layers=FLAGS.num_frozen_layers,
        gradient_accumulation_steps=FLAGS.gradient_accumulation_steps,
        recompute=FLAGS.recompute,
        xla=bert_tf.training.use_xla(FLAGS.xla, strategy),
        eval_steps=FLAGS.eval_steps,
        best_metric=FLAGS.best_metric,
        early_stopping_patience=FLAGS.early_stopping_patience,
    )


def dtype_policy():
    """--dtype as a Keras policy: weights in float32, computation in that type."""
    if FLAGS.dtype == "float16" and FLAGS.use_tpu:
        raise UserError("--dtype=float16: TPUs compute in bfloat16, not in float16")
    return FLAGS.dtype if FLAGS.dtype == "float32" else f"mixed_{FLAGS.dtype}"


def make_optimizer(num_train_steps, num_warmup_steps):
    """The optimizer of the training flags, not built yet."""
    if num_warmup_steps >= num_train_steps:
        bert_tf.console.warning(
            "%d warm-up steps are not less than %d training steps: the learning rate never "
            "reaches --learning_rate",
            num_warmup_steps, num_train_steps,
        )  # fmt: skip
    rate = bert_tf.optimization.linear_warmup_decay(
        FLAGS.learning_rate, num_train_steps, num_warmup_steps
    )
    make = bert_tf.optimization.OPTIMIZERS[FLAGS.optimizer]
    return make(rate, layer_decay=FLAGS.layer_decay)


def define_device_flags():
    """Where the model runs."""
    flags.DEFINE_bool("use_tpu", False, "Whether to run on a Cloud TPU.")
    flags.DEFINE_string(
        "tpu_name",
        None,
        "The Cloud TPU: its name, a grpc://host:port address, or 'local' on a TPU VM.",
    )
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU, found by itself if not given.")
    flags.DEFINE_string(
        "gcp_project", None, "Project of the Cloud TPU, found by itself if not given."
    )
    flags.DEFINE_string("master", None, "TensorFlow master address; another way to give tpu_name.")
    flags.DEFINE_integer("num_tpu_cores", 8, "Number of TPU cores that are expected.")
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        ["auto", "one_device", "mirrored", "multi_worker"],
        "Ours: auto takes the workers that the environment variable TF_CONFIG names, else every "
        "GPU of this machine (mirrored if there are several), else the CPU.",
    )


def device_options():
    """The device flags as keyword arguments of `training.make_strategy`."""
    names = (
        "use_tpu",
        "tpu_name",
        "tpu_zone",
        "gcp_project",
        "master",
        "num_tpu_cores",
        "distribution_strategy",
    )
    return {name: FLAGS[name].value for name in names}
