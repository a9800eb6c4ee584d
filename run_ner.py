#!/usr/bin/env python3
"""Fine-tunes BERT to tag words (named entities, parts of speech), evaluates it and predicts."""

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import FLAGS, define_alias, run

fine_tuning.define_fine_tuning_flags(
    128, "Longest sequence in tokens; longer sentences are split into overlapping windows."
)
# Names are written with capitals (BERT paper, section 5.3), so the model is cased by default.
FLAGS.set_default("do_lower_case", False)
flags.DEFINE_string("data_dir", None, "Folder with train.txt, dev.txt and test.txt.")
flags.DEFINE_string("train_file", None, "Training set if not train.txt in data_dir.")
flags.DEFINE_string("dev_file", None, "Development set if not dev.txt in data_dir.")
flags.DEFINE_string("test_file", None, "Test set if not test.txt in data_dir.")
flags.DEFINE_string(
    "word_column",
    None,
    "Column of the words, a number from 0, or -1 for the last; the first if not given. With "
    "tfds_name, the feature: tokens if not given.",
)
flags.DEFINE_string(
    "tag_column",
    None,
    "Column of the tags, the last if not given. With tfds_name, the feature: ner or tags if not "
    "given.",
)
flags.DEFINE_enum(
    "tag_scheme",
    None,
    ["iob1", "iob2", "iobes", "none"],
    "How the data mark the beginning of spans; none for tags without spans, such as parts of "
    "speech. Inferred from the training set if not given.",
)
flags.DEFINE_enum(
    "learn_scheme",
    None,
    ["iob1", "iob2", "iobes"],
    "Scheme that the model learns, iob2 if not given.",
)
flags.DEFINE_enum(
    "output_scheme",
    None,
    ["iob1", "iob2", "iobes"],
    "Scheme of the predictions, that of the data if not given.",
)
flags.DEFINE_bool("skip_bad_rows", False, "Leave out sentences that cannot be used.")
fine_tuning.define_tfds_flags(
    "Splits of that data set for training, development and test; found by name if not given."
)
flags.DEFINE_integer(
    "doc_stride", None, "Tokens between the starts of two windows, half a window if not given.", 1
)
flags.DEFINE_bool(
    "document_context",
    False,
    "Read whole documents instead of single sentences; the data mark them by -DOCSTART-.",
)
flags.DEFINE_bool(
    "features_only",
    False,
    "Freeze BERT and train a two-layer BiLSTM on its features.",
)
flags.DEFINE_enum(
    "layer_combination",
    "concat_last_four",
    ["embeddings", "second_to_last", "last", "weighted_sum_last_four", "concat_last_four",
     "weighted_sum_all"],
    "The layers that features_only uses.",
)  # fmt: skip
define_alias("feature_way", "layer_combination")
flags.DEFINE_integer(
    "feature_lstm_size", None, "Units of each direction of the BiLSTM, hidden_size if not given.", 1
)
flags.DEFINE_bool("report", False, "Write eval_report.txt with each label's scores.")


def main():
    fine_tuning.fine_tune("token_classification")


if __name__ == "__main__":
    run(main)
