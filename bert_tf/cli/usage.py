"""The text of `--help`: description and examples of a command, and its flags by title."""

import shutil
import sys
import textwrap

from absl import flags

FLAGS = flags.FLAGS

# Titles in order. Flags that are not options of a config come first.
_TITLES = (
    "Flags", "Run", "Data", "TensorFlow Datasets", "Columns and labels", "Model", "Task",
    "Sequences", "Instances", "Shards", "Training", "Optimizer", "Evaluation and prediction",
    "Answers", "Serving", "Devices, speed and memory",
)  # fmt: skip

_VALUES = {
    "int": "N",
    "float": "X",
    "comma separated list of strings": "A,B",
    "string enum": "CHOICE",
    "multi string enum": "CHOICE",
}
_PATHS = {"file": "FILE", "dir": "FOLDER"}

_END = (
    "--[no]x is a switch: --x or --nox. (bert_tf) marks additions to the flags of the 2018 "
    "release. --helpfull also shows the limits of values and the flags of absl, such as "
    "--flagfile, --undefok and --verbosity."
)

# Width of the flag name column.
_INDENT = 28


def describe(program):
    """Return the help of a program, given its `sys.argv[0]`."""
    width = max(60, min(100, shutil.get_terminal_size().columns))
    paragraphs = (sys.modules["__main__"].__doc__ or "").strip().split("\n\n")
    # Indented text is an example and is not wrapped.
    parts = [x if x.startswith(" ") else textwrap.fill(x, width) for x in paragraphs]
    groups: dict[str, list[str]] = {title: [] for title in _TITLES}
    for flag in FLAGS.get_key_flags_for_module(program):
        groups.setdefault(getattr(flag, "group", "Flags"), []).append(_describe(flag, width))
    parts += ["\n".join([f"{title}:", *lines]) for title, lines in groups.items() if lines]
    return "\n\n".join([*parts, textwrap.fill(_END, width)]) + "\n"


def _describe(flag, width):
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
    text = text.partition(">: ")[2] if choices else text
    text += f" [{'; '.join(notes)}]" if notes else ""
    margin = " " * _INDENT
    first = name.ljust(_INDENT) if len(name) < _INDENT - 1 else f"{name}\n{margin}"
    lines = textwrap.wrap(text, width - _INDENT, break_on_hyphens=False)
    return first + f"\n{margin}".join(lines).replace("\xa0", " ")
