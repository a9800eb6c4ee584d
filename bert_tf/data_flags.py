"""The flags that say what run_classifier.py learns from, and what they come to."""

from absl import flags

import bert_tf
from bert_tf.errors import UserError

FLAGS = flags.FLAGS

flags.disclaim_key_flags()

# The flags of the data that a task whose files are known has no use for.
_OWN = ("task_type", "text_columns", "label_column", "id_column", "labels", "header",
       "label_separator", "numeric_columns", "numeric_as")  # fmt: skip


def define_data_flags():
    """Where the texts and labels are, and which of them they are."""
    flags.DEFINE_string("data_dir", None, "Folder with the files of the task.")
    flags.DEFINE_string(
        "task_name",
        None,
        "Task: cola, sst-2, mrpc, sts-b, qqp, mnli, mnli-matched, mnli-mismatched, qnli, rte, "
        "wnli, ax, xnli, or tsv for files of your own.",
    )
    flags.DEFINE_string("xnli_language", "zh", "Ours: language of XNLI.")
    # A task of one's own.
    flags.DEFINE_string(
        "train_file", None, "Ours: training set if it is not train.tsv in data_dir."
    )
    flags.DEFINE_string("dev_file", None, "Ours: development set if it is not dev.tsv in data_dir.")
    flags.DEFINE_string("test_file", None, "Ours: test set if it is not test.tsv in data_dir.")
    flags.DEFINE_enum(
        "task_type",
        None,
        ["classification", "regression", "multi_label"],
        "Ours: what to learn of files of your own: one of the labels, a score, or any of the "
        "labels; classification if not given.",
    )
    flags.DEFINE_list(
        "text_columns",
        None,
        "Ours: column of the text, or of both texts, by name or by number from 0.",
    )
    flags.DEFINE_list(
        "label_column",
        None,
        "Ours: column of the label, or with multi_label a column of 0 and 1 for each label.",
    )
    flags.DEFINE_string("id_column", None, "Ours: column to know the predictions by.")
    flags.DEFINE_list(
        "labels",
        None,
        "Ours: the labels in the order of their ids, those of the training set if not.",
    )
    flags.DEFINE_string("label_separator", ",", "Ours: what stands between the labels of one cell.")
    flags.DEFINE_enum(
        "header", "auto", ["auto", "yes", "no"], "Ours: whether the first line names the columns."
    )
    flags.DEFINE_list(
        "numeric_columns",
        None,
        "Ours: columns of numbers beside the text, by name or by number from 0.",
    )
    flags.DEFINE_enum(
        "numeric_as",
        None,
        ["vector", "text"],
        "Ours: vector puts them beside the pooled output, normalised by the training set; text "
        "writes them before the text as words. vector if not given.",
    )
    flags.DEFINE_bool(
        "skip_bad_rows", False, "Ours: leave out rows that cannot be used, and say so."
    )
    flags.DEFINE_string("tfds_name", None, "Ours: data set of tensorflow-datasets, as glue/mrpc.")
    flags.DEFINE_string(
        "tfds_data_dir", None, "Ours: where tensorflow-datasets keeps its data sets."
    )
    flags.DEFINE_list(
        "tfds_splits",
        None,
        "Ours: splits of that data set to take for training, development and test, as "
        "train[:90%],train[90%:],test; found by their names if not given.",
    )


def make_source(trained):
    """What the data flags say: files of a task, files of one's own, or tensorflow-datasets.

    Args:
      trained: the `tasks.Settings` of a model that is trained, None if there is none: they stand
        for flags that are not given.

    Returns:
      A `tasks.FileSource` or a `tasks.TfdsSource`.

    Raises:
      UserError: if flags do not go together, or there is no such data.
    """
    known = trained.numbers if trained else ()
    layout = bert_tf.tasks.Layout(
        tuple(FLAGS.text_columns or ()),
        tuple(FLAGS.label_column or ()),
        FLAGS.id_column,
        FLAGS.header,
        FLAGS.label_separator,
        tuple(FLAGS.numeric_columns or (number.name for number in known)),
        FLAGS.numeric_as or (trained.numeric_as if trained else "vector"),
    )
    labels = tuple(FLAGS.labels) if FLAGS.labels else None
    task_type = FLAGS.task_type or (trained and trained.task_type)
    of_files = ("task_name", "data_dir", "train_file", "dev_file", "test_file", "header")
    useless = of_files if FLAGS.tfds_name else ("tfds_data_dir", "tfds_splits")
    if given := [name for name in useless if FLAGS[name].present]:
        goes = "does not go with" if FLAGS.tfds_name else "wants"
        raise UserError(f"--{given[0]} {goes} --tfds_name")
    if FLAGS.numeric_as and not layout.numbers:
        raise UserError("--numeric_as wants --numeric_columns")
    if len(FLAGS.tfds_splits or ()) > 3:
        raise UserError("--tfds_splits: those for training, development and test, no more")
    if FLAGS.tfds_name:
        splits = dict(zip(("train", "dev", "test"), FLAGS.tfds_splits or (), strict=False))
        return bert_tf.tasks.TfdsSource(
            FLAGS.tfds_name, FLAGS.tfds_data_dir, task_type, labels, layout, splits
        )
    paths = {"train": FLAGS.train_file, "dev": FLAGS.dev_file, "test": FLAGS.test_file}
    if not (FLAGS.task_name or any(paths.values())):
        raise UserError("--task_name, --train_file or --tfds_name must say what to read")
    task = bert_tf.tasks.find_task(FLAGS.task_name or "tsv", FLAGS.xnli_language)
    if task.layout is not None:
        task = bert_tf.tasks.own_task(task_type, labels, layout)
    elif given := [name for name in _OWN if FLAGS[name].present]:
        raise UserError(
            f"--{given[0]} is for files of your own; those of "
            f"--task_name={FLAGS.task_name} are known"
        )
    return bert_tf.tasks.FileSource(task, FLAGS.data_dir, paths)
