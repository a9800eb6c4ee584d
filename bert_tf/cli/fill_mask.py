r"""Predict [MASK] tokens with a pre-trained BERT, or compute the pseudo-perplexity of texts.

    bert-tf fill-mask --model=uncased_L-12_H-768_A-12 \
      --text="The capital of France is [MASK]."

Score each line of a file:

    bert-tf fill-mask --model=uncased_L-12_H-768_A-12 --input_file=texts.txt \
      --perplexity --output_file=scores.tsv
"""

import contextlib
import itertools
import json
import sys

from absl import flags

import bert_tf
from bert_tf.cli import lines, pipelines
from bert_tf.cli.flags import FLAGS

pipelines.define_pipeline_flags()
flags.DEFINE_multi_string(
    "text",
    [],
    'Text with [MASK]; may be repeated. " ||| " separates the texts of a pair. Default: lines of '
    "standard input.",
)
flags.DEFINE_string("input_file", None, "Text file with one text per line.")
flags.DEFINE_string(
    "output_file",
    None,
    "File to write: JSON lines, or a table with perplexity. Default: results are printed.",
)
flags.DEFINE_integer("num_best", 5, "Number of predictions per [MASK].", lower_bound=1)
flags.DEFINE_bool(
    "perplexity",
    False,
    "Whether to compute the pseudo-perplexity of the texts instead, masking each token in turn.",
)


def main():
    if not FLAGS.text and not FLAGS.input_file and sys.stdin is None:
        raise bert_tf.UserError(
            "--text or --input_file is required, because standard input is closed"
        )
    if FLAGS.text and FLAGS.input_file:
        raise bert_tf.UserError("--text and --input_file cannot be combined")
    if FLAGS.perplexity and FLAGS["num_best"].present:
        raise bert_tf.UserError("--num_best cannot be combined with --perplexity")
    if FLAGS.input_file:
        bert_tf.io.files.require(FLAGS.input_file, "input_file")
    if FLAGS.output_file:
        bert_tf.io.files.check_writable(FLAGS.output_file, "output_file")
    pipeline = bert_tf.FillMask.from_preset(
        pipelines.model_files(), num_best=FLAGS.num_best, **pipelines.pipeline_options()
    )
    writer = contextlib.nullcontext(bert_tf.console.write)
    if FLAGS.output_file:
        writer = bert_tf.io.files.writing_text(FLAGS.output_file)
    with writer as write:
        write_results = write_scores if FLAGS.perplexity else write_predictions
        write_results(pipeline, read_chunks(), write)
    if FLAGS.output_file:
        bert_tf.console.info("wrote %s", FLAGS.output_file)


def read_chunks():
    """Yield iterables of texts; from standard input, as lines arrive."""
    if FLAGS.text:
        yield FLAGS.text
    elif FLAGS.input_file:
        yield bert_tf.pipelines.read_texts(FLAGS.input_file)
    else:
        numbers = itertools.count()
        for chunk in lines.stdin_chunks(["text"], "masked words"):
            yield [bert_tf.pipelines.Text.parse(next(numbers), line) for line in chunk]


def write_predictions(pipeline, chunks, write):
    for text in itertools.chain.from_iterable(map(pipeline.predict, chunks)):
        if FLAGS.output_file:
            write(json.dumps(as_json(text)) + "\n")
            continue
        write("\n" + " ".join(text.tokens[1:-1]) + "\n")
        for position, best in zip(text.positions, text.best, strict=True):
            words = "  ".join(f"{token} {100 * probability:.1f} %" for token, probability in best)
            write(f"  token {position}: {words}\n")


def as_json(predictions):
    masked = [
        {"position": position, "best": [{"token": token, "probability": x} for token, x in best]}
        for position, best in zip(predictions.positions, predictions.best, strict=True)
    ]
    return {"linex_index": predictions.text.index, "tokens": predictions.tokens, "masked": masked}


def write_scores(pipeline, chunks, write):
    num_tokens = total = 0
    write("line\ttokens\tlog_probability\tpseudo_perplexity\n")
    for score in itertools.chain.from_iterable(map(pipeline.score, chunks)):
        num_tokens += score.num_tokens
        total += score.log_probability
        write(
            f"{score.text.index}\t{score.num_tokens}\t{score.log_probability:.4f}\t"
            f"{score.perplexity:.4f}\n"
        )
    perplexity = bert_tf.tasks.fill_mask.perplexity(num_tokens, total)
    bert_tf.console.info("pseudo-perplexity of all %d tokens: %.4f", num_tokens, perplexity)
