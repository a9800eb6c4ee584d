"""Run several scripts in one process although their flags have the same names."""

import contextlib
import importlib
import importlib.util
import sys

from absl import flags
from absl.testing import flagsaver

import bert_tf
from bert_tf.__main__ import COMMANDS
from bert_tf.cli import flags as cli_flags


def module_of(script):
    """Return the module that defines the flags of a script and its `main`.

    >>> module_of("run_squad.py"), module_of("bert-tf vocab learn"), module_of("-m bert_tf convert")
    ('run_squad', 'bert_tf.cli.vocab_learn', 'bert_tf.cli.convert')
    """
    path = script.removeprefix("./").removeprefix("benchmarks/").removesuffix(".py")
    for program in ("bert-tf ", "-m bert_tf "):
        path = path.removeprefix(program)
    if path in COMMANDS:  # includes predict.py, which only calls that command
        return f"bert_tf.cli.{COMMANDS[path][0]}"
    if path.startswith("-m "):
        path = path.removeprefix("-m ")
        is_package = importlib.util.find_spec(path).submodule_search_locations
        return f"{path}.__main__" if is_package else path
    return path


@contextlib.contextmanager
def imported(*scripts):
    """Import scripts and yield a function that runs one of them with the given flags.

    The function has two attributes: `parse(script, *flags)` only parses flags and returns the
    remaining arguments; `flags_of` maps each script to its `absl` flags.

    Args:
      *scripts: file names, with or without ".py", module names or "bert-tf COMMAND".
    """
    names = {script: module_of(script) for script in scripts}
    replaced = {name: sys.modules.pop(name, None) for name in names.values()}
    modules, flags_of = {}, {}
    try:
        for script, name in names.items():
            with _isolated():
                known = set(flags.FLAGS)
                sys.modules.pop(name, None)
                # Imported again, because pretraining_speed.py uses its flags.
                sys.modules.pop("step_time", None)
                modules[script] = importlib.import_module(name)
                added = set(flags.FLAGS) - known
                flags_of[script] = [flags.FLAGS[flag] for flag in added]

        def run(script, *arguments):
            with _isolated(flags_of[script]), flagsaver.flagsaver():
                # Some tests of early errors omit this required flag.
                default = ["--output_dir=none"] if "output_dir" in flags.FLAGS else []
                flags.FLAGS([script, *default, *map(str, arguments)])
                try:
                    cli_flags._check_paths()
                    modules[script].main()
                except bert_tf.UserError as error:
                    error.args = (cli_flags.as_flags(error),)
                    raise

        def parse(script, *arguments):
            with _isolated(flags_of[script]), flagsaver.flagsaver():
                return flags.FLAGS([script, *arguments])[1:]

        run.parse, run.flags_of = parse, flags_of
        yield run
    finally:
        for name, module in replaced.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


@contextlib.contextmanager
def _isolated(script_flags=()):
    """Define only these flags and hide other scripts' flags; restore all flags at the end."""
    hidden = [
        (module, flag)
        for module, defined in flags.FLAGS.flags_by_module_dict().items()
        for flag in defined
        if module.startswith("bert_tf.") or ("." not in module and module != "absl")
    ]
    _remove(flag.name for _, flag in hidden)
    before = set(flags.FLAGS)
    for flag in script_flags:
        flags.FLAGS[flag.name] = flag
    try:
        yield
    finally:
        _remove(set(flags.FLAGS) - before)
        for module, flag in hidden:
            flags.FLAGS[flag.name] = flag
            flags.FLAGS.register_flag_by_module(module, flag)


def _remove(names):
    for name in set(names):
        delattr(flags.FLAGS, name)
