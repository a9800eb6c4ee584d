r"""Convert a BERT model to the release's or Hugging Face's format.

    bert-tf convert --input=uncased_L-12_H-768_A-12/bert_model.ckpt \
      --format=hugging_face --output_dir=bert-base-uncased

Extend a model to longer texts; the new positions need further pre-training:

    bert-tf convert --input=hf://google-bert/bert-base-uncased \
      --format=release --max_position_embeddings=1024 --output_dir=long_base
"""

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, TOKENIZER_FLAGS, define_options, tokenizer_options
from bert_tf.configs.model import ModelConfig

flags.DEFINE_string(
    "input",
    None,
    "Release checkpoint, checkpoint of a training run, Hugging Face folder, or "
    "OWNER/NAME[@REVISION] of the Hugging Face hub.",
)
flags.DEFINE_string("output_dir", None, "Folder to create.")
flags.DEFINE_enum("format", None, ["release", "hugging_face"], "Format to write.")
define_options(ModelConfig, only=("bert_config_file", "vocab_file", *TOKENIZER_FLAGS))
flags.DEFINE_string(
    "architecture",
    None,
    "Model class in transformers, such as BertForTokenClassification. Default: the class of the "
    "input folder, else inferred from the head, which cannot distinguish text from token "
    "classifiers.",
)
flags.DEFINE_bool("keep_optimizer", False, "Whether to keep the optimizer moments and the step.")
flags.DEFINE_integer(
    "max_position_embeddings",
    None,
    "New number of position embeddings. A model with more positions needs further pre-training.",
    lower_bound=1,
)
flags.DEFINE_integer("vocab_size", None, "New number of word embeddings, for a larger vocabulary.")
flags.mark_flags_as_required(["input", "output_dir", "format"])

_OPTIONS = ("vocab_file", "architecture", "keep_optimizer", "max_position_embeddings", "vocab_size")


def main():
    path = FLAGS.bert_config_file
    config = bert_tf.BertConfig.from_json_file(path) if path else None
    options = {name: FLAGS[name].value for name in _OPTIONS} | tokenizer_options()
    bert_tf.checkpoints.convert(FLAGS.input, FLAGS.output_dir, FLAGS.format, config, **options)
