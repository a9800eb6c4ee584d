"""The options of each task, in the form that `options` describes."""

import dataclasses

from bert_tf import console
from bert_tf.configs.train import MAX_PROCESSES, PARTS, TaskOptions, documented, option
from bert_tf.errors import UserError

# The keys of `modeling.LAYER_COMBINATIONS`, which needs TensorFlow.
LAYER_COMBINATIONS = (
    "embeddings", "second_to_last", "last", "weighted_sum_last_four", "concat_last_four",
    "weighted_sum_all",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class _FileOptions(TaskOptions):
    """Options of the files of a task; the help of `data_dir` names those in the folder."""

    data_dir: str | None = None
    train_file: str | None = option(None, "Training set if not that in data_dir.")
    dev_file: str | None = option(None, "Development set if not that in data_dir.")
    test_file: str | None = option(None, "Test set if not that in data_dir.")


@dataclasses.dataclass(frozen=True)
class _TfdsOptions(TaskOptions):
    """Options of a data set of tensorflow-datasets."""

    tfds_name: str | None = option(None, "Data set of tensorflow-datasets. (bert_tf)")
    tfds_data_dir: str | None = option(
        None, "Folder of prepared data sets of tensorflow-datasets. (bert_tf)"
    )
    tfds_splits: tuple = option(
        (),
        "Splits of that data set for training, development and test, such as "
        "train[:90%],train[90%:],test; found by name if not given. (bert_tf)",
    )

    def check_source(self, file_options):
        """Raise UserError if `file_options` are mixed with those of tensorflow-datasets."""
        unused = file_options if self.tfds_name else ("tfds_data_dir", "tfds_splits")
        for name in unused:
            if self.is_given(name):
                problem = "cannot be combined with" if self.tfds_name else "requires"
                raise UserError(f"`{name}` {problem} `tfds_name`")
        if len(self.tfds_splits) > len(PARTS):
            raise UserError(
                f"`tfds_splits`: at most {len(PARTS)} splits were expected, for training, "
                "development and test"
            )

    def split_names(self):
        """Return a dict from "train", "dev" and "test" to `tfds_splits`."""
        return dict(zip(PARTS, self.tfds_splits, strict=False))


@documented
@dataclasses.dataclass(frozen=True)
class ClassificationOptions(_FileOptions, _TfdsOptions):
    """Options of classification and regression."""

    data_dir: str | None = option(
        None, "Folder with the files of the task: train.tsv, dev.tsv and test.tsv."
    )
    task_name: str | None = option(
        None,
        "Task: cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-matched, mnli-mismatched, qnli, rte, "
        "wnli, ax, xnli, or tsv for other files.",
    )
    xnli_language: str = option("zh", "Language of XNLI. (bert_tf)")
    task_type: str | None = option(
        None,
        "What to learn from custom files: one of the labels, a score, or any number of the labels; "
        "classification if not given. (bert_tf)",
        choices=("classification", "regression", "multi_label"),
    )
    text_columns: tuple = option(
        (), "Column of the text, or of both texts, by name or by number from 0. (bert_tf)"
    )
    label_column: tuple = option(
        (), "Column of the label, or with multi_label a column of 0 and 1 for each label. (bert_tf)"
    )
    id_column: str | None = option(None, "Column that identifies predictions. (bert_tf)")
    labels: tuple = option(
        (), "Labels in the order of their ids; those of the training set if not given. (bert_tf)"
    )
    label_separator: str = option(",", "Separator of the labels of one cell. (bert_tf)")
    header: str = option(
        "auto", "Whether the first line names the columns. (bert_tf)", choices=("auto", "yes", "no")
    )
    delimiter: str | None = option(
        None,
        "Character between the columns of custom files: comma, semicolon, tab, pipe, or another "
        "character; found if not given. (bert_tf)",
    )
    numeric_columns: tuple = option(
        (), "Columns of numeric features, by name or by number from 0. (bert_tf)"
    )
    numeric_as: str | None = option(
        None,
        "vector concatenates numeric features with the pooled output, normalized by the training "
        "set; text writes them before the text as words. vector if not given. (bert_tf)",
        choices=("vector", "text"),
    )
    dev_fraction: float | None = option(
        None,
        "Share of the training rows to hold out of training and evaluate on, with their labels in "
        "proportion, instead of a development set. (bert_tf)",
        minimum=0.0,
        maximum=1.0,
    )
    dev_seed: int = option(
        0,
        "Seed of the choice of those rows, which is the same for every seed of training. (bert_tf)",
        minimum=0,
        maximum=2**32 - 1,
    )
    standardize_scores: bool = option(
        True,
        "Learn scores standardised by the mean and deviation of the training set; predictions and "
        "metrics have the units of the data. A resumed run keeps its choice. (bert_tf)",
    )
    long_documents: str | None = option(
        None,
        "What to do with texts of more than max_seq_length tokens: truncate them as in the "
        "release, or read overlapping windows and pool their logits. (bert_tf)",
        flag_default="truncate",
        choices=("truncate", "windows"),
    )
    doc_stride: int | None = option(
        None,
        "Tokens between the starts of two windows, half a window if not given. (bert_tf)",
        minimum=1,
    )
    window_pooling: str | None = option(
        None,
        "Whether the logits of a text are the mean or the maximum of those of its windows. "
        "(bert_tf)",
        flag_default="mean",
        choices=("mean", "max"),
    )
    max_windows: int | None = option(
        None,
        "Maximum number of windows of a text; the rest is left out. (bert_tf)",
        flag_default=16,
        minimum=1,
    )
    skip_bad_rows: bool = option(False, "Leave out rows that cannot be used. (bert_tf)")
    class_weights: tuple = option(
        (),
        "Loss weight of each label in training: balanced, or a number for each label in the order "
        "of their ids. (bert_tf)",
    )
    report: bool = option(
        False, "Write eval_report.txt with each label's scores and confusions. (bert_tf)"
    )
    glue_submission: str | None = option(
        None,
        "Folder for predictions in the form of GLUE's leaderboard, with a zip of them all. "
        "(bert_tf)",
    )

    def check(self, config, is_resumed):
        if self.dev_fraction is not None and self.dev_file:
            raise UserError("`dev_fraction` cannot be combined with `dev_file`")
        if self.dev_fraction is not None and not 0 < self.dev_fraction < 1:
            raise UserError(f"`dev_fraction={self.dev_fraction:g}`: expected more than 0, below 1")
        for name in ("doc_stride", "window_pooling", "max_windows"):
            if self.is_given(name) and self.long_documents != "windows":
                raise UserError(f"`{name}` requires `long_documents=windows`")
        if self.glue_submission and config.num_seeds > 1:
            raise UserError("`glue_submission` requires the predictions of one run, `num_seeds=1`")
        if self.class_weights and config.teacher_dir and config.teacher_weight == 1:
            raise UserError(
                "`class_weights` has no effect where the labels have no share of the loss: use a "
                "`teacher_weight` below 1"
            )
        if self.class_weights and not config.do_train:
            console.warning("`class_weights` has no effect without `do_train`")


@documented
@dataclasses.dataclass(frozen=True)
class QuestionAnsweringOptions(_TfdsOptions):
    """Options of question answering: data, windows and decoding."""

    max_seq_length: int | None = option(
        None,
        "Longest sequence of question and context in tokens; longer contexts are split into "
        "overlapping windows.",
        flag_default=384,
    )
    train_file: str | None = option(None, "JSON file of SQuAD for training, train-v1.1.json.")
    predict_file: str | None = option(
        None, "JSON file of SQuAD with the questions to answer, dev-v1.1.json."
    )
    tfds_splits: tuple = option(
        (),
        "Splits of that data set for training and prediction, such as train[:90%],train[90%:]; "
        "train,validation if not given. (bert_tf)",
    )
    doc_stride: int | None = option(
        None, "Tokens between the starts of two windows.", flag_default=128, minimum=1
    )
    max_query_length: int | None = option(
        None, "Maximum tokens of a question; longer ones are truncated.", flag_default=64, minimum=1
    )
    answer_alignment: str | None = option(
        None,
        "How answers and tokens are matched: by words as in the release, or exactly, by "
        "characters. (bert_tf)",
        flag_default="release",
        choices=("release", "offsets"),
    )
    n_best_size: int | None = option(
        None,
        "Number of answers in nbest_predictions.json, and of starts and ends that are considered "
        "in each window.",
        flag_default=20,
        minimum=1,
    )
    max_answer_length: int | None = option(
        None, "Maximum number of tokens of an answer.", flag_default=30, minimum=1
    )
    version_2_with_negative: bool | None = option(
        None, "Whether questions may have no answer, as in SQuAD 2.0.", flag_default=False
    )
    null_score_diff_threshold: float | None = option(
        None,
        "The answer is empty where that scores more than this above the best answer.",
        flag_default=0.0,
    )
    find_null_score_diff_threshold: bool = option(
        False,
        "Use the threshold with the best F1 on predict_file, which must have answers. (bert_tf)",
    )
    verbose_logging: bool = option(
        False, "Whether to log each candidate answer whose text is not found in its words."
    )
    num_processes: int = option(
        0,
        "Processes that make the features; 0 for one per core if there are many. (bert_tf)",
        minimum=0,
        maximum=MAX_PROCESSES,
    )

    def check(self, config, is_resumed):
        if not self.find_null_score_diff_threshold:
            return
        if not self.version_2_with_negative:
            raise UserError(
                "`find_null_score_diff_threshold` requires `version_2_with_negative`: without it "
                "there is always an answer"
            )
        if not (config.do_predict or config.do_eval):
            raise UserError("`find_null_score_diff_threshold` requires `do_predict` or `do_eval`")


@documented
@dataclasses.dataclass(frozen=True)
class TokenClassificationOptions(_FileOptions, _TfdsOptions):
    """Options of token classification."""

    max_seq_length: int | None = option(
        None,
        "Longest sequence in tokens; longer sentences are split into overlapping windows.",
        flag_default=128,
    )
    data_dir: str | None = option(None, "Folder with train.txt, dev.txt and test.txt.")
    word_column: str | None = option(
        None,
        "Column of the words, a number from 0, or -1 for the last; the first if not given. With "
        "tfds_name, the feature: tokens if not given.",
    )
    tag_column: str | None = option(
        None,
        "Column of the tags, the last if not given. With tfds_name, the feature: ner or tags if "
        "not given.",
    )
    tag_scheme: str | None = option(
        None,
        "How the data mark the beginning of spans; none for tags without spans, such as parts of "
        "speech. Inferred from the training set if not given.",
        choices=("iob1", "iob2", "iobes", "none"),
    )
    learn_scheme: str | None = option(
        None, "Scheme that the model learns, iob2 if not given.", choices=("iob1", "iob2", "iobes")
    )
    output_scheme: str | None = option(
        None,
        "Scheme of the predictions, that of the data if not given.",
        choices=("iob1", "iob2", "iobes"),
    )
    skip_bad_rows: bool = option(False, "Leave out sentences that cannot be used.")
    doc_stride: int | None = option(
        None, "Tokens between the starts of two windows, half a window if not given.", minimum=1
    )
    document_context: bool | None = option(
        None,
        "Read whole documents instead of single sentences; the data mark them by -DOCSTART-.",
        flag_default=False,
    )
    features_only: bool | None = option(
        None, "Freeze BERT and train a two-layer BiLSTM on its features.", flag_default=False
    )
    layer_combination: str | None = option(
        None,
        "The layers that features_only uses.",
        flag_default="concat_last_four",
        choices=LAYER_COMBINATIONS,
    )
    feature_lstm_size: int | None = option(
        None, "Units of each direction of the BiLSTM, hidden_size if not given.", minimum=1
    )
    report: bool = option(False, "Write eval_report.txt with each label's scores.")

    def check(self, config, is_resumed):
        if not self.features_only:
            for name in ("layer_combination", "feature_lstm_size"):
                if self.is_given(name):
                    raise UserError(f"`{name}` requires `features_only`")
            return
        model = config.model
        if config.do_train and not (model.model or model.init_checkpoint or is_resumed):
            raise UserError(
                "`features_only` requires `model` or `init_checkpoint`: the features of random "
                "weights are meaningless"
            )
        given = {"num_frozen_layers": config.train, "layer_decay": config.optimizer}
        for name, options in given.items():
            if getattr(options, name) != getattr(type(options), name):
                raise UserError(f"`{name}`: with `features_only` all layers are frozen")


@documented
@dataclasses.dataclass(frozen=True)
class MultipleChoiceOptions(_FileOptions):
    """Options of multiple choice."""

    data_dir: str | None = option(None, "Folder with train.csv, dev.csv (or val.csv), test.csv.")
    context_columns: tuple = option(
        (), "Columns that form the context, joined by a space; startphrase or context if not given."
    )
    ending_columns: tuple = option(
        (), "Columns of the endings, two or more; ending0, ending1, ... if not given."
    )
    label_column: str | None = option(
        None, "Column with the number of the right ending from 0; label if not given."
    )
    id_column: str | None = option(None, "Column that identifies predictions.")
    skip_bad_rows: bool = option(False, "Leave out rows that cannot be used.")
