r"""Write sentence vectors, search for nearest neighbors, or export a sentence encoder.

    bert-tf embed --model=hf://sentence-transformers/all-MiniLM-L6-v2 \
      --input_file=sentences.txt --query="A man is eating pasta."

Write the vectors as a NumPy array:

    bert-tf embed --model=hf://sentence-transformers/all-MiniLM-L6-v2 \
      --input_file=sentences.txt --output_file=vectors.npy
"""

import contextlib

from absl import flags

import bert_tf
from bert_tf.cli import pretrained
from bert_tf.cli.flags import FLAGS, check_files, define_options, from_flags
from bert_tf.configs.export import ExportConfig
from bert_tf.data import tables
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingConfig
from bert_tf.tasks.sentence_embedding.search import NearestNeighbors

pretrained.define_model_flags()
flags.DEFINE_string("input_file", None, "Text file with one sentence per line.")
flags.DEFINE_string(
    "output_file", None, "NumPy file (.npy) to write, with a row per line of input_file."
)
_OPTIONS = ("pooling", "layer", "normalize", "truncate_dim", "prompt")
define_options(SentenceEmbeddingConfig, only=_OPTIONS)
flags.DEFINE_multi_string("query", [], "Sentence whose neighbors to print; may be repeated.")
flags.DEFINE_integer("num_nearest", 5, "Number of neighbors to print.", lower_bound=1)
flags.DEFINE_string(
    "rerank_model",
    None,
    "Text-pair classifier that reranks the nearest neighbors: the output_dir of run_classifier.py "
    "or any other model name or folder.",
)
flags.DEFINE_string(
    "rerank_label",
    None,
    "Label of rerank_model whose probability is the score. Default: 1 or yes, if it exists.",
)
flags.DEFINE_integer("num_candidates", 50, "Number of neighbors to rerank.", lower_bound=1)
define_options(ExportConfig, only=("export_dir", "version"))

# Flag -> the flags that have an effect only with it.
_ENABLES = {
    "input_file": ("output_file", "query"),
    "export_dir": ("version",),
    "query": ("num_nearest", "rerank_model"),
    "rerank_model": ("rerank_label", "num_candidates"),
}


def main():
    check_flags()
    config = from_flags(SentenceEmbeddingConfig)
    options = {x: getattr(config, x) for x in _OPTIONS if config.is_given(x)}
    encoder = pretrained.load(bert_tf.SentenceEncoder, **options)
    reranker = None
    if FLAGS.rerank_model:
        with bert_tf.training.Engine.of(encoder.model).scope():
            reranker = bert_tf.TextClassifier.from_preset(FLAGS.rerank_model)
        reranker.rank("", [], label=FLAGS.rerank_label)  # checks the label
    if FLAGS.export_dir:
        encoder.export(FLAGS.export_dir, FLAGS.version, dtype=FLAGS.dtype)
    if FLAGS.input_file:
        embed(encoder, reranker)


def check_flags():
    if not (FLAGS.input_file or FLAGS.export_dir):
        raise bert_tf.UserError("--input_file or --export_dir is required")
    if FLAGS.input_file and not (FLAGS.output_file or FLAGS.query):
        raise bert_tf.UserError("--input_file requires --output_file or --query")
    for required, names in _ENABLES.items():
        for name in names:
            if FLAGS[name].present and not FLAGS[required].value:
                raise bert_tf.UserError(f"--{name} requires --{required}")
    if (FLAGS.input_file or "").endswith((".csv", ".tsv", *tables.ENDINGS)):
        bert_tf.console.warning("--input_file: each line is one text, also in a table")
    check_files()


def read_sentences():
    return (line.strip() for line in bert_tf.io.files.read_lines(FLAGS.input_file))


def embed(encoder, reranker):
    """Write the vectors and print the neighbors of the queries."""
    from bert_tf.tasks.token_vectors.task import array_writer  # imports TensorFlow

    neighbors = None
    if FLAGS.query:
        count = max(FLAGS.num_nearest, FLAGS.num_candidates if reranker else 0)
        neighbors = NearestNeighbors(FLAGS.query, count, encoder)
    writer = contextlib.nullcontext()
    if FLAGS.output_file:
        # The file starts with a header that contains the number of rows.
        count = sum(1 for _ in read_sentences())
        writer = array_writer(FLAGS.output_file, count, encoder.config.width)
    with writer as write:
        for sentence, vector in encoder.stream(read_sentences(), FLAGS.batch_size):
            if write:
                write(vector)
            if neighbors and sentence:
                neighbors.add(vector, sentence)
    if FLAGS.output_file:
        bert_tf.console.info("wrote %s", FLAGS.output_file)
    if neighbors:
        for query, results in zip(FLAGS.query, neighbors.results(), strict=True):
            print_neighbors(query, results, reranker)


def print_neighbors(query, results, reranker):
    """Print a query and its neighbors: reranker score (if any), cosine similarity, sentence."""
    lines = [f"  {similarity:.3f}  {sentence}\n" for _, similarity, sentence in results]
    if reranker:
        texts = [x.item for x in results]
        ranked = reranker.rank(query, texts, FLAGS.num_nearest, FLAGS.rerank_label)
        lines = [f"  {x['score']:.3f}{lines[x['corpus_id']]}" for x in ranked]
    bert_tf.console.write("".join([f"\n{query}\n", *lines]))
