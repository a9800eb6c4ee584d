"""The options of question answering."""

import dataclasses
from typing import Annotated

from bert_tf.configs.base import option
from bert_tf.configs.task import TaskConfig, TfdsOptions
from bert_tf.configs.train import MAX_PROCESSES
from bert_tf.errors import UserError
from bert_tf.io.json_files import Limits, Positive

# [CLS] question [SEP] window [SEP]
NUM_SPECIAL_TOKENS = 3


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuestionAnsweringData(TfdsOptions):
    """Data of the task: question answering."""

    train_file: str | None = option(None, "SQuAD JSON file for training, such as train-v1.1.json.")
    predict_file: str | None = option(
        None, "SQuAD JSON file with the questions to answer, such as dev-v1.1.json."
    )
    tfds_splits: tuple[str, ...] = option(
        (),
        "TFDS splits for training and prediction, such as train[:90%],train[90%:]. Default: "
        "train,validation.",
        requires="tfds_name",
    )
    find_null_score_diff_threshold: bool = option(
        False,
        "Whether to use the threshold with the best F1 on predict_file, which must have answers.",
    )
    verbose_logging: bool = option(
        False, "Whether to log each candidate answer that could not be aligned with its words."
    )
    num_processes: Annotated[int, Limits(0, MAX_PROCESSES)] = option(
        0, "Number of processes that create features; 0 for one per core on large files."
    )

    def check_run(self, config):
        if self.find_null_score_diff_threshold and not (config.do_predict or config.do_eval):
            raise UserError("`find_null_score_diff_threshold` requires `do_predict` or `do_eval`")


@dataclasses.dataclass(frozen=True)
class QuestionAnsweringConfig(TaskConfig):
    """Options of the task: question answering, saved in `squad.json`."""

    FILE = "squad.json"
    num_texts = 2

    max_seq_length: Positive = option(
        384,
        "Maximum length of question and context, in tokens; longer contexts are split into "
        "overlapping windows.",
    )
    doc_stride: Positive = option(128, "Stride between windows, in tokens.")
    max_query_length: Positive = option(
        64, "Maximum length of a question, in tokens; longer ones are truncated."
    )
    answer_alignment: str = option(
        "release",
        "How to map answers to tokens: through words, as in the release, or by exact character "
        "offsets.",
        choices=("release", "offsets"),
    )
    n_best_size: Positive = option(
        20,
        "Number of answers per question in nbest_predictions.json, and number of start and end "
        "positions to combine in each window.",
    )
    max_answer_length: Positive = option(30, "Maximum length of an answer, in tokens.")
    version_2_with_negative: bool = option(
        False, "Whether questions may have no answer, as in SQuAD 2.0."
    )
    null_score_diff_threshold: float = option(
        0.0, "Predict no answer if its score exceeds the best answer's by more than this value."
    )

    @property
    def by_offsets(self):
        return self.answer_alignment == "offsets"

    def validate_model(self):
        super().validate_model()
        if self.max_seq_length <= self.max_query_length + NUM_SPECIAL_TOKENS:
            raise UserError(
                f"`max_seq_length={self.max_seq_length}`: expected more than "
                f"`max_query_length={self.max_query_length}` + {NUM_SPECIAL_TOKENS} special tokens"
            )
