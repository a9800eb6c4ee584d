r"""Add words to a vocabulary in its [unusedN] slots, so that no id changes.

    bert-tf vocab add --vocab_file=vocab.txt --words_file=words.txt \
      --output_file=my_vocab.txt

The vocabulary of a cased model:

    bert-tf vocab add --vocab_file=cased_L-12_H-768_A-12/vocab.txt \
      --words_file=words.txt --output_file=my_vocab.txt --nodo_lower_case
"""

from absl import flags

import bert_tf

FLAGS = flags.FLAGS

flags.DEFINE_string("vocab_file", None, "Vocabulary file to read.")
flags.DEFINE_string("words_file", None, "Text file with the words to add, one per line.")
flags.DEFINE_string("output_file", None, "Vocabulary file to write.")
flags.DEFINE_bool("do_lower_case", True, "Whether the model is uncased.")
flags.mark_flags_as_required(["vocab_file", "words_file", "output_file"])

NEEDS_TENSORFLOW = False


def main():
    for flag in ("vocab_file", "words_file"):
        bert_tf.io.files.require(FLAGS[flag].value, flag)
    vocabulary = bert_tf.tokenization.vocabulary
    vocab = vocabulary.load_vocab(FLAGS.vocab_file)
    vocabulary.validate_case_matches_vocabulary(FLAGS.do_lower_case, vocab, FLAGS.vocab_file)
    paths = (FLAGS.vocab_file, FLAGS.words_file)
    lines = (bert_tf.io.files.read_text(path).split("\n") for path in paths)
    pieces, words = ([*map(str.strip, x)] for x in lines)
    words = [*filter(None, words)]
    bert_tf.io.files.check_writable(FLAGS.output_file, "output_file", [FLAGS.words_file])
    new_pieces, added = vocabulary.add_words(pieces, words, FLAGS.do_lower_case)
    bert_tf.io.files.write_text(FLAGS.output_file, "\n".join(new_pieces))
    bert_tf.console.info(
        f"{FLAGS.output_file}: {len(added)} words added in [unusedN] slots, "
        f"{len(words) - len(added)} already in the vocabulary"
    )
