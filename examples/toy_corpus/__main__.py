"""Write the toy corpus: `python -m examples.toy_corpus --output_dir=FOLDER`."""

import pathlib
import sys

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run
from examples import toy_corpus

flags.DEFINE_string("output_dir", None, "Folder to write the five files to.")
flags.DEFINE_integer("seed", 0, "Random seed; the same seed gives the same text.", lower_bound=0)
flags.mark_flag_as_required("output_dir")


def main():
    for path in toy_corpus.write(FLAGS.output_dir, FLAGS.seed):
        data = pathlib.Path(path).read_bytes()
        bert_tf.console.info("%s: %d lines, %d bytes", path, data.count(b"\n"), len(data))


if __name__ == "__main__":
    sys.argv[0] = "examples.toy_corpus"  # the program name in error messages
    run(main, needs_tensorflow=lambda: False)
