"""The flags that scripts share, defined once, and how every script starts.

Names, defaults and meanings are those of the 2018 release; the help of other flags ends in
"(bert_tf)".
"""

import contextlib
import dataclasses
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

# TensorFlow logs its build and its devices at every start; a user's own setting takes precedence.
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
    """Run a script's `main()`: parse flags, print a UserError as one sentence, exit status 1."""

    def guarded(argv):
        console.show(rewrite=as_flags)
        name = os.path.basename(argv[0])
        try:
            if len(argv) > 1:
                raise UserError(f"unexpected argument {argv[1]!r}; flags are written --name=value")
            _warn_of_aliases(sys.argv)
            if needs_tensorflow:
                import_tensorflow()
            with naming_flags(), console.closing_bars():
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

    # absl would show TensorFlow's own log lines; --verbosity=0 does.
    FLAGS.verbosity = logging.WARNING
    app.run(guarded)


# What TensorFlow's C++ code prints before its logging is set up, at any TF_CPP_MIN_LOG_LEVEL
# (tensorflow/tensorflow issue 100442): that it uses oneDNN, and that there is no GPU.
_NOISE = re.compile(r"I0000 |WARNING: All log messages before absl|E0000 .* cuInit: ")


def import_tensorflow():
    """Import TensorFlow and find its devices without these lines; other lines are printed."""
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
    """Define the flags of vocabulary and casing."""
    flags.DEFINE_string("vocab_file", None, "The vocabulary that the BERT model was trained on.")
    flags.DEFINE_bool(
        "do_lower_case",
        True,
        "Whether to lower case the text: True for uncased models, False for cased ones.",
    )


def define_model_flags():
    """Define the flags of the model's files."""
    flags.DEFINE_string(
        "model",
        None,
        "Model of the 2018 release by name, such as uncased_L-12_H-768_A-12; provides "
        "bert_config_file, init_checkpoint, vocab_file and do_lower_case if not given. (bert_tf)",
    )
    flags.DEFINE_string("bert_config_file", None, "JSON file with the sizes of the BERT model.")
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Checkpoint to start from (usually a pre-trained BERT model). Not read when output_dir "
        "already has a checkpoint: then that run is resumed.",
    )


def resolve_model(*needed):
    """Fill in the flags that --model provides; UserError if one of `needed` has no value."""
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
    """Define the flags of optimizer, checkpoints and evaluation."""
    flags.DEFINE_integer("train_batch_size", 32, "Total batch size for training.", lower_bound=1)
    flags.DEFINE_integer("eval_batch_size", 8, "Total batch size for evaluation.", lower_bound=1)
    flags.DEFINE_float("learning_rate", 5e-5, "The initial learning rate.", lower_bound=0.0)
    flags.DEFINE_integer(
        "save_checkpoints_steps", 1000, "How often to save a checkpoint, in steps.", lower_bound=1
    )
    flags.DEFINE_integer(
        "iterations_per_loop",
        1000,
        "Maximum number of steps on the devices before control returns to the host.",
        lower_bound=1,
    )
    flags.DEFINE_integer(
        "gradient_accumulation_steps",
        1,
        "Number of parts in which each device processes its share of train_batch_size, to use less "
        "memory; a step is still that of the whole batch. (bert_tf)",
        lower_bound=1,
    )
    flags.DEFINE_bool(
        "recompute",
        False,
        "Recompute the inside of each layer in the backward pass instead of storing it: much less "
        "memory, about a third more time. (bert_tf)",
    )
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16", "float16"],
        "Type to compute in; weights are float32. float16 uses loss scaling. (bert_tf)",
    )
    flags.DEFINE_bool(
        "xla", None, "Compile training steps with XLA; by default on a GPU, not on a CPU. (bert_tf)"
    )
    flags.DEFINE_enum(
        "optimizer",
        "bert_adam",
        ["bert_adam", "adamw", "lamb"],
        "bert_adam is the release's; adamw also corrects the bias of the moments; lamb is for "
        "large batches. (bert_tf)",
    )
    flags.DEFINE_float(
        "layer_decay",
        1.0,
        "Learning rate of a layer as a share of that of the layer above it. (bert_tf)",
        lower_bound=0.0,
        upper_bound=1.0,
    )
    flags.DEFINE_integer(
        "num_frozen_layers",
        0,
        "Number of lowest layers that are not trained, and the embeddings with them. (bert_tf)",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "eval_steps",
        0,
        "How often to evaluate during training, in steps; 0 for never. (bert_tf)",
        lower_bound=0,
    )
    flags.DEFINE_string(
        "best_metric",
        None,
        "Metric by which to keep the best checkpoint, in output_dir/best, which is then used for "
        "evaluation and prediction. Lower is better for a loss, higher for other metrics. "
        "(bert_tf)",
    )
    flags.DEFINE_integer(
        "early_stopping_patience",
        0,
        "Stop after this number of evaluations without a better best_metric; 0 for never. "
        "(bert_tf)",
        lower_bound=0,
    )
    flags.DEFINE_integer(
        "seed",
        0,
        "Seed of initial weights, dropout and the order of the input. (bert_tf)",
        lower_bound=0,
        upper_bound=2**32 - 1,
    )


def dtype_policy():
    """Return --dtype as a Keras policy: weights in float32, computation in that type."""
    if FLAGS.dtype == "float16" and FLAGS.use_tpu:
        raise UserError("--dtype=float16: TPUs compute in bfloat16, not in float16")
    return FLAGS.dtype if FLAGS.dtype == "float32" else f"mixed_{FLAGS.dtype}"


def define_device_flags():
    """Define the flags of devices."""
    flags.DEFINE_bool("use_tpu", False, "Whether to run on a Cloud TPU.")
    flags.DEFINE_string(
        "tpu_name",
        None,
        "The Cloud TPU: its name, a grpc://host:port address, or 'local' on a TPU VM.",
    )
    flags.DEFINE_string("tpu_zone", None, "Zone of the Cloud TPU, inferred if not given.")
    flags.DEFINE_string("gcp_project", None, "Project of the Cloud TPU, inferred if not given.")
    flags.DEFINE_string("master", None, "TensorFlow master address, the older name of tpu_name.")
    flags.DEFINE_integer("num_tpu_cores", 8, "Expected number of TPU cores.")
    flags.DEFINE_enum(
        "distribution_strategy",
        "auto",
        ["auto", "one_device", "mirrored", "multi_worker"],
        "auto uses the workers in the environment variable TF_CONFIG, else all GPUs of this "
        "machine (mirrored if there are several), else the CPU. (bert_tf)",
    )


def device_options():
    """Return the device flags as keyword arguments of `training.make_strategy`."""
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


def from_flags(config_class, **values):
    """Make a configuration dataclass from the flags named like its fields.

    A field whose default is None gets the flag's value only if the flag is given: None stands for
    "not given" there.

    Args:
      config_class: the dataclass.
      **values: values of fields that are not flags.
    """
    for field in dataclasses.fields(config_class):
        if field.name in values or field.name not in FLAGS:
            continue
        flag = FLAGS[field.name]
        value = None if field.default is None and not flag.present else flag.value
        if field.default == ():
            value = tuple(value or ())
        values[field.name] = value
    return config_class(**values)
