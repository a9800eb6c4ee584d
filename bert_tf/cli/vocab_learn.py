r"""Learn a WordPiece vocabulary from text, to train a model from scratch.

    bert-tf vocab learn --input_file='corpus/*.txt' --vocab_file=vocab.txt \
      --vocab_size=32000

A cased vocabulary of pieces that occur at least ten times:

    bert-tf vocab learn --input_file='corpus/*.txt' --vocab_file=cased.txt \
      --nodo_lower_case --min_count=10
"""

from absl import flags

import bert_tf

FLAGS = flags.FLAGS

flags.DEFINE_string("input_file", None, "Text files: paths or globs, separated by commas.")
flags.DEFINE_string("vocab_file", None, "Vocabulary file to write, with one piece per line.")
flags.DEFINE_integer("vocab_size", 30522, "Size of the vocabulary.")
flags.DEFINE_bool("do_lower_case", True, "Whether to lower-case the text, for an uncased model.")
flags.DEFINE_integer("min_count", 2, "Minimum number of times that a piece occurs.", lower_bound=1)
flags.DEFINE_integer("num_unused", 99, "Number of [unusedN] slots for words.", lower_bound=0)
flags.mark_flags_as_required(["input_file", "vocab_file"])


def needs_tensorflow():
    return False


def main():
    vocabulary = bert_tf.tokenization.vocabulary
    inputs = bert_tf.io.files.expand(FLAGS.input_file, "input_file")
    bert_tf.io.files.check_writable(FLAGS.vocab_file, "vocab_file", inputs)
    words = vocabulary.count_words(inputs, FLAGS.do_lower_case)
    pieces = vocabulary.learn(words, FLAGS.vocab_size, FLAGS.min_count, FLAGS.num_unused)
    bert_tf.io.files.write_text(FLAGS.vocab_file, "".join(f"{piece}\n" for piece in pieces))
    bert_tf.console.info("%s: %d pieces", FLAGS.vocab_file, len(pieces))
