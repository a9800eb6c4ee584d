#!/usr/bin/env python3
r"""Counts the strings of which a tokenizer gives other tokens than the 2018 release did.

    python benchmarks/tokens_of_others.py --cases_file=cases.jsonl --vocab_file=uncased_vocab.txt
    OTHER_VENV/bin/python benchmarks/tokens_of_others.py --who=tf-models-official ...

Each line of the file has a `text` and `uncased`, the release's tokens of it. Lines without a `text`
(damaged UTF-8) are left out. tf-models-official wants a Python of its own, which needs no bert_tf.
"""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from absl import app, flags


def ours(vocab_file):
    import bert_tf

    return bert_tf.FullTokenizer(vocab_file, do_lower_case=True).tokenize


def hugging_face(vocab_file):
    from tokenizers import BertWordPieceTokenizer

    tokenizer = BertWordPieceTokenizer(vocab_file, lowercase=True)
    return lambda text: tokenizer.encode(text, add_special_tokens=False).tokens


def keras_hub(vocab_file):
    import keras_hub
    import numpy as np

    with open(vocab_file, encoding="utf-8") as reader:
        pieces = reader.read().splitlines()
    tokenizer = keras_hub.models.BertTokenizer(pieces, lowercase=True, strip_accents=True)
    return lambda text: [pieces[i] for i in np.array(tokenizer(text)).tolist()]


def official(vocab_file):
    from official.nlp.tools import tokenization

    return tokenization.FullTokenizer(vocab_file, do_lower_case=True).tokenize


LAYER_COMBINATIONS = {
    "bert_tf": ours,
    "transformers": hugging_face,
    "keras-hub": keras_hub,
    "tf-models-official": official,
}

FLAGS = flags.FLAGS
flags.DEFINE_string("cases_file", None, "JSON lines of texts and tokens.", required=True)
flags.DEFINE_string("vocab_file", None, "The vocabulary of these tokens.", required=True)
flags.DEFINE_multi_enum(
    "who", list(LAYER_COMBINATIONS)[:3], list(LAYER_COMBINATIONS), "Whose tokens, repeated."
)


def main(_):
    with open(FLAGS.cases_file, encoding="utf-8") as reader:
        cases = [case for case in map(json.loads, reader) if "text" in case]
    for name in FLAGS.who:
        tokenize = LAYER_COMBINATIONS[name](FLAGS.vocab_file)
        others = sum(tokenize(case["text"]) != case["uncased"] for case in cases)
        print(f"{name}: other tokens of {others} of {len(cases)} strings")


if __name__ == "__main__":
    app.run(main)
