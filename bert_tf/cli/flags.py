"""Flags shared by the scripts, and `run`, which starts every script.

Flags of the release keep their names, defaults and meanings. In the release's scripts, the help of
all others ends in "(bert_tf)".
"""

import dataclasses
import gc
import importlib.util
import inspect
import os
import re
import shlex
import shutil
import sys
import textwrap
import traceback
import typing

from absl import app, flags, logging

from bert_tf import console
from bert_tf.cli import tensorflow_start
from bert_tf.configs.base import Config, hints_of
from bert_tf.configs.train import FineTuneConfig
from bert_tf.errors import Stopped, UserError, is_out_of_memory, reason
from bert_tf.io import files, json_files

FLAGS = flags.FLAGS

# `--help` shows a script's own flags; shared ones count as its own.
flags.disclaim_key_flags()

os.environ.setdefault("KERAS_BACKEND", "tensorflow")

# The backends of Keras on which the scripts train.
TRAINING_BACKENDS = ("tensorflow", "jax")


def as_flags(message):
    """Replace each `argument` in a library message with --argument if there is such a flag."""

    def flag(match):
        name = {"preset": "model"}.get(match[1], match[1])
        return f"--{name}{match[2] or ''}" if name in FLAGS else match[0]

    return _ARGUMENT.sub(flag, str(message))


# `name` or `name=value`, as the library's messages quote arguments.
_ARGUMENT = re.compile(r"`(\w+)(=[^`]*)?`")


def run(main, needs_tensorflow=lambda: True, backends=("tensorflow",)):
    """Parse the flags and call `main()`; print a UserError as one line and exit with status 1."""
    # The next file that is opened would take the place of a stream closed by the shell, to which
    # TensorFlow and child processes write.
    while (descriptor := os.open(os.devnull, os.O_RDWR)) < 3:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115

    def guarded(argv):
        console.show(rewrite=as_flags)
        name = os.path.basename(argv[0])
        try:
            if len(argv) > 1:
                raise UserError(f"unexpected argument {argv[1]!r}; flags are written --name=value")
            # TensorFlow reads remote files.
            if needs_tensorflow() or any("://" in argument for argument in sys.argv):
                if (backend := os.environ["KERAS_BACKEND"]) not in backends:
                    expected = " or ".join(backends)
                    raise UserError(f"KERAS_BACKEND={backend}: expected {expected}; unset it")
                if backend == "jax" and importlib.util.find_spec("jax") is None:
                    raise UserError("KERAS_BACKEND=jax: JAX is not installed; see docs/devices.md")
                if backend == "jax":
                    tensorflow_start.cache_programs_of_jax()
                tensorflow_start.import_tensorflow()
            _check_paths()
            main()
        except UserError as error:
            console.error(f"{name}: error: {as_flags(error)}")
            _exit(1)
        except Stopped as stopped:
            console.error(f"{name}: {stopped}")
            sys.exit(stopped.status)
        except KeyboardInterrupt:
            console.error(f"{name}: interrupted")
            _exit(130)
        except Exception as error:
            if is_out_of_memory(error):
                console.error(f"{name}: error: out of memory ({reason(error)})")
                _exit(1)
            if _joins_workers():
                traceback.print_exc()
                _exit(1)
            raise

    # Reading SQuAD took two and a half times as long with Python's thresholds.
    gc.set_threshold(50_000, 20, 100)
    # Hide TensorFlow's own log lines; --verbosity=0 shows them.
    FLAGS.verbosity = logging.WARNING
    app.run(guarded, flags_parser=_parse)


def _joins_workers():
    """Return whether JAX is connected to other workers."""
    jax = sys.modules.get("jax")
    return jax is not None and jax.distributed.is_initialized()


def _exit(status):
    """Exit; JAX would first wait five minutes for the other workers, which wait for this one."""
    if _joins_workers():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def command_line():
    return shlex.join([os.path.basename(sys.argv[0]), *sys.argv[1:]])


def make_main(name, data_class, config_class):
    """Define the flags of a fine-tuning script and return its `main`."""
    nested = {"data": data_class, "task_config": config_class}
    define_options(FineTuneConfig, skip=("num_warmup_steps",), **nested)
    FLAGS.set_default("do_lower_case", config_class.do_lower_case)
    flags.mark_flag_as_required("output_dir")

    def main():
        from bert_tf.tasks.registry import TASKS  # imports TensorFlow
        from bert_tf.training import fine_tune

        tensorflow_start.keep_freed_memory()
        data, task_config = from_flags(data_class), from_flags(config_class)
        config = from_flags(FineTuneConfig, data=data, task_config=task_config)
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
    if FLAGS["help"]._parse(argument):  # the flag's error, unlike the parser's, is a `flags.Error`
        console.write(_describe_program(sys.argv[0]))
        sys.exit(0)


