#!/usr/bin/env python3
"""Fine-tunes BERT to classify or score a text or a pair of texts, evaluates it and predicts."""

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run

fine_tuning.define_fine_tuning_flags(128, "Longest sequence in tokens; longer ones are truncated.")
fine_tuning.define_distillation_flags()
flags.DEFINE_string("data_dir", None, "Folder with the files of the task.")
flags.DEFINE_string(
    "task_name",
    None,
    "Task: cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-matched, mnli-mismatched, qnli, rte, wnli, "
    "ax, xnli, or tsv for other files.",
)
flags.DEFINE_string("xnli_language", "zh", "Language of XNLI. (bert_tf)")
# Custom data.
flags.DEFINE_string("train_file", None, "Training set if not train.tsv in data_dir. (bert_tf)")
flags.DEFINE_string("dev_file", None, "Development set if not dev.tsv in data_dir. (bert_tf)")
flags.DEFINE_string(
    "test_file",
    None,
    "Test set if not test.tsv in data_dir; the only file that --do_predict needs. (bert_tf)",
)
flags.DEFINE_enum(
    "task_type",
    None,
    ["classification", "regression", "multi_label"],
    "What to learn from custom files: one of the labels, a score, or any number of the labels; "
    "classification if not given. (bert_tf)",
)
flags.DEFINE_list(
    "text_columns",
    None,
    "Column of the text, or of both texts, by name or by number from 0. (bert_tf)",
)
flags.DEFINE_list(
    "label_column",
    None,
    "Column of the label, or with multi_label a column of 0 and 1 for each label. (bert_tf)",
)
flags.DEFINE_string("id_column", None, "Column that identifies predictions. (bert_tf)")
flags.DEFINE_list(
    "labels",
    None,
    "Labels in the order of their ids; those of the training set if not given. (bert_tf)",
)
flags.DEFINE_string("label_separator", ",", "Separator of the labels of one cell. (bert_tf)")
flags.DEFINE_enum(
    "header", "auto", ["auto", "yes", "no"], "Whether the first line names the columns. (bert_tf)"
)
flags.DEFINE_list(
    "numeric_columns",
    None,
    "Columns of numeric features, by name or by number from 0. (bert_tf)",
)
flags.DEFINE_enum(
    "numeric_as",
    None,
    ["vector", "text"],
    "vector concatenates numeric features with the pooled output, normalized by the training set; "
    "text writes them before the text as words. vector if not given. (bert_tf)",
)
flags.DEFINE_bool("skip_bad_rows", False, "Leave out rows that cannot be used. (bert_tf)")
fine_tuning.define_tfds_flags(
    "Splits of that data set for training, development and test, such as "
    "train[:90%],train[90%:],test; found by name if not given."
)
# How to learn, and what to write.
flags.DEFINE_list(
    "class_weights",
    None,
    "Loss weight of each label in training: balanced, or a number for each label in the order of "
    "their ids. (bert_tf)",
)
flags.DEFINE_bool(
    "report", False, "Write eval_report.txt with each label's scores and confusions. (bert_tf)"
)
flags.DEFINE_string(
    "glue_submission",
    None,
    "Folder for predictions in the form of GLUE's leaderboard, with a zip of them all. (bert_tf)",
)


def main():
    fine_tuning.fine_tune("classification")


if __name__ == "__main__":
    run(main)
