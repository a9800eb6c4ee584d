"""On bad inputs every command succeeds or prints one sentence, and leaves no partial files.

Each case is a command line of `good_inputs` with one or two damaged flags or input files. It
depends only on a seed and its number; a failure prints both. To repeat cases 40 to 49 of seed 7:

    BERT_TF_TEST_SEED=7 BERT_TF_TEST_CASES=40-49 pytest -m slow tests/cli/test_bad_inputs.py
"""

import contextlib
import os
import random
import re
import shutil
import signal
import sys
import traceback

import keras
import pytest
from absl import flags

from bert_tf.errors import Stopped, UserError, is_out_of_memory, reason
from tests import scripts_alone
from tests.cli import bad_files, good_inputs
from tests.common import digests

SEED = int(os.environ.get("BERT_TF_TEST_SEED") or random.SystemRandom().randrange(2**32))
FIRST, LAST = map(int, os.environ.get("BERT_TF_TEST_CASES", "0-999").split("-"))
_BLOCK = 25  # number of cases per test
_MAX_SECONDS = 60

_NUMBERS = ["nan", "inf", "-inf", "-1", "0", "0.5", "1e400", "x", "", "True", "1,2", "\uff11"]
_LARGE = ["1e9", "2147483648", "9223372036854775807", "9" * 30]
_TEXTS = ["", " ", "nothing/here", ".", "out", "/dev/null", "x" * 5000, "*", "[", "\udce9",
          "s3://b/x", "%s", "{0}", "`x`", "-", "0", "text", "model", "hf", "vocab/vocab.txt",
          "table/train.csv", "text/a.txt", "../x"]  # fmt: skip
_LISTS = ["", ",", "a,a", "1,2,x", "-1", "9" * 30, "nan", "0", *"x"]

# Large values of these are valid but would take days or start thousands of processes.
_ENDLESS = {
    "num_train_steps", "num_train_epochs", "dupe_factor", "num_processes",
    "num_shards", "max_eval_steps",
}  # fmt: skip
# These search the network for machines.
_NETWORK = {"use_tpu", "tpu_name", "master", "tpu_zone", "gcp_project"}

# A failed run may leave these complete files, which the next run uses.
_KEPT = re.compile(
    r"\.lock|(bert_config|classifier|squad|tagger|choice|tokenizer_config|best|run)\.json|vocab\.txt|"
    r"(train|eval|dev|test|predict)\w*\.tf_record(\.json)?|checkpoint|events\.out\..*|"
    r"model\.ckpt-\d+\.(index|data-00000-of-00001)|\w+_results\.\w+|\w*predictions\.\w+|"
    r"null_odds\.json|(input_counts|records\.counts)\.json|batching_parameters\.txt"
)
# Folders that a command may change.
_RUNS = re.compile(r"(out|none|pretrained|classifier|squad|tagger|choice|sentences)/")
_TEMPORARY = re.compile(r"\.tmp-|tempstate|_temp/|\.work/")
# A message that only repeats a Python or TensorFlow exception.
_RAW = re.compile(
    r"Traceback|\{\{node|\[Op:|<class '|object at 0x|NoneType|has no attribute|subscriptable|"
    r"positional argument|must be (str|real)|unsupported operand|Tensor\(|\bErrno\b"
)


@pytest.fixture(scope="module")
def commands(tmp_path_factory):
    """A function `run(script, folder, arguments)`; its `flags_of` maps scripts to flags."""
    (typed := tmp_path_factory.mktemp("typed") / "lines.txt").write_text("a question\n")
    with scripts_alone.imported(*good_inputs.COMMANDS) as run_script:

        def run(script, folder, arguments):
            with pytest.MonkeyPatch.context() as patch, typed.open() as stdin:
                patch.chdir(folder)
                patch.setattr(sys, "stdin", stdin)
                run_script(script, *arguments)

        run.flags_of = run_script.flags_of
        yield run


@pytest.fixture(scope="module")
def inputs(commands, tmp_path_factory):
    return good_inputs.Inputs(tmp_path_factory.mktemp("inputs"), commands)


def test_quick_commands(commands, inputs, tmp_path):
    check_cases(range(30), good_inputs.QUICK_COMMANDS, commands, inputs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST, LAST + 1, _BLOCK))
