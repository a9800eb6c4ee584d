"""Flags that the scripts for `bert_tf.pipelines` share, and the arguments built from them."""

import dataclasses

from absl import flags

import bert_tf
from bert_tf import console
from bert_tf.cli.flags import define_options, from_flags, tokenizer_options
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.train import DeviceConfig, TrainConfig
from bert_tf.tokenization.tokenizer_json import is_tokenizer_json

FLAGS = flags.FLAGS

flags.disclaim_key_flags()


def define_pipeline_flags():
    """Define the flags for the model, its tokenizer, devices and batches."""
    define_options(ModelConfig())
    define_options(DeviceConfig())
    flags.DEFINE_integer(
        "max_seq_length", 128, "Maximum number of tokens; longer texts are truncated."
    )
    flags.DEFINE_integer("batch_size", 32, "Total batch size for predictions.", lower_bound=1)
    flags.DEFINE_enum(
        "dtype",
        "float32",
        ["float32", "bfloat16", "float16"],
        "Data type of the computation. (bert_tf)",
    )


def model_files():
    """Return the `pipelines.ModelFiles` of the model that the flags name.

    The configuration, vocabulary and casing default to those next to --init_checkpoint, or in the
    folder --model.
    """
    given = config = from_flags(ModelConfig())
    source, settings = config.model or config.init_checkpoint, {}
    if source and (not config.model or bert_tf.checkpoints.is_local_model(source)):
        # Report a missing checkpoint before anything that is missing next to it.
        bert_tf.checkpoints.open_checkpoint(config.init_checkpoint or source)
        found = bert_tf.pipelines.find_model_files(source, config.vocab_file)
        settings = found.settings
        used = {name: x for name, x in found.flags.items() if getattr(config, name) is None}
        config = dataclasses.replace(config, model=None, **used)
        if names := [name for name in used if name != "init_checkpoint"]:
            console.info("found next to %s: %s", source, ", ".join(names))
    required = ("init_checkpoint", "bert_config_file", "vocab_file")
    config = bert_tf.checkpoints.resolve_model(config, *required)
    is_uncased = config.do_lower_case
    if is_uncased is None:
        is_uncased = FLAGS.do_lower_case  # the default
    bert_tf.tokenization.validate_case_matches_checkpoint(is_uncased, config.init_checkpoint)
    if given.vocab_file and is_tokenizer_json(given.vocab_file):
        settings, is_uncased = {}, given.do_lower_case  # it has its own
    settings = {**settings, **tokenizer_options()}
    settings.pop("do_lower_case", None)
    return bert_tf.pipelines.ModelFiles(
        config.init_checkpoint, config.bert_config_file, config.vocab_file, is_uncased, settings
    )


def pipeline_options():
    """Return the flags for devices and batches as arguments of `TextPipeline.from_preset`."""
    if bert_tf.training.strategy.tf_config() > 1:
        raise bert_tf.UserError(bert_tf.pipelines.SINGLE_PROCESS_MESSAGE)
    device = from_flags(DeviceConfig())
    device.check_dtype(FLAGS.dtype)
    return {
        "dtype": TrainConfig(dtype=FLAGS.dtype).dtype_policy,
        "strategy": bert_tf.training.make_strategy(**dataclasses.asdict(device)),
        "batch_size": FLAGS.batch_size,
        "max_seq_length": FLAGS.max_seq_length,
    }


def check_requires(flag, required):
    """Raise UserError if a flag is given and none of the flags `required` has a value."""
    is_given = FLAGS[flag].present and FLAGS[flag].value is not False
    if is_given and not any(FLAGS[name].value for name in required):
        names = " or ".join(f"--{name}" for name in required)
        raise bert_tf.UserError(f"--{flag} requires {names}")


def parse_numbers(flag, number_type):
    """Return the value of a list flag as a list of int or float, None if it is not given."""
    values = FLAGS[flag].value
    if values is None:
        return None
    if not values:
        raise bert_tf.UserError(f"--{flag} is empty; give numbers or omit the flag")
    try:
        return [number_type(value) for value in values]
    except ValueError:
        expected = "integers" if number_type is int else "numbers"
        raise bert_tf.UserError(
            f"--{flag}={','.join(values)}: expected {expected} separated by commas"
        ) from None
