#!/usr/bin/env python3
"""Fine-tunes BERT to choose between endings of a text, evaluates it and predicts."""

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run

fine_tuning.define_fine_tuning_flags(
    128, "Longest sequence of context and ending in tokens; longer ones are truncated."
)
flags.DEFINE_string("data_dir", None, "Folder with train.csv, dev.csv (or val.csv), test.csv.")
flags.DEFINE_string("train_file", None, "Training set if not train.csv in data_dir.")
flags.DEFINE_string("dev_file", None, "Development set if not dev.csv in data_dir.")
flags.DEFINE_string("test_file", None, "Test set if not test.csv in data_dir.")
flags.DEFINE_list(
    "context_columns",
    None,
    "Columns that form the context, joined by a space; startphrase or context if not given.",
)
flags.DEFINE_list(
    "ending_columns",
    None,
    "Columns of the endings, two or more; ending0, ending1, ... if not given.",
)
flags.DEFINE_string(
    "label_column", None, "Column with the number of the right ending from 0; label if not given."
)
flags.DEFINE_string("id_column", None, "Column that identifies predictions.")
flags.DEFINE_bool("skip_bad_rows", False, "Leave out rows that cannot be used.")


def main():
    fine_tuning.fine_tune("multiple_choice")


if __name__ == "__main__":
    run(main)
