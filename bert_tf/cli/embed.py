"""Sentences to vectors: written to a file, searched for neighbours, or as a SavedModel."""

import contextlib
import sys

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

bert_tf.cli.pipelines.define_vector_flags()
flags.DEFINE_string("input_file", None, "Sentences, one a line.")
flags.DEFINE_string(
    "output_file", None, "NumPy file to write: row N is the vector of line N, both from 0."
)
flags.DEFINE_enum(
    "pooling",
    None,
    ["mean", "max", "cls"],
    "Mean or greatest of the tokens' vectors, or the one of [CLS]; mean if not given.",
)
flags.DEFINE_integer(
    "layer",
    None,
    "The layer whose vectors these are: 0 is the lowest, -1 the last; -2 if not given.",
)
flags.DEFINE_bool("normalize", None, "Whether to give vectors the length 1; not if not given.")
flags.DEFINE_bool("float16", False, "Whether to write numbers in half the bytes.")
flags.DEFINE_multi_string(
    "query", [], "A sentence whose nearest neighbours in input_file to print; may be given again."
)
flags.DEFINE_bool(
    "interactive", False, "Whether to read such sentences from standard input, one a line."
)
flags.DEFINE_integer("num_nearest", 5, "How many neighbours to print.", lower_bound=1)
flags.DEFINE_string(
    "export_dir", None, "Folder of a SavedModel's versions, from strings to vectors, to write one."
)
flags.DEFINE_integer(
    "version", None, "Number of the version, the next free one if not given.", lower_bound=0
)


def main():
    check_flags()
    options = bert_tf.cli.pipelines.runner_options()
    if not FLAGS["max_seq_length"].present:
        # A folder of sentence-transformers has its own.
        del options["max_seq_length"]
    encoder = bert_tf.SentenceEncoder.from_preset(
        bert_tf.cli.pipelines.model_files(),
        pooling=FLAGS.pooling,
        layer=FLAGS.layer,
        normalize=FLAGS.normalize,
        **options,
    )
    if FLAGS.export_dir:
        serving = bert_tf.serving
        servable = serving.sentence_embedding_servable(encoder, serving.Options())
        serving.export(servable, FLAGS.export_dir, FLAGS.version)
    if FLAGS.input_file:
        kept, vectors = embed(encoder)
        if FLAGS.interactive:
            answer(encoder, kept, vectors)


def check_flags():
    if not (FLAGS.input_file or FLAGS.export_dir):
        raise bert_tf.UserError("one of --input_file and --export_dir must be given")
    if FLAGS.input_file:
        bert_tf.files.require(FLAGS.input_file, "input_file")
        if not (FLAGS.output_file or FLAGS.query or FLAGS.interactive):
            raise bert_tf.UserError(
                "--input_file: for what? Give --output_file, --query or --interactive"
            )
    else:
        for name in ("output_file", "query", "interactive"):
            if FLAGS[name].value:
                raise bert_tf.UserError(f"--{name} wants --input_file")
    if FLAGS.output_file:
        bert_tf.files.check_writable(FLAGS.output_file, "output_file")
    bert_tf.cli.pipelines.check_used("float16", ["output_file"])
    bert_tf.cli.pipelines.check_used("version", ["export_dir"])
    bert_tf.cli.pipelines.check_used("num_nearest", ["query", "interactive"])


def sentences():
    for line in bert_tf.files.read_lines(FLAGS.input_file):
        yield line.strip()


def embed(encoder):
    """Writes the vectors, prints the neighbours of --query.

    Returns:
      (the sentences, their vectors), only kept with --interactive.
    """
    nearest = None
    if FLAGS.query:
        nearest = bert_tf.pipelines.Nearest(encoder.encode(FLAGS.query), FLAGS.num_nearest)
    kept, vectors = [], []
    with contextlib.ExitStack() as stack:
        write = None
        if FLAGS.output_file:
            # The file says how many there are before the first of them.
            count = sum(1 for _ in sentences())
            dtype = "float16" if FLAGS.float16 else "float32"
            write = stack.enter_context(
                bert_tf.pipelines.array_writer(FLAGS.output_file, count, encoder.width, dtype)
            )
        for sentence, vector in encoder.stream(sentences()):
            if write:
                write(vector)
            if nearest and sentence:
                nearest.add(vector, sentence)
            if FLAGS.interactive and sentence:
                kept.append(sentence)
                vectors.append(vector)
    if FLAGS.output_file:
        bert_tf.console.info("wrote %s", FLAGS.output_file)
    if nearest:
        for query, found in zip(FLAGS.query, nearest.found(), strict=True):
            show(query, [(neighbour.similarity, neighbour.item) for neighbour in found])
    return kept, vectors


def answer(encoder, kept, vectors):
    """Prints the neighbours of each sentence that is typed."""
    if not kept:
        raise bert_tf.UserError(f"--interactive: there is no sentence in {FLAGS.input_file}")
    unit = bert_tf.pipelines.unit
    vectors = unit(vectors)
    for line in sys.stdin:
        if query := line.strip():
            asked = unit(encoder.encode([query]))
            (found,) = bert_tf.pipelines.nearest_of(asked, vectors, FLAGS.num_nearest)
            show(query, [(similarity, kept[index]) for index, similarity in found])


def show(query, found):
    print(f"\n{query}")
    for similarity, sentence in found:
        print(f"  {similarity:.3f}  {sentence}", flush=True)
