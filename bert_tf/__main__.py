"""Run the `bert-tf` command as `python -m bert_tf`."""

import sys

from bert_tf.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
