"""Prints the words that a pre-trained BERT puts for [MASK], or how likely it finds sentences."""

import contextlib
import json
import sys

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.pipelines.define_vector_flags()
flags.DEFINE_multi_string(
    "text", [], 'A text with [MASK] in it; may be given again. " ||| " parts a pair.'
)
flags.DEFINE_string("input_file", None, "Texts, one a line.")
flags.DEFINE_string(
    "output_file", None, "Where to write instead: JSON lines, or of --perplexity a table."
)
flags.DEFINE_integer("num_best", 5, "How many words to give for each [MASK].", lower_bound=1)
flags.DEFINE_bool(
    "perplexity",
    False,
    "Whether to give the texts' pseudo-perplexity instead: each token is masked in turn.",
)


def main():
    if not FLAGS.text and not FLAGS.input_file:
        raise bert_tf.UserError("one of --text and --input_file must be given")
    if FLAGS.text and FLAGS.input_file:
        raise bert_tf.UserError("--text and --input_file exclude each other")
    if FLAGS.perplexity and FLAGS["num_best"].present:
        raise bert_tf.UserError("--num_best has no effect with --perplexity")
    if FLAGS.input_file:
        bert_tf.files.require(FLAGS.input_file, "input_file")
    if FLAGS.output_file:
        bert_tf.files.check_writable(FLAGS.output_file, "output_file")
    words = bert_tf.FillMask.from_preset(
        bert_tf.cli.pipelines.model_files(),
        num_best=FLAGS.num_best,
        **bert_tf.cli.pipelines.runner_options(),
    )
    texts = FLAGS.text
    if FLAGS.input_file:
        texts = bert_tf.pipelines.read_texts(FLAGS.input_file)
    with contextlib.ExitStack() as stack:
        write = sys.stdout.write
        if FLAGS.output_file:
            write = stack.enter_context(bert_tf.files.writing_text(FLAGS.output_file))
        if FLAGS.perplexity:
            score(words, texts, write)
        else:
            guess(words, texts, write)
    if FLAGS.output_file:
        bert_tf.console.info("wrote %s", FLAGS.output_file)


def guess(words, texts, write):
    for found in words.guess(texts):
        if FLAGS.output_file:
            write(json.dumps(as_json(found)) + "\n")
            continue
        write("\n" + " ".join(found.tokens[1:-1]) + "\n")
        for place, best in zip(found.places, found.best, strict=True):
            said = "  ".join(f"{token} {100 * probability:.1f} %" for token, probability in best)
            write(f"  token {place}: {said}\n")


def as_json(found):
    masked = [
        {"position": place, "best": [{"token": token, "probability": x} for token, x in best]}
        for place, best in zip(found.places, found.best, strict=True)
    ]
    return {"linex_index": found.text.index, "tokens": found.tokens, "masked": masked}


def score(words, texts, write):
    count = total = 0
    write("line\ttokens\tlog_probability\tpseudo_perplexity\n")
    for found in words.score(texts):
        count += found.num_tokens
        total += found.log_probability
        write(
            f"{found.text.index}\t{found.num_tokens}\t{found.log_probability:.4f}\t"
            f"{found.perplexity:.4f}\n"
        )
    whole = bert_tf.pipelines.perplexity(count, total)
    bert_tf.console.info("pseudo-perplexity of all %d tokens: %.4f", count, whole)
