#!/usr/bin/env python3
"""Measure tokenizers on one text: bert_tf in Python and in the graph, and other libraries.

The tokenizers take turns in one process. A turn converts texts to ids in each library's form: lists
in Python, ragged tensors in TensorFlow. With `--threads=2`, tokenizers that support it use two
threads.

    python benchmarks/tokenization.py --input_file=corpus.txt --vocab_file=vocab.txt
"""

import multiprocessing.pool
import os
import statistics

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import helpers
from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Text to tokenize, line by line.", required=True)
flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.", required=True)
flags.DEFINE_integer("threads", 1, "Threads of tokenizers that can use more than one.")
flags.DEFINE_integer("turns", 7, "Number of turns of each tokenizer.")
flags.DEFINE_integer("batch", 1000, "Number of lines in a batch.")


def tensorflow_turn(tokenize, lines):
    """Return a turn of a tensor tokenizer, called from --threads threads as in a server."""
    import tensorflow as tf

    batches = [tf.constant(lines[i : i + FLAGS.batch]) for i in range(0, len(lines), FLAGS.batch)]
    function = tf.function(tokenize, input_signature=[tf.TensorSpec((None,), tf.string)])
    threads = multiprocessing.pool.ThreadPool(FLAGS.threads)
    return lambda: sum(threads.imap_unordered(lambda batch: num_tokens(function(batch)), batches))


def num_tokens(batch):
    """Return the number of tokens in a batch of ragged ids, with or without starts and ends."""
    ids = batch[0] if isinstance(batch, tuple) else batch
    return ids.values.shape[0]


def tokenizers(texts):
    """Return a dict from name to a function that tokenizes `texts` and counts the tokens."""
    import tensorflow as tf
    import tensorflow_text
    from tokenizers import BertWordPieceTokenizer

    import bert_tf

    lines = [text.encode() for text in texts]
    starts = range(0, len(texts), FLAGS.batch)
    batches = [texts[start : start + FLAGS.batch] for start in starts]
    graph = bert_tf.GraphTokenizer(FLAGS.vocab_file)
    vocab = dict(graph.vocab)
    pieces = list(vocab)
    hugging_face = BertWordPieceTokenizer(vocab, lowercase=True)
    fast = tensorflow_text.FastBertTokenizer(pieces, lower_case_nfd_strip_accents=True)
    table = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(pieces, tf.range(len(pieces), dtype=tf.int64)), 1
    )
    stock = tensorflow_text.BertTokenizer(table, lower_case=True)
    warm = bert_tf.FullTokenizer(FLAGS.vocab_file)

    def python(tokenizer):
        return sum(len(ids) for batch in batches for ids in tokenizer.encode_batch(batch))

    def rust():
        return sum(
            len(encoding.ids)
            for batch in batches
            for encoding in hugging_face.encode_batch(batch, add_special_tokens=False)
        )

    def words_joined(batch):
        return stock.tokenize(batch).merge_dims(-2, -1)

    # The lambdas keep the tokenizer alive; its functions hold only weak references to it.
    return {
        "bert_tf, graph": tensorflow_turn(lambda batch: graph.tokenize(batch), lines),
        "bert_tf, graph, offsets": tensorflow_turn(
            lambda batch: graph.tokenize_with_offsets(batch), lines
        ),
        "bert_tf, Python, empty cache": lambda: python(bert_tf.FullTokenizer(FLAGS.vocab_file)),
        "bert_tf, Python": lambda: python(warm),
        "Hugging Face tokenizers": rust,
        "tensorflow-text FastBertTokenizer": tensorflow_turn(fast.tokenize, lines),
        "tensorflow-text BertTokenizer": tensorflow_turn(words_joined, lines),
    }


def main(_):
    # The Hugging Face library reads this when it starts its threads.
    os.environ["RAYON_NUM_THREADS"] = str(FLAGS.threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if FLAGS.threads > 1 else "false"
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(FLAGS.threads)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    with open(FLAGS.input_file, encoding="utf-8") as reader:
        texts = [line for line in reader.read().split("\n") if line.strip()]
    size = sum(len(text.encode()) for text in texts)
    print(f"{len(texts)} lines, {size / 1e6:.2f} MB, {FLAGS.threads} threads, {FLAGS.turns} turns")

    turns = tokenizers(texts)
    counts = {name: turn() for name, turn in turns.items()}  # also traces and warms up
    helpers.print_head("tokenizer", "MB/s", "from - to", "tokens")
    for name, seconds in helpers.take_turns(turns, FLAGS.turns).items():
        x = [size / 1e6 / time for time in seconds]
        speed, limits = f"{statistics.median(x):.1f}", f"{min(x):.1f} - {max(x):.1f}"
        helpers.print_row(name, speed, limits, counts[name])


if __name__ == "__main__":
    app.run(main)
