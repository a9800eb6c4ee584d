#!/usr/bin/env python3
"""Counts how often the release's way back from tokens to text misses, on the contexts of SQuAD.

Every span of tokens up to a length, in every context, is turned into text both ways of
`--answer_alignment`: by words, as in the release, and by characters. Where they differ the release
answers with more than the span. Spans that begin and end with a word are counted apart: a model
seldom answers with a part of one.

    python benchmarks/answer_alignment.py --input_file=train-v1.1.json --vocab_file=vocab.txt
"""

import collections
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "JSON file of SQuAD.", required=True)
flags.DEFINE_string("vocab_file", None, "A vocabulary.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether it is an uncased one.")
flags.DEFINE_integer("longest", 6, "The most tokens of a span.")
flags.DEFINE_integer("examples", 5, "How many differences to show.")


def main(_):
    import bert_tf
    from bert_tf.tasks.question_answering import alignment, features, reading
    from bert_tf.tasks.question_answering.decoding import AnswerDecoder, DecodingConfig

    tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file, FLAGS.do_lower_case)
    by_words = AnswerDecoder(DecodingConfig())
    by_characters = AnswerDecoder(DecodingConfig(), by_offsets=True)
    counts, shown = collections.Counter(), 0
    for paragraph in reading.JsonSource(FLAGS.input_file, "input_file").paragraphs():
        context = alignment.Context(paragraph.context, tokenizer)
        tokens = len(context.ids)
        window = features.Window(context, context.windows(tokens, tokens), [], 0, 0, tokens)
        begins = {*context.word_to_token, tokens}
        for first in range(tokens):
            for last in range(first, min(first + FLAGS.longest, tokens)):
                is_whole = first in begins and last + 1 in begins
                positions = first + window.offset, last + window.offset
                found, exact = (f.span_text(window, *positions) for f in (by_words, by_characters))
                counts["whole words" if is_whole else "parts of words"] += 1
                # Between words the release has one space whatever the text has.
                if found != exact and found.split() != exact.split():
                    counts["differ, whole words" if is_whole else "differ, parts of words"] += 1
                    if shown < FLAGS.examples:
                        shown += 1
                        print(f"{exact!r} is {found!r} by words")
    for kind in ("whole words", "parts of words"):
        total, differ = counts[kind], counts[f"differ, {kind}"]
        print(f"{kind}: {differ} of {total} spans differ ({100 * differ / max(total, 1):.3f} %)")
    print(f"{by_words.num_unaligned} spans were not found in their words")


if __name__ == "__main__":
    app.run(main)
