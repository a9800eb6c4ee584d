"""The `bert-tf` command: the tools that are not scripts of the 2018 release."""

import importlib
import sys

from bert_tf.cli import flags

# Command -> (module with its flags and `main`, one-line description).
COMMANDS = {
    "predict": ("predict", "Answer lines of text with an exported model."),
    "ask": ("ask", "Answer lines of text with a model served by TF Serving."),
    "embed": ("embed", "Write sentence vectors, or search for the nearest sentences."),
    "fill-mask": ("fill_mask", "Predict [MASK] words, or score texts by pseudo-likelihood."),
    "attention": ("attention", "Draw the attention of a text as a picture or a page."),
    "convert": ("convert", "Convert weights between the release and Hugging Face."),
    "vocab learn": ("vocab_learn", "Learn a WordPiece vocabulary from text."),
    "vocab add": ("vocab_add", "Put words into the [unusedN] slots of a vocabulary."),
}


def main():
    """Run the command named on the command line."""
    arguments = sys.argv[1:]
    for length in (2, 1):
        name = " ".join(arguments[:length])
        if len(arguments) >= length and name in COMMANDS:
            return run(name, arguments[length:])
    asks_for_help = not arguments or arguments[0] in ("help", "-h", "--help", "--helpfull")
    out = sys.stdout if asks_for_help else sys.stderr
    if not asks_for_help:
        print(f"bert-tf: error: there is no command {' '.join(arguments[:2])!r}", file=out)
    print("usage: bert-tf COMMAND [--flag=value ...]\n\ncommands:", file=out)
    for name, (_, description) in COMMANDS.items():
        print(f"  {name:<12} {description}", file=out)
    print("\nbert-tf COMMAND --help lists the flags of a command.", file=out)
    return 0 if asks_for_help else 1


def run(name, arguments, program=None):
    """Run a command with its own flags.

    Args:
      name: a key of `COMMANDS`.
      arguments: list of str, the flags as typed.
      program: the name shown in messages, "bert-tf NAME" by default.
    """
    module_name = f"bert_tf.cli.{COMMANDS[name][0]}"
    module = importlib.import_module(module_name)
    sys.argv = [program or f"bert-tf {name}", *arguments]
    # absl shows the docstring and the flags of the main module for --help.
    sys.modules["__main__"].__doc__ = module.__doc__
    for flag in flags.FLAGS.get_key_flags_for_module(module_name):
        flags.FLAGS.register_key_flag_for_module(sys.argv[0], flag)
    flags.run(module.main, needs_tensorflow=getattr(module, "NEEDS_TENSORFLOW", True))


if __name__ == "__main__":
    sys.exit(main())
