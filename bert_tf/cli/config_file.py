"""`--config`: flag values from a YAML or JSON file, such as the `run.json` of an earlier run.

>>> run_classifier.py --config=out/run.json --output_dir=again --seed=1
"""

import contextlib
import difflib
import itertools
import os
import re
from typing import Annotated

from absl import flags

from bert_tf.errors import UserError, reason
from bert_tf.io import files, json_files

FLAGS = flags.FLAGS


def define_flag(program):
    """Define --config as a key flag of a program, or redefine it."""
    help = (
        "YAML or JSON file with flag values, such as the run.json of an earlier run. Flags on the "
        "command line take precedence. (bert_tf)"
    )
    flags.DEFINE_string("config", None, help, module_name=program, allow_override=True)


def parse(argv, known):
    """Parse flags like absl, with the values in the file of --config as defaults."""
    values = {}
    for argument, after in itertools.pairwise([*argv[1:], ""]):
        if match := re.fullmatch("--?config(=(.*))?", argument, re.DOTALL):
            values = _read(match[2] if match[1] else after, known)
    for name, value in values.items():
        FLAGS[name].value = value  # before parsing, which checks required flags
    rest = FLAGS(argv)
    for name in values:
        FLAGS[name].present = max(1, FLAGS[name].present)
    return rest


def _read(path, known):
    values = _load(path)
    # run.json also contains data, versions and metrics.
    if isinstance(values, dict) and isinstance(values.get("config"), dict):
        values = values["config"]
    if message := json_files.problem(values, dict):
        raise UserError(f"{path}: the file {message}")
    for name in values:
        if name not in known or name == "config":
            similar = difflib.get_close_matches(str(name), known, 1)
            hint = f"; did you mean {similar[0]}?" if similar else ""
            raise UserError(f"{path}: unknown flag {name}{hint}")
    given = {name: value for name, value in values.items() if value is not None}
    return {name: _convert(path, FLAGS[name], value) for name, value in given.items()}


def _load(path):
    if not path:
        raise UserError("--config requires the path of a file")
    if os.path.splitext(path)[1].lower() not in (".yaml", ".yml"):
        return json_files.read(path)
    try:
        import yaml
    except ImportError:
        raise UserError(f"{path} requires PyYAML: pip install 'bert_tf[yaml]'") from None
    try:
        return yaml.safe_load(files.read_text(path))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        raise UserError(f"{path}{line}: invalid YAML ({reason(error)})") from None


def _convert(path, flag, value):
    parser, hint = flag.parser, str
    if flag.boolean:
        hint = bool
    elif isinstance(parser, flags.IntegerParser):
        hint = Annotated[int, json_files.Limits(parser.lower_bound, parser.upper_bound)]
    elif isinstance(parser, flags.FloatParser):
        hint = Annotated[float, json_files.Limits(parser.lower_bound, parser.upper_bound)]
        with contextlib.suppress(ValueError, TypeError):
            value = parser.convert(value)  # YAML reads 2e-5, without a decimal point, as a string
    elif isinstance(parser, flags.EnumParser):
        hint = Annotated[str, json_files.Limits(choices=tuple(parser.enum_values))]
    elif isinstance(flag, flags.MultiFlag) or isinstance(parser, flags.ListParser):
        hint = list[str]
        if isinstance(value, str):  # as on the command line
            value = parser.parse(value) if isinstance(parser, flags.ListParser) else [value]
        elif isinstance(value, list):  # columns may be numbers
            value = [str(x) if type(x) is int else x for x in value]
    if message := json_files.problem(value, hint):
        raise UserError(f"{path}: {flag.name}{'' if message[0] == '[' else ' '}{message}")
    return value
