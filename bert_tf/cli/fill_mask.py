r"""Predict [MASK] tokens with a pre-trained BERT.

    bert-tf fill-mask --model=uncased_L-12_H-768_A-12 \
      --text="The capital of France is [MASK]."

Predict the [MASK] tokens in each line of a file:

    bert-tf fill-mask --model=uncased_L-12_H-768_A-12 --input_file=texts.txt \
      --output_file=words.jsonl
"""

import json

from absl import flags

import bert_tf
from bert_tf.cli import lines, pretrained
from bert_tf.cli.flags import FLAGS, check_files, define_options
from bert_tf.configs.export import ExportConfig

pretrained.define_model_flags()
flags.DEFINE_multi_string(
    "text",
    [],
    'Text with [MASK]; may be repeated. " ||| " separates the texts of a pair. Default: lines of '
    "standard input.",
)
flags.DEFINE_string("input_file", None, "Text file with one text per line.")
flags.DEFINE_string(
    "output_file", None, "File of JSON lines to write. Default: results are printed."
)
define_options(ExportConfig, only=("num_best",))


def main():
    if FLAGS.text and FLAGS.input_file:
        raise bert_tf.UserError("--text and --input_file cannot be combined")
    check_files()
    fill_mask = pretrained.load(bert_tf.FillMask, num_best=FLAGS.num_best)
    with lines.open_output() as write:
        write_predictions(fill_mask, read_chunks(), write)
    if FLAGS.output_file:
        bert_tf.console.info("wrote %s", FLAGS.output_file)


def read_chunks():
    """Yield iterables of texts; from standard input, as lines arrive."""
    if FLAGS.text:
        yield FLAGS.text
    elif FLAGS.input_file:
        yield bert_tf.io.files.read_lines(FLAGS.input_file)
    else:
        yield from lines.stdin_chunks(["text"], "masked words")


def write_predictions(fill_mask, chunks, write):
    texts = (x for chunk in chunks for x in fill_mask.stream(chunk, FLAGS.batch_size))
    for index, text in enumerate(texts):
        if FLAGS.output_file:
            write(json.dumps({"linex_index": index, **text._asdict()}) + "\n")
            continue
        write("\n" + " ".join(text.tokens[1:-1]) + "\n")
        for position, best in zip(text.positions, text.best, strict=True):
            words = "  ".join(f"{x['token_str']} {100 * x['score']:.1f} %" for x in best)
            write(f"  token {position}: {words}\n")
