"""Writes the embedded text: `python -m bert_tf.embedded FOLDER [SEED]`."""

import os
import sys

# TensorFlow reports its build at every start; a user's own setting wins.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from bert_tf import embedded
from bert_tf.errors import UserError


def main(arguments):
    """Writes the files and says what they are."""
    if not 1 <= len(arguments) <= 2 or not all(part.isdigit() for part in arguments[1:]):
        raise UserError("usage: python -m bert_tf.embedded FOLDER [SEED], SEED being a number")
    for path in embedded.write(arguments[0], *map(int, arguments[1:])):
        with open(path, encoding="utf-8") as reader:
            print(f"{path}: {sum(1 for _ in reader)} lines, {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except UserError as error:
        print(f"bert_tf.embedded: error: {error}", file=sys.stderr)
        sys.exit(1)
