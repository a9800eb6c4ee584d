#!/usr/bin/env python3
r"""Asks one model the same texts in every way that there is, and says how far the answers differ.

    python benchmarks/same_answers.py --init_checkpoint=MODEL --output_dir=/tmp/same \
      --tsv_files=CoLA/dev.tsv,MRPC/dev.tsv --column_files=conll2003/dev.txt \
      --squad_files=xquad/dev.json --text_files=corpus.txt

MODEL is a Hugging Face folder or a checkpoint of the release; the answers are its sentence vectors.
The ways: `SentenceEncoder`, with the tokenizer in Python; the SavedModel by strings, with the
tokenizer in the graph; a SavedModel of ids alone; and both of them by the C++ program
`tests/serving/cpp/answer.cc`. The texts: those of the files, as many of each as --num_texts says, taken
evenly; and hostile ones. The status is 1 if an answer differs from that of `SentenceEncoder` by
more than 1e-5, or a way fails.
"""

import os
import sys
import time

import numpy as np
import tensorflow as tf
from absl import flags

import bert_tf
from bert_tf import serving
from bert_tf.modeling.models import INPUTS
from bert_tf.pipelines.base import Text, TextPreprocessor
from bert_tf.tasks import question_answering as squad
from bert_tf.tasks import token_classification as tagging

FLAGS = flags.FLAGS
flags.DEFINE_string("init_checkpoint", None, "The model.", required=True)
flags.DEFINE_string(
    "output_dir", None, "Folder for the SavedModels and the program.", required=True
)
flags.DEFINE_list("tsv_files", [], "Files of GLUE, or others with texts between tabs.")
flags.DEFINE_list("column_files", [], "Files with a word a line.")
flags.DEFINE_list("squad_files", [], "Files of SQuAD.")
flags.DEFINE_list("text_files", [], "Files with a text a line.")
flags.DEFINE_integer("num_texts", 1000, "Texts of each file, at most.")

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


def of_tsv(path):
    """The cells of a tab-separated file that have more than one word."""
    cells = (cell.strip() for line in bert_tf.files.read_lines(path) for cell in line.split("\t"))
    return [cell for cell in cells if " " in cell]


def of_columns(path):
    """The sentences of a file with a word a line."""
    sentences = tagging.ColumnFiles(paths={"test": path}).read("test")
    return [" ".join(sentence.words) for sentence in sentences]


def of_squad(path):
    """The contexts and questions of a file of SQuAD."""
    paragraphs = squad.JsonSource(path, "squad_files").paragraphs()
    return [text for p in paragraphs for text in (p.context, *(q.text for q in p.questions))]


def of_lines(path):
    """The lines of a text."""
    return [line.strip() for line in bert_tf.files.read_lines(path) if line.strip()]


READERS = {"tsv_files": of_tsv, "column_files": of_columns, "squad_files": of_squad,
           "text_files": of_lines}  # fmt: skip


def exported(encoder, folder):
    """Writes the two SavedModels; returns the folders of that of text and that of ids."""
    folders = []
    for inputs in ("text", "ids"):
        options = serving.Options(inputs=inputs, warm_up=False)
        servable = serving.sentence_embedding_servable(encoder, options)
        folders.append(serving.export(servable, os.path.join(folder, inputs)))
    return folders


def ways(encoder, folders, program=None, batch_size=32):
    """The ways to ask: dict from a name to a function from bytes, a list, to an array (B, H).

    Args:
      encoder: a `SentenceEncoder`.
      folders: what `exported` made of it.
      program: what `native.build` made, None to leave it out.
      batch_size: texts that are asked together.
    """
    # Not before this folder is where modules are looked for.
    import native

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

    found = {
        "Python": lambda texts: encoder.encode([x.decode("utf-8", "ignore") for x in texts]),
        "strings": lambda texts: np.concatenate(strings(texts)),
        "ids": lambda texts: np.concatenate(ids(texts)),
    }
    if program:
        found["C++, strings"] = lambda texts: native.ask(
            program, folders[0], [(text,) for text in texts], True, batch_size=batch_size
        )[0]
        found["C++, ids"] = lambda texts: native.ask(
            program, folders[1], list(map(inputs_of, texts)), False, batch_size=batch_size
        )[0]
    return found


def differences(ways, texts):
    """How far each way is from the first: dict from its name to the greatest difference."""
    (_, first), *others = ways.items()
    expected = first(texts)
    found = {}
    for name, way in others:
        answers = np.asarray(way(texts))
        if answers.shape != expected.shape:
            raise bert_tf.UserError(f"{name}: {answers.shape}, {expected.shape} was expected")
        # What is no number differs: no comparison with it is true.
        apart = np.abs(answers - expected).max()
        found[name] = float(apart) if apart >= 0 else np.inf
    return found


def main():
    import native

    kinds = {}
    for flag, read in READERS.items():
        for path in FLAGS[flag].value:
            texts = read(path)
            places = np.linspace(0, len(texts), min(FLAGS.num_texts, len(texts)), endpoint=False)
            # Of about the same length together.
            kinds[path] = sorted((texts[int(i)].encode() for i in places), key=len)
    kinds |= {f"hostile: {name}": texts for name, texts in HOSTILE.items()}
    encoder = bert_tf.SentenceEncoder.from_preset(FLAGS.init_checkpoint)
    asked = ways(encoder, exported(encoder, FLAGS.output_dir), native.build(FLAGS.output_dir))
    print(" | ".join(("texts", "number", *list(asked)[1:], "seconds")), flush=True)
    worst = 0.0
    for kind, texts in kinds.items():
        start = time.monotonic()
        found = differences(asked, texts)
        cells = [f"{apart:.1e}" for apart in found.values()]
        seconds = f"{time.monotonic() - start:.0f}"
        print(" | ".join((kind, str(len(texts)), *cells, seconds)), flush=True)
        worst = max(worst, *found.values())
    print(f"greatest difference: {worst:.1e}")
    return int(worst > TOLERANCE)


if __name__ == "__main__":
    bert_tf.cli.flags.run(lambda: sys.exit(main()))
