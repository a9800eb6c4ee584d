#!/usr/bin/env python3
r"""Run one model on the same texts in every supported way and print how far the answers differ.

    python benchmarks/same_answers.py --init_checkpoint=MODEL --output_dir=/tmp/same \
      --tsv_files=CoLA/dev.tsv,MRPC/dev.tsv --column_files=conll2003/dev.txt \
      --squad_files=xquad/dev.json --text_files=corpus.txt

MODEL is a Hugging Face folder or a checkpoint of the release; the answers are sentence vectors.
They come from `SentenceEncoder`, with the tokenizer in Python; from a SavedModel for strings, with
the tokenizer in the graph; from a SavedModel for ids; and from both SavedModels in the C++ program
`tests/serving/cpp/answer.cc`. The texts are --num_texts evenly spaced texts from each file, and
hostile texts. The exit status is 1 if an answer differs from `SentenceEncoder` by more than 1e-5 or
if one of them fails.
"""

import os
import sys
import time

import numpy as np
import tensorflow as tf
from absl import flags

import bert_tf
from bert_tf import configs, serving
from bert_tf.modeling.models import INPUTS
from bert_tf.pipelines.text_pipeline import Text, TextPreprocessor
from bert_tf.tasks import question_answering as squad
from bert_tf.tasks import token_classification as tagging
from bert_tf.tasks.sentence_embedding.servable import sentence_embedding_servable

FLAGS = flags.FLAGS
flags.DEFINE_string("init_checkpoint", None, "Checkpoint or Hugging Face folder.", required=True)
flags.DEFINE_string(
    "output_dir", None, "Folder for the SavedModels and the C++ program.", required=True
)
flags.DEFINE_list("tsv_files", [], "GLUE files, or other tab-separated files.")
flags.DEFINE_list("column_files", [], "Files with one word per line.")
flags.DEFINE_list("squad_files", [], "SQuAD JSON files.")
flags.DEFINE_list("text_files", [], "Files with one text per line.")
flags.DEFINE_integer("num_texts", 1000, "Maximum number of texts from each file.")

TOLERANCE = 1e-5

HOSTILE = {
    "empty": [b"", b" ", b"\n\t\r \xc2\xa0\xe3\x80\x80", "\u200b\ufeff\u00ad".encode()],
    "a megabyte": [b"a" * 2**20, b"ab " * 350_000, "\U0001f600".encode() * 2**18, b"\xff" * 2**20],
    "damaged UTF-8": [b"\xff\xfe", b"a\xc0\xafb", b"\xed\xa0\x80 a", b"ab \xf0\x9f\x98", b"\x80"],
    "only emoji": ["\U0001f600".encode(), "\U0001f468\u200d\U0001f469".encode() * 9],
    "NUL": [b"\0", b"a\0b", b"\0" * 1000, b"a b\0"],
    "other": [b"[CLS] [SEP] [MASK]", b"a\\tb\\nc\\", b"a\tb\nc\r\nd", "a\u0301\u0327".encode(),
              "\ud55c\uad6d\uc5b4 \u4e2d\u6587 \u03a3\u03c3\u03c2".encode(), "\u202eabc".encode()],
}  # fmt: skip


def read_tsv(path):
    """Return the cells of a tab-separated file that have more than one word."""
    cells = (
        cell.strip() for line in bert_tf.io.files.read_lines(path) for cell in line.split("\t")
    )
    return [cell for cell in cells if " " in cell]


def read_columns(path):
    """Return the sentences of a file with one word per line."""
    sentences = tagging.ColumnFiles(paths={"test": path}).read("test")
    return [" ".join(sentence.words) for sentence in sentences]


def read_squad(path):
    """Return the contexts and questions of a SQuAD file."""
    paragraphs = squad.JsonSource(path, "squad_files").paragraphs()
    return [text for p in paragraphs for text in (p.context, *(q.text for q in p.questions))]


def read_lines(path):
    """Return the lines of a text file that are not blank."""
    return [line.strip() for line in bert_tf.io.files.read_lines(path) if line.strip()]


READERS = {"tsv_files": read_tsv, "column_files": read_columns, "squad_files": read_squad,
           "text_files": read_lines}  # fmt: skip


