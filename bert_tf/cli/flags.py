"""Flags shared by the scripts, and `run`, which starts every script.

Flags of the release keep their names, defaults and meanings. The help of all others ends in
"(bert_tf)".
"""

import contextlib
import dataclasses
import os
import re
import shlex
import sys
import typing

from absl import app, flags, logging

from bert_tf import console
from bert_tf.cli import tensorflow_start, usage
from bert_tf.configs.base import Config
from bert_tf.configs.train import FineTuneConfig
from bert_tf.errors import Stopped, UserError, out_of_memory_errors, reason
from bert_tf.io import files

FLAGS = flags.FLAGS

# `--help` shows a script's own flags; shared ones count as its own.
flags.disclaim_key_flags()

os.environ.setdefault("KERAS_BACKEND", "tensorflow")


def as_flags(message):
    """Replace each `argument` in a library message with --argument if there is such a flag."""

    def flag(match):
        return f"--{match[1]}{match[2] or ''}" if match[1] in FLAGS else match[0]

    return _ARGUMENT.sub(flag, str(message))


# `name` or `name=value`, as the library's messages quote arguments.
_ARGUMENT = re.compile(r"`(\w+)(=[^`]*)?`")


@contextlib.contextmanager
def naming_flags():
    """Apply `as_flags` to the message of a UserError."""
    try:
        yield
    except UserError as error:
        error.args = (as_flags(error),)
        raise


def run(main, needs_tensorflow=True, backends=("tensorflow",)):
    """Parse the flags and call `main()`; print a UserError as one line and exit with status 1."""

    def guarded(argv):
        console.show(rewrite=as_flags)
        name = os.path.basename(argv[0])
        try:
            if len(argv) > 1:
                raise UserError(f"unexpected argument {argv[1]!r}; flags are written --name=value")
            # TensorFlow reads remote files.
            if needs_tensorflow or any("://" in argument for argument in sys.argv):
                backend = os.environ["KERAS_BACKEND"]
                if backend not in backends:
                    raise UserError(
                        f"KERAS_BACKEND={backend}: expected {' or '.join(backends)}; unset it"
                    )
                tensorflow_start.import_tensorflow()
                if backend == "tensorflow":
                    tensorflow_start.warn_of_unused_gpu()
            with naming_flags(), console.closing_bars():
                _check_remote_paths()
                main()
        except UserError as error:
            console.error(f"{name}: error: {error}")
            sys.exit(1)
        except out_of_memory_errors() as error:
            console.error(f"{name}: error: out of memory ({reason(error)})")
            sys.exit(1)
        except Stopped as stopped:
            console.error(f"{name}: {stopped}")
            sys.exit(stopped.status)
        except KeyboardInterrupt:
            console.error(f"{name}: interrupted")
            sys.exit(130)

    # Hide TensorFlow's own log lines; --verbosity=0 shows them.
    FLAGS.verbosity = logging.WARNING
    app.run(guarded, flags_parser=_parse)


def command_line():
    return shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])


def make_main(name, config_class):
    """Define the flags of a fine-tuning script and return its `main`."""
    define_options(FineTuneConfig(task=config_class()), skip=("num_warmup_steps",))
    FLAGS.set_default("do_lower_case", config_class.do_lower_case)
    flags.mark_flag_as_required("output_dir")

    def main():
        from bert_tf.tasks.registry import TASKS  # imports TensorFlow
        from bert_tf.training import fine_tune

        config = from_flags(FineTuneConfig(task=config_class()))
        fine_tune(TASKS[name], config, command_line())

    return main


# Patterns in absl's error messages, and their replacements.
_ABSL_MESSAGES = (
    ("ERROR:: ", ""),
    (r"flag --(\w+)=None: Flag --\1 must have a value other than None\.", r"--\1 is required"),
    (r"flag (--[^ ]*: )", r"\1"),
    (r"invalid literal for int\(\) with base 10: .*", "expected an integer"),
    (r"could not convert string to float: .*", "expected a number"),
    (r"\('Non-boolean argument to boolean flag', .*", "expected true or false"),
    (r"value should be one of <(.*)>", r"expected one of \1"),
)


