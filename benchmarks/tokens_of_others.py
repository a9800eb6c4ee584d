#!/usr/bin/env python3
r"""Count the strings for which a tokenizer gives different tokens from the 2018 release.

    python benchmarks/tokens_of_others.py --cases_file=cases.jsonl --vocab_file=uncased_vocab.txt
    OTHER_VENV/bin/python benchmarks/tokens_of_others.py --library=tf-models-official ...

Each line of the file has a `text` and, in `uncased`, the release's tokens. Lines without a `text`
(invalid UTF-8) are skipped. tf-models-official requires a separate environment, without bert_tf.
"""

import json
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

from absl import app, flags


def bert_tf_tokenizer(vocab_file):
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


TOKENIZERS = {
    "bert_tf": bert_tf_tokenizer,
    "transformers": hugging_face,
    "keras-hub": keras_hub,
    "tf-models-official": official,
}

FLAGS = flags.FLAGS
flags.DEFINE_string("cases_file", None, "JSON lines with texts and tokens.", required=True)
flags.DEFINE_string("vocab_file", None, "Vocabulary of the tokens.", required=True)
flags.DEFINE_multi_enum(
    "library", list(TOKENIZERS)[:3], list(TOKENIZERS), "Library to compare; may be repeated."
)


def main(_):
    with open(FLAGS.cases_file, encoding="utf-8") as reader:
        cases = [case for case in map(json.loads, reader) if "text" in case]
    for name in FLAGS.library:
        tokenize = TOKENIZERS[name](FLAGS.vocab_file)
        count = sum(tokenize(case["text"]) != case["uncased"] for case in cases)
        print(f"{name}: different tokens for {count} of {len(cases)} strings")


if __name__ == "__main__":
    app.run(main)
