"""The `bert-tf` command, also `python -m bert_tf`: tools that are not scripts of the release."""

import importlib
import sys

from bert_tf.cli import flags

# Command -> (module with its flags and `main`, one-line description).
COMMANDS = {
    "predict": ("predict", "Answer lines of text with a model."),
    "embed": ("embed", "Write sentence vectors, or search for the nearest sentences."),
    "fill-mask": ("fill_mask", "Predict [MASK] words."),
    "check": ("check", "Check the results of this machine's devices."),
    "convert": ("convert", "Convert weights between the release and Hugging Face."),
    "vocab learn": ("vocab_learn", "Learn a WordPiece vocabulary from text."),
    "vocab add": ("vocab_add", "Add words to a vocabulary in its [unusedN] slots."),
}

_HELP = ("help", "-h", "-help", "--help", "--helpfull")


def main():
    """Run the command in `sys.argv`; return an exit status if it names no command."""
    arguments = sys.argv[1:]
    for length in (2, 1):
        name = " ".join(arguments[:length])
        if len(arguments) >= length and name in COMMANDS:
            return run(name, arguments[length:])
    # "bert-tf vocab" lists the commands of a group.
    group = arguments[0] if arguments else ""
    names = [name for name in COMMANDS if name.startswith(f"{group} ")]
    if not arguments or arguments[0] in _HELP or (names and set(arguments[1:]) <= set(_HELP)):
        print(_usage(names or COMMANDS))
        return 0
    unknown = " ".join(arguments[:2] if names else arguments[:1])
    print(f"bert-tf: error: unknown command {unknown!r}\n\n{_usage(COMMANDS)}", file=sys.stderr)
    return 1


def _usage(names):
    lines = "\n".join(f"  {name:<13} {COMMANDS[name][1]}" for name in names)
    return (
        f"usage: bert-tf COMMAND [--flag=value ...]\n\ncommands:\n{lines}\n\n"
        "bert-tf COMMAND --help lists the flags of a command."
    )


def run(name, arguments, program=None):
    """Run one of `COMMANDS` with its flags; `program` is its name in messages."""
    module_name = f"bert_tf.cli.{COMMANDS[name][0]}"
    module = importlib.import_module(module_name)
    sys.argv = [program or f"bert-tf {name}", *arguments]
    # For --help, absl shows the docstring of the main module and the key flags of sys.argv[0].
    sys.modules["__main__"].__doc__ = module.__doc__
    for flag in flags.FLAGS.get_key_flags_for_module(module_name):
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    backends = getattr(module, "BACKENDS", ("tensorflow",))
    flags.run(module.main, getattr(module, "needs_tensorflow", lambda: True), backends)


if __name__ == "__main__":
    sys.exit(main())
