"""Writes BERT weights in another format: the release's or Hugging Face's."""

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string(
    "input", None, "The weights: a checkpoint of the release or of a run, or a Hugging Face folder."
)
flags.DEFINE_string("output_dir", None, "The folder to make.")
flags.DEFINE_enum("format", None, ["release", "hugging_face"], "The format to write.")
flags.DEFINE_string("bert_config_file", None, "The config, if it does not lie beside the weights.")
bert_tf.cli.flags.define_tokenizer_flags()
flags.DEFINE_string(
    "architecture",
    None,
    "The class of transformers to write for, such as BertForTokenClassification; told by the head "
    "if not given, and a tagger has the head of a classifier.",
)
flags.DEFINE_bool("keep_optimizer", False, "Whether to write moments and step too.")
flags.DEFINE_integer(
    "max_position_embeddings",
    None,
    "Cut or extend the position table to so many rows; extended, it has to be pre-trained further.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "vocab_size", None, "Extend the word table to so many rows, for a longer vocabulary."
)
flags.mark_flags_as_required(["input", "output_dir", "format"])


def main():
    config = None
    if FLAGS.bert_config_file:
        config = bert_tf.BertConfig.from_json_file(FLAGS.bert_config_file)
    bert_tf.checkpoints.convert(
        FLAGS.input,
        FLAGS.output_dir,
        FLAGS.format,
        config,
        FLAGS.vocab_file,
        do_lower_case=FLAGS.do_lower_case if FLAGS["do_lower_case"].present else None,
        architecture=FLAGS.architecture,
        keep_optimizer=FLAGS.keep_optimizer,
        max_position_embeddings=FLAGS.max_position_embeddings,
        vocab_size=FLAGS.vocab_size,
    )
