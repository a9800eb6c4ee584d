"""The flags that say what run_classifier.py learns from and in which ways, and their checks."""

import os

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
    flags.DEFINE_string(
        "test_file",
        None,
        "Ours: test set if it is not test.tsv in data_dir; all that --do_predict wants to read.",
    )
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
    if len(set(layout.numbers)) < len(layout.numbers):
        raise UserError(f"--numeric_columns: one is there twice in {', '.join(layout.numbers)}")
    labels = tuple(FLAGS.labels) if FLAGS.labels else None
    task_type = FLAGS.task_type or (trained and trained.task_type)
    of_files = ("task_name", "data_dir", "train_file", "dev_file", "test_file", "header")
    bert_tf.cli.fine_tuning.check_input(of_files)
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
        raise UserError(
            "--task_name, --tfds_name or a file (--train_file, --dev_file, --test_file) must say "
            "what to read"
        )
    task = bert_tf.tasks.find_task(FLAGS.task_name or "tsv", FLAGS.xnli_language)
    if task.layout is not None:
        task = bert_tf.tasks.own_task(task_type, labels, layout)
    elif given := [name for name in _OWN if FLAGS[name].present]:
        raise UserError(
            f"--{given[0]} is for files of your own; those of "
            f"--task_name={FLAGS.task_name} are known"
        )
    return bert_tf.tasks.FileSource(task, FLAGS.data_dir, paths)


def define_ways():
    """How to learn from what there is."""
    flags.DEFINE_list(
        "class_weights",
        None,
        "Ours: what each label weighs in training: balanced, or a number for each in the order of "
        "their ids.",
    )
    flags.DEFINE_integer(
        "num_seeds",
        1,
        "Ours: how many times to run, with seed, seed + 1, ..., each in a folder seed_N of "
        "output_dir; mean and spread go to eval_seeds.tsv.",
        lower_bound=1,
    )
    flags.DEFINE_string(
        "teacher_dir",
        None,
        "Ours: output_dir of a fine-tuned model to learn from; its answers stand for the labels, "
        "which must be the same, as must the kind of task and numeric_columns.",
    )
    flags.DEFINE_float(
        "teacher_weight",
        1.0,
        "Ours: the teacher's share of the loss, the labels have the rest.",
        0.0,
        1.0,
    )
    flags.DEFINE_float(
        "teacher_temperature",
        1.0,
        "Ours: what to divide the logits of both by before they are compared.",
        lower_bound=0.01,
    )
    flags.DEFINE_bool(
        "pad_to_max_length",
        False,
        "Ours: pad every batch to max_seq_length, as on a TPU, and not just to its longest text.",
    )


def check_ways():
    """Checks that the flags of how to learn go together; UserError if they do not."""
    if FLAGS.glue_submission and FLAGS.num_seeds > 1:
        raise UserError("--glue_submission wants one run's answers, and --num_seeds=1")
    if FLAGS.teacher_dir and os.path.normpath(FLAGS.teacher_dir) in (
        os.path.normpath(FLAGS.output_dir),
        os.path.join(os.path.normpath(FLAGS.output_dir), "best"),
    ):
        raise UserError("--teacher_dir: a model cannot be its own teacher")
    if FLAGS.num_seeds > 1 and not FLAGS.do_eval:
        bert_tf.console.warning("--num_seeds without --do_eval: there will be no eval_seeds.tsv")
    if FLAGS.class_weights and FLAGS.teacher_dir and FLAGS.teacher_weight == 1:
        raise UserError(
            "--class_weights has no effect where the labels have no share of the loss: a "
            "--teacher_weight below 1 is needed"
        )
    if not FLAGS.do_train:
        for name in ("class_weights", "teacher_dir"):
            if FLAGS[name].value:
                bert_tf.console.warning("--%s has no effect without --do_train", name)
    if not FLAGS.teacher_dir:
        for name in ("teacher_weight", "teacher_temperature"):
            if FLAGS[name].present:
                raise UserError(f"--{name} wants --teacher_dir")