def _check_paths():
    """Expand "~" in flags; raise UserError if a path, such as `gs://`, cannot be accessed."""
    for flag in [FLAGS[name] for name in FLAGS]:  # the import of TensorFlow defines flags
        if flag.present and flag.name not in ("text", "query"):  # a text may begin with "https://"
            flag.value = files.expand_home(flag.value, flag.name)
            files.check_reachable(flag.value, flag.name)


def check_files():
    """Check before a long computation that `input_file` exists and `output_file` is writable."""
    if FLAGS.input_file:
        files.require(FLAGS.input_file, "input_file")
    if FLAGS.output_file:
        files.check_writable(FLAGS.output_file, "output_file", filter(None, [FLAGS.input_file]))


class _OptionParser(flags.ArgumentParser):
    """Parses a flag and checks it against the type and limits of its option."""

    def __init__(self, hint):
        self._hint = hint
        kind, limits, _ = json_files.unwrap_annotation(hint)
        parsers = {int: flags.IntegerParser, float: flags.FloatParser}
        self._parser = parsers.get(kind, flags.ArgumentParser)()
        self.enum_values = limits.choices
        self._expected = json_files.describe(hint)
        self.syntactic_help = self._expected.replace("a string", "")

    def parse(self, argument):
        try:
            value = self._parser.parse(argument)
        except ValueError:
            value = argument
        if not json_files.is_valid(value, self._hint):
            raise ValueError(f"expected {self._expected}")
        return value

    def flag_type(self):
        return "string enum" if self.enum_values else self._parser.flag_type()


def define_options(config, only=None, skip=(), **nested):
    """Define a flag for each option of a `Config` class and its nested configs.

    `config` may also be an instance, whose values are the defaults. `nested` are the classes of
    nested configs without a default. The title in `--help` is the start of the docstring of the
    class that declares the option.
    """
    cls = config if isinstance(config, type) else type(config)
    for field in dataclasses.fields(cls):
        name, metadata = field.name, field.metadata
        if other := nested.get(name) or _nested_default(config, field):
            define_options(other, only, skip)
        help = metadata.get("help")
        if not help or name in skip or (only is not None and name not in only):
            continue
        default = getattr(config, name, None)
        default = metadata["flag_default"] if default is None else default
        hint = hints_of(cls)[name]
        kind, *_ = json_files.unwrap_annotation(hint)
        if metadata["repeated"]:
            flags.DEFINE_multi_string(name, list(default), help)
        elif typing.get_origin(kind) is tuple:
            flags.DEFINE_list(name, list(default) or None, help)
        elif kind is bool:
            flags.DEFINE_bool(name, default, help)
        else:
            serializer = flags.ArgumentSerializer()
            flags.DEFINE(_OptionParser(hint), name, default, help, serializer=serializer)
        if only is None:
            owners = (x for x in reversed(cls.__mro__) if name in inspect.get_annotations(x))
            FLAGS[name].group = re.split("[,.:;]", next(owners).__doc__)[0]


def _nested_default(config, field):
    """Return the default of a field if it is a `Config`."""
    value = getattr(config, field.name, None)
    if value is None and field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    return value if isinstance(value, Config) else None


TOKENIZER_FLAGS = ("do_lower_case", "strip_accents", "tokenize_chinese_chars")


def tokenizer_options():
    """Return a dict of the given flags for casing, accents and Chinese characters."""
    return {name: FLAGS[name].value for name in TOKENIZER_FLAGS if FLAGS[name].present}


def from_flags(config, **values):
    """Return a `Config` with the flags that were given; `values` are other attributes.

    `config` is a class, or an instance with other defaults.
    """
    is_class = isinstance(config, type)
    hints = typing.get_type_hints(config if is_class else type(config))
    for field in dataclasses.fields(config):
        name = field.name
        if name in values:
            continue
        if nested := _nested_default(config, field):
            values[name] = from_flags(nested)
        elif field.metadata.get("help") and name in FLAGS and FLAGS[name].present:
            is_numbers = hints[name] == tuple[int, ...]
            values[name] = parse_numbers(name, int) if is_numbers else FLAGS[name].value
    return config(**values) if is_class else config.with_options(**values)