def _parse(argv):
    """Parse the flags; print errors in the same format as `run`."""
    try:
        for name in {"help", "helpshort"} & set(FLAGS):
            FLAGS[name].parse = _print_help
        return FLAGS(argv)
    except SystemExit:  # absl exits with status 1 after --help
        sys.exit(0)
    except flags.Error as error:
        message = str(error)
        for pattern, replacement in _ABSL_MESSAGES:
            message = re.sub(pattern, replacement, message, flags=re.S)
        print(f"{os.path.basename(argv[0])}: error: {message}", file=sys.stderr)
        sys.exit(1)


def _print_help(argument):
    if FLAGS["help"].parser.parse(argument):
        console.write(usage.describe(sys.argv[0]))
        sys.exit(0)


def _check_remote_paths():
    """Raise UserError for a flag with a path, such as `gs://`, that TensorFlow cannot access."""
    for flag in [FLAGS[name] for name in FLAGS]:  # the import of TensorFlow defines flags
        if flag.present and flag.name not in ("text", "query"):  # a text may begin with "https://"
            files.check_reachable(flag.value, flag.name)


def define_options(config, only=None, skip=()):
    """Define a flag for each option of a `Config` and its nested configs."""
    hints = typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        name, metadata, default = field.name, field.metadata, getattr(config, field.name)
        if isinstance(default, Config):
            define_options(default, only, skip)
        help = metadata.get("help")
        if not help or name in skip or (only is not None and name not in only):
            continue
        default = metadata["default"] if default is None else default
        types, limits = typing.get_args(hints[name]) or (hints[name],), metadata["limits"]
        if limits.choices:
            flags.DEFINE_enum(name, default, limits.choices, help)
        elif typing.get_origin(hints[name]) is list:
            flags.DEFINE_multi_string(name, list(default), help)
        elif typing.get_origin(hints[name]) is tuple:
            flags.DEFINE_list(name, list(default) or None, help)
        elif bool in types:
            flags.DEFINE_bool(name, default, help)
        elif int in types or float in types:
            define = flags.DEFINE_integer if int in types else flags.DEFINE_float
            define(name, default, help, limits.minimum, limits.maximum)
        else:
            flags.DEFINE_string(name, default, help)
        FLAGS[name].group = config.find_group(name)


TOKENIZER_FLAGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")


def tokenizer_options():
    """Return a dict of the given flags for casing, accents and Chinese characters."""
    return {name: FLAGS[name].value for name in TOKENIZER_FLAGS if FLAGS[name].present}


def from_flags(config):
    """Return a copy of a `Config` with each option set to the flag of the same name."""
    values, hints = {}, typing.get_type_hints(type(config))
    for field in dataclasses.fields(config):
        name, value = field.name, getattr(config, field.name)
        if isinstance(value, Config):
            values[name] = from_flags(value)
        elif (
            field.metadata.get("help")
            and name in FLAGS
            and (value is not None or FLAGS[name].present)
        ):
            given = FLAGS[name].value
            if isinstance(value, tuple):
                kind = typing.get_args(hints[name])[0]
                given = parse_numbers(name, int) if given and kind is int else tuple(given or ())
            values[name] = given
    return dataclasses.replace(config, **values)


def parse_numbers(name, kind):
    """Return a list flag as a tuple of numbers, or None if it is not given."""
    texts = FLAGS[name].value
    try:
        return None if texts is None else tuple(map(kind, texts or [""]))  # "" is no number
    except ValueError:
        expected = "integers" if kind is int else "numbers"
        raise UserError(
            f"--{name}={','.join(texts)}: expected {expected} separated by commas"
        ) from None
