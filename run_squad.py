#!/usr/bin/env python3
"""Fine-tunes BERT to answer questions about a text, answers questions and scores the answers."""

from absl import flags

from bert_tf.cli import fine_tuning
from bert_tf.cli.flags import run

fine_tuning.define_fine_tuning_flags(
    384,
    "Longest sequence of question and context in tokens; longer contexts are split into "
    "overlapping windows.",
)
flags.DEFINE_string("train_file", None, "JSON file of SQuAD for training, train-v1.1.json.")
flags.DEFINE_string(
    "predict_file", None, "JSON file of SQuAD with the questions to answer, dev-v1.1.json."
)
flags.DEFINE_integer("doc_stride", 128, "Tokens between the starts of two windows.", lower_bound=1)
flags.DEFINE_integer(
    "max_query_length", 64, "Most tokens of a question; longer ones are truncated.", lower_bound=1
)
flags.DEFINE_integer(
    "n_best_size",
    20,
    "Number of answers in nbest_predictions.json, and of starts and ends that are considered in "
    "each window.",
    lower_bound=1,
)
flags.DEFINE_integer("max_answer_length", 30, "Most tokens of an answer.", lower_bound=1)
flags.DEFINE_bool(
    "verbose_logging",
    False,
    "Whether to log each candidate answer whose text is not found in its words.",
)
flags.DEFINE_bool(
    "version_2_with_negative", False, "Whether questions may have no answer, as in SQuAD 2.0."
)
flags.DEFINE_float(
    "null_score_diff_threshold",
    0.0,
    "The answer is empty where that scores more than this above the best answer.",
)
flags.DEFINE_bool(
    "find_null_score_diff_threshold",
    False,
    "Use the threshold with the best F1 on predict_file, which must have answers. (bert_tf)",
)
flags.DEFINE_enum(
    "answer_alignment",
    "release",
    ["release", "offsets"],
    "How answers and tokens are matched: by words as in the release, or exactly, by characters. "
    "(bert_tf)",
)
flags.DEFINE_integer(
    "num_processes",
    0,
    "Processes that make the features; 0 for one per core if there are many. (bert_tf)",
    lower_bound=0,
)
fine_tuning.define_tfds_flags(
    "Splits of that data set for training and prediction, such as train[:90%],train[90%:]; "
    "train,validation if not given."
)


def main():
    fine_tuning.fine_tune("question_answering")


if __name__ == "__main__":
    run(main)