def parse_numbers(name, kind):
    """Return a list flag as a tuple of numbers, or None if it is not given."""
    texts = FLAGS[name].value
    try:
        return None if texts is None else tuple(map(kind, texts or [""]))  # "" is not a number
    except ValueError:
        expected = "integers" if kind is int else "numbers"
        raise UserError(f"--{name}={','.join(texts)}: expected {expected} and commas") from None


_VALUES = {"int": "N", "float": "X", "comma separated list of strings": "A,B"}
_VALUES |= {"string enum": "CHOICE", "multi string enum": "CHOICE"}
_PATHS = {"file": "FILE", "dir": "FOLDER"}

_END = (
    "--[no]x is a switch: --x or --nox. (bert_tf) marks additions to the flags of the 2018 "
    "release. --helpfull also shows the limits of values and the flags of absl, such as "
    "--flagfile, --undefok and --verbosity. The exit status is 0 after success, 1 after an error, "
    "and 75 or 130 if it was stopped; the same command resumes training."
)

# The scripts of the release, and all of their flags.
_RELEASE_SCRIPTS = (
    "create_pretraining_data.py",
    "extract_features.py",
    "run_classifier.py",
    "run_pretraining.py",
    "run_squad.py",
)
RELEASE_FLAGS = """
    batch_size bert_config_file data_dir do_eval do_lower_case do_predict do_train
    do_whole_word_mask doc_stride dupe_factor eval_batch_size gcp_project init_checkpoint input_file
    iterations_per_loop layers learning_rate masked_lm_prob master max_answer_length max_eval_steps
    max_predictions_per_seq max_query_length max_seq_length n_best_size null_score_diff_threshold
    num_tpu_cores num_train_epochs num_train_steps num_warmup_steps output_dir output_file
    predict_batch_size predict_file random_seed save_checkpoints_steps short_seq_prob task_name
    tpu_name tpu_zone train_batch_size train_file use_one_hot_embeddings use_tpu verbose_logging
    version_2_with_negative vocab_file warmup_proportion
"""

# Width of the flag name column.
_INDENT = 28


def _describe_program(program):
    """Return the help of a program, given its `sys.argv[0]`."""
    width = max(60, min(100, shutil.get_terminal_size().columns))
    paragraphs = (sys.modules["__main__"].__doc__ or "").strip().split("\n\n")
    # Indented text is an example and is not wrapped.
    parts = [x if x.startswith(" ") else textwrap.fill(x, width) for x in paragraphs]
    groups: dict[str, list[str]] = {"Flags": []}
    unmarked = RELEASE_FLAGS.split() if os.path.basename(program) in _RELEASE_SCRIPTS else FLAGS
    for flag in FLAGS.get_key_flags_for_module(program):
        lines = groups.setdefault(getattr(flag, "group", "Flags"), [])
        lines.append(_describe_flag(flag, "" if flag.name in unmarked else " (bert_tf)", width))
    parts += ["\n".join([f"{title}:", *lines]) for title, lines in groups.items() if lines]
    return "\n\n".join([*parts, textwrap.fill(_END, width)]) + "\n"


def _describe_flag(flag, mark, width):
    """Return the name, help, choices and default of a flag in two columns."""
    name = f"  --[no]{flag.name}"
    if not flag.boolean:
        value = _PATHS.get(flag.name.rpartition("_")[2], "TEXT")
        name = f"  --{flag.name}={_VALUES.get(flag.flag_type(), value)}"
    choices = getattr(flag.parser, "enum_values", None)
    notes = [", ".join(choices)] if choices else []
    if any("must have a value" in validator.message for validator in flag.validators):
        notes.append("required")
    if flag.default not in (None, [], "") and flag.default is not False:
        default = ",".join(flag.default) if isinstance(flag.default, list) else flag.default
        notes.append(f"default\xa0{str(default).lower() if flag.boolean else default}")
    # Remove absl's additions: the choices before the text, and a note on repetition after it.
    text = flag.help.partition(";\n")[0]
    text = text.partition(">: ")[2] if text.startswith("<") else text
    text += mark + (f" [{'; '.join(notes)}]" if notes else "")
    margin = " " * _INDENT
    first = name.ljust(_INDENT) if len(name) < _INDENT - 1 else f"{name}\n{margin}"
    lines = textwrap.wrap(text, width - _INDENT, break_on_hyphens=False)
    return first + f"\n{margin}".join(lines).replace("\xa0", " ")
