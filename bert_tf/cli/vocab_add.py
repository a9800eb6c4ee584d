"""Puts words of one's own into the [unusedN] slots of a vocabulary; all ids stay as they are."""

import os

from absl import flags

import bert_tf

FLAGS = flags.FLAGS

flags.DEFINE_string("vocab_file", None, "The vocabulary to start from.")
flags.DEFINE_string("words_file", None, "Text file with the words to put in, one a line.")
flags.DEFINE_string("output_file", None, "The vocabulary to write.")
flags.DEFINE_bool("do_lower_case", True, "Whether the model is uncased, so text is lower-cased.")
flags.mark_flags_as_required(["vocab_file", "words_file", "output_file"])


def main():
    for flag in ("vocab_file", "words_file"):
        bert_tf.files.require(FLAGS[flag].value, flag)
    bert_tf.tokenization.load_vocab(FLAGS.vocab_file)
    pieces = bert_tf.files.read_text(FLAGS.vocab_file).split("\n")
    words = bert_tf.files.read_text(FLAGS.words_file).split("\n")
    words = [word.strip() for word in words if word.strip()]
    bert_tf.files.make_folder(os.path.dirname(FLAGS.output_file))
    changed, new = bert_tf.tokenization.put_words(
        [piece.strip() for piece in pieces], words, FLAGS.do_lower_case
    )
    bert_tf.files.write_text(FLAGS.output_file, "\n".join(changed))
    bert_tf.console.info(
        "%s: %d words put into [unusedN] slots, %d were there already",
        FLAGS.output_file, len(new), len(words) - len(new),
    )  # fmt: skip