def test_all_commands(first, commands, inputs, tmp_path):
    numbers = range(first, min(first + _BLOCK, LAST + 1))
    check_cases(numbers, good_inputs.COMMANDS, commands, inputs, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("script", good_inputs.COMMANDS)
def test_without_damage(script, commands, inputs, tmp_path):
    """The undamaged command lines succeed."""
    for number, command_line in enumerate(good_inputs.COMMANDS[script]):
        folder = tmp_path / str(number)
        folder.mkdir()
        inputs.copy(command_line, folder)
        commands(script, folder, command_line.split())


def check_cases(numbers, command_lines, commands, inputs, folder):
    """Run cases and report all failures."""
    failures, errors = [], 0
    for number in numbers:
        case_folder = folder / str(number)
        case_folder.mkdir()
        rng = random.Random(f"{SEED}/{number}")
        script = rng.choice(list(command_lines))
        command_line = rng.choice(command_lines[script])
        inputs.copy(command_line, case_folder)
        arguments = command_line.split()
        damages = [
            damage_something(commands.flags_of[script], arguments, case_folder, rng)
            for _ in range(rng.choice([1, 1, 1, 2]))
        ]
        shown = (
            f"BERT_TF_TEST_SEED={SEED} case {number}: {script} {' '.join(arguments)} "
            f"({', '.join(damages)})"
        )
        problem, is_error = run_case(commands, script, case_folder, arguments)
        errors += is_error
        if problem:
            failures.append(f"{shown}\n{problem}")
        shutil.rmtree(case_folder)
        if number % 20 == 19:
            keras.backend.clear_session()
    print(f"{len(numbers)} cases, {errors} of them one-sentence errors")
    assert not failures, f"{len(failures)} of {len(numbers)} cases failed:\n" + "\n".join(failures)
    assert errors > len(numbers) / 15  # about two in five are typical


def damage_something(script_flags, arguments, folder, rng):
    """Damage an argument or an input file; return a description."""
    files = (path for path in folder.rglob("*") if path.is_file())
    paths = sorted(path for path in files if "events.out" not in path.name)
    if paths and rng.random() < 0.6:
        return bad_files.damage(str(rng.choice(paths)), rng)
    flag = rng.choice([x for x in script_flags if x.name not in _NETWORK])
    given = [x for x in script_flags if f"--{x.name}=" in " ".join(arguments)]
    if given and rng.random() < 0.5:
        flag = rng.choice(given)
    change = rng.random()
    if change < 0.05:
        arguments.append(rng.choice(["--nothing=1", "extra", "--", f"--{flag.name}"]))
        return "an argument more"
    if change < 0.15:
        # Without a number of steps the script would train for hours.
        arguments.remove(rng.choice([x for x in arguments if "num_train_steps" not in x]))
        return "an argument less"
    arguments.append(f"--{flag.name}={bad_value(flag, rng)}")
    return "a flag"


def bad_value(flag, rng):
    """Return a flag value, as text, that may be invalid."""
    kind = flag.flag_type()
    if kind in ("int", "float"):
        return rng.choice(_NUMBERS + (_LARGE if flag.name not in _ENDLESS else []))
    if kind == "bool":
        return rng.choice(["true", "false", "maybe", "", "2"])
    if kind == "string enum":
        return rng.choice([*flag.parser.enum_values, "", "other", "x,y"])
    return rng.choice(_LISTS + _TEXTS if "list" in kind or "multi" in kind else _TEXTS)


def run_case(commands, script, folder, arguments):
    """Run a command; return (a description of the failure or None, whether it printed an error)."""
    before = digests(folder)
    error = None
    try:
        with deadline(_MAX_SECONDS):
            commands(script, folder, arguments)
    except KeyboardInterrupt:
        raise
    except BaseException as exception:
        error = exception
        is_clear = isinstance(error, (UserError, flags.Error, Stopped)) or is_out_of_memory(error)
        if not is_clear:
            lines = traceback.format_exc().splitlines()
            return "\n".join([*lines[-8:], repr(error)[:500]]), True
    after = digests(folder)
    changed = [name for name in before if after.get(name) != before[name]]
    new = [name for name in after if name not in before]
    # A command may overwrite its output file.
    given = {argument.partition("=")[2] for argument in arguments}
    problems = [f"changed: {x}" for x in changed if not _RUNS.match(x) and x not in given]
    problems += [f"left: {name}" for name in new if _TEMPORARY.search(name)]
    if error is not None:
        # Answers are also written if some lines are invalid.
        is_kept = "lines were invalid" in str(error)
        left = [x for x in new if not is_kept and not _KEPT.fullmatch(x.rpartition("/")[2])]
        problems += [f"left: {name}" for name in left]
        message = reason(error) if is_out_of_memory(error) else str(error)
        is_quoted = any(x in " ".join(arguments) for x in "\n`")
        if not message or (len(message.splitlines()) > 1 and not is_quoted):
            problems.append("not one line")
        if _RAW.search(message):
            problems.append("not a sentence for users")
        if problems:
            problems.append(f"{type(error).__name__}: {message[:1000]}")
    return "\n".join(problems) or None, error is not None


class TooLong(BaseException):
    """The command took too long."""


@contextlib.contextmanager
def deadline(seconds):
    """Raise TooLong if the block uses more than this much processor time."""

    def expire(*_):
        raise TooLong(f"not finished after {seconds} s of processor time")

    previous = signal.signal(signal.SIGPROF, expire)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, previous)
