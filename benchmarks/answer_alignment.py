#!/usr/bin/env python3
"""Count how often the release's mapping from tokens to text is wrong, on the contexts of SQuAD.

Every span of tokens up to a length, in every context, is converted to text with both values of
`--answer_alignment`: by words, as in the release, and by characters. Where they differ, the
release answers with more than the span. Spans that begin and end at word boundaries are counted
separately, because a model rarely answers with part of a word.

    python benchmarks/answer_alignment.py --input_file=train-v1.1.json --vocab_file=vocab.txt
"""

import collections
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "SQuAD JSON file.", required=True)
flags.DEFINE_string("vocab_file", None, "Vocabulary.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether the vocabulary is uncased.")
flags.DEFINE_integer("max_span_length", 6, "Maximum number of tokens in a span.")
flags.DEFINE_integer("examples", 5, "Number of differences to show.")


def main(_):
    import bert_tf
    from bert_tf.tasks.question_answering import QuestionAnsweringConfig as Config
    from bert_tf.tasks.question_answering import alignment, features, reading
    from bert_tf.tasks.question_answering.decoding import AnswerDecoder

    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    by_words = AnswerDecoder(Config().resolve())
    by_characters = AnswerDecoder(Config(answer_alignment="offsets").resolve())
    counts, shown = collections.Counter(), 0
    for paragraph in reading.JsonSource(FLAGS.input_file, "input_file").paragraphs():
        context = alignment.Context(paragraph.context, tokenizer)
        tokens = len(context.ids)
        window = features.Window(context, context.windows(tokens, tokens), [], 0, 0, tokens)
        word_starts = {*context.word_to_token, tokens}
        for first in range(tokens):
            for last in range(first, min(first + FLAGS.max_span_length, tokens)):
                is_whole = first in word_starts and last + 1 in word_starts
                positions = first + window.offset, last + window.offset
                text, exact = (
                    decoder.span_text(window, *positions) for decoder in (by_words, by_characters)
                )
                counts["whole words" if is_whole else "parts of words"] += 1
                # The release joins words with one space.
                if text != exact and text.split() != exact.split():
                    counts["differ, whole words" if is_whole else "differ, parts of words"] += 1
                    if shown < FLAGS.examples:
                        shown += 1
                        print(f"{exact!r} is {text!r} by words")
    for kind in ("whole words", "parts of words"):
        total, differ = counts[kind], counts[f"differ, {kind}"]
        print(f"{kind}: {differ} of {total} spans differ ({100 * differ / max(total, 1):.3f} %)")
    print(f"{by_words.num_unaligned} spans could not be aligned to their words")


if __name__ == "__main__":
    app.run(main)