def exported(encoder, folder):
    """Write the two SavedModels and return their folders, text first, then ids."""
    folders = []
    for inputs in ("text", "ids"):
        options = configs.ServingConfig(inputs=inputs, warm_up=False)
        servable = sentence_embedding_servable(encoder, options)
        folders.append(serving.export(servable, os.path.join(folder, inputs)))
    return folders


def ways(encoder, folders, program=None, batch_size=32):
    """Return a dict from the name of each way to a function from a list of bytes to (B, H).

    Args:
      encoder: a `SentenceEncoder`.
      folders: the folders returned by `exported`.
      program: the path returned by `native.build`, None to omit the C++ program.
      batch_size: number of texts in a batch.
    """
    import native  # needs this folder on the module search path

    by_text, by_ids = (tf.saved_model.load(x).signatures["serving_default"] for x in folders)
    rows = TextPreprocessor(encoder.tokenizer, encoder.max_seq_length)

    def batches(texts):
        return (texts[i : i + batch_size] for i in range(0, len(texts), batch_size))

    def inputs_of(text):
        row = rows.convert(Text(0, text.decode("utf-8", "ignore"), None))
        return row.input_ids, [1] * len(row.input_ids), row.segment_ids

    def filled(batch):
        columns = zip(*map(inputs_of, batch), strict=True)
        return {
            name: tf.ragged.constant(column, tf.int32).to_tensor()
            for name, column in zip(INPUTS, columns, strict=True)
        }

    def strings(texts):
        return [by_text(text=tf.constant(batch))["vectors"] for batch in batches(texts)]

    def ids(texts):
        return [by_ids(**filled(batch))["vectors"] for batch in batches(texts)]

    functions = {
        "Python": lambda texts: encoder.encode([x.decode("utf-8", "ignore") for x in texts]),
        "strings": lambda texts: np.concatenate(strings(texts)),
        "ids": lambda texts: np.concatenate(ids(texts)),
    }
    if program:
        functions["C++, strings"] = lambda texts: native.ask(
            program, folders[0], [(text,) for text in texts], True, batch_size=batch_size
        )[0]
        functions["C++, ids"] = lambda texts: native.ask(
            program, folders[1], list(map(inputs_of, texts)), False, batch_size=batch_size
        )[0]
    return functions


def differences(ways, texts):
    """Return a dict from the name of each way to its largest difference from the first."""
    (_, first), *others = ways.items()
    expected = first(texts)
    results = {}
    for name, way in others:
        answers = np.asarray(way(texts))
        if answers.shape != expected.shape:
            raise bert_tf.UserError(f"{name}: shape {answers.shape}, expected {expected.shape}")
        # NaN counts as a difference: no comparison with it is true.
        difference = np.abs(answers - expected).max()
        results[name] = float(difference) if difference >= 0 else np.inf
    return results


def main():
    import native

    groups = {}
    for flag, read in READERS.items():
        for path in FLAGS[flag].value:
            texts = read(path)
            indices = np.linspace(0, len(texts), min(FLAGS.num_texts, len(texts)), endpoint=False)
            # Texts of similar length share a batch.
            groups[path] = sorted((texts[int(i)].encode() for i in indices), key=len)
    groups |= {f"hostile: {name}": texts for name, texts in HOSTILE.items()}
    encoder = bert_tf.SentenceEncoder.from_preset(FLAGS.init_checkpoint)
    functions = ways(encoder, exported(encoder, FLAGS.output_dir), native.build(FLAGS.output_dir))
    print(" | ".join(("texts", "number", *list(functions)[1:], "seconds")), flush=True)
    worst = 0.0
    for group, texts in groups.items():
        start = time.monotonic()
        results = differences(functions, texts)
        cells = [f"{difference:.1e}" for difference in results.values()]
        seconds = f"{time.monotonic() - start:.0f}"
        print(" | ".join((group, str(len(texts)), *cells, seconds)), flush=True)
        worst = max(worst, *results.values())
    print(f"largest difference: {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    bert_tf.cli.flags.run(lambda: sys.exit(main()))
