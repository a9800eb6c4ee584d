#!/usr/bin/env python3
"""Answer lines of text with a model; the script form of `bert-tf predict`."""

import sys

from bert_tf.__main__ import run

if __name__ == "__main__":
    run("predict", sys.argv[1:], program=sys.argv[0])
