"""Datasets by name: GLUE (Wang et al., arXiv:1804.07461), XNLI and custom files."""

import dataclasses
from typing import NamedTuple

from bert_tf.data.columns import Columns, Layout
from bert_tf.data.labels import Labels
from bert_tf.errors import UserError, counted


class File(NamedTuple):
    """A file with its possible `names`; without `columns`, `columns.find_columns` finds them."""

    names: tuple
    columns: Columns | None = None
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class DatasetSpec:
    """The files, labels and metrics of a dataset.

    Attributes:
      files: dict from split to `File`. Splits are "train", "dev" and "test"; a second development
        or test set has a suffix, as in "dev_mismatched", and so do its result files.
      labels: the labels in the order of their ids; None for the labels of the training set.
      features: names of the texts in tensorflow-datasets.
      label_aliases: dict from names in the files or in tensorflow-datasets to labels.
      layout: the `Layout` of custom files; None if `files` has the columns.
    """

    files: dict
    labels: tuple | None = None
    task_type: str = "classification"
    metrics: tuple = ()
    features: tuple = ()
    label_aliases: dict = dataclasses.field(default_factory=dict)
    layout: Layout | None = None

    def reader(self, class_names=()):
        """Return the `Labels` that read the label column; see `Labels` for `class_names`."""
        separator = (self.layout or Layout()).separator
        return Labels(self.labels or (), self.task_type, class_names, separator, self.label_aliases)


# Metrics of custom data, in addition to the metrics of every dataset of the task type.
CUSTOM_METRICS = {
    "classification": ("f1_macro", "f1_weighted", "precision_macro", "recall_macro"),
    "regression": (),
    "multi_label": (
        "f1_weighted",
        "precision_micro",
        "precision_macro",
        "recall_micro",
        "recall_macro",
    ),
}

# File name extensions of custom files, in the order in which a folder is searched.
_TEXTS = ("tsv", "csv", "jsonl", "json")
_EXTENSIONS = (*_TEXTS, "parquet", "xlsx", *(f"{extension}.gz" for extension in _TEXTS))

_BINARY = ("0", "1")
_NLI = ("contradiction", "entailment", "neutral")
_RTE = ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")

# The columns of most files with sentence pairs.
_PAIR = Columns((1, 2), labels=(3,), id=0, header=True)
# The gold label is the last column; development sets have five annotators' labels before it.
_MNLI = Columns((8, 9), labels=(-1,), id=0, header=True)


def _glue(labelled, features, test_texts=(1, 2), labels=_BINARY, names=(), **options):
    """Make a GLUE dataset from the columns of its files; TFDS has the `names` of its labels."""
    columns = {"train": labelled, "dev": labelled, "test": Columns(test_texts, id=0, header=True)}
    files = {split: File((f"{split}.tsv",), columns[split]) for split in columns}
    aliases = dict(zip(names, labels, strict=bool(names)))
    return DatasetSpec(files, labels, features=features, label_aliases=aliases, **options)


def _mnli(*suffixes):
    """Make MNLI with the "matched" or "mismatched" development and test sets, or both."""
    files = {"train": File(("train.tsv",), _MNLI)}
    for kind, labels in (("dev", _MNLI.labels), ("test", ())):
        for i, suffix in enumerate(suffixes):
            split = f"{kind}_{suffix}" if i else kind
            columns = dataclasses.replace(_MNLI, labels=labels)
            files[split] = File((f"{kind}_{suffix}.tsv",), columns, optional=i > 0)
    return DatasetSpec(files, _NLI, features=("premise", "hypothesis"))


def _xnli(language="zh"):
    """Make XNLI, whose development and test files have all languages."""
    columns = Columns((6, 7), labels=(1,), header=True, language=(0, language))
    train = f"multinli/multinli.train.{language}.tsv"
    files = {
        "train": File((train,), Columns((0, 1), (2,), header=True)),
        "dev": File(("xnli.dev.tsv",), columns),
        "test": File(("xnli.test.tsv",), columns),
    }
    return DatasetSpec(files, _NLI, label_aliases={"contradictory": "contradiction"})


# Add new datasets here. Examples and the order of labels are as in the release.
DATASETS = {
    "CoLA": _glue(
        Columns((3,), (1,)),
        ("sentence",),
        (1,),
        names=("unacceptable", "acceptable"),
        metrics=("matthews",),
    ),
    "SST-2": _glue(
        Columns((0,), (1,), header=True), ("sentence",), (1,), names=("negative", "positive")
    ),
    "MRPC": _glue(
        Columns((3, 4), (0,), header=True),
        _SENTENCES,
        (3, 4),
        names=("not_equivalent", "equivalent"),
        metrics=("f1",),
    ),
    "STS-B": _glue(
        Columns((7, 8), (9,), id=0, header=True), _SENTENCES, (7, 8), (), task_type="regression"
    ),
    "QQP": _glue(
        Columns((3, 4), (5,), id=0, header=True),
        ("question1", "question2"),
        names=("not_duplicate", "duplicate"),
        metrics=("f1",),
    ),
    "MNLI": _mnli("matched", "mismatched"),
    "MNLI-matched": _mnli("matched"),
    "MNLI-mismatched": _mnli("mismatched"),
    "QNLI": _glue(_PAIR, ("question", "sentence"), labels=_RTE),
    "RTE": _glue(_PAIR, _SENTENCES, labels=_RTE),
    "WNLI": _glue(_PAIR, _SENTENCES, names=("not_entailment", "entailment")),
    # The diagnostic set, for a model of MNLI.
    "AX": DatasetSpec(
        {"test_ax": File(("diagnostic.tsv", "AX.tsv"), dataclasses.replace(_PAIR, labels=()))},
        _NLI,
        features=("premise", "hypothesis"),
    ),
    "XNLI": _xnli(),
    "tsv": DatasetSpec(
        {
            split: File(tuple(f"{split}.{extension}" for extension in _EXTENSIONS))
            for split in ("train", "dev", "test")
        },
        layout=Layout(),
    ),
}

_PLAIN = {name.lower().replace("-", ""): name for name in DATASETS}
_PLAIN |= {"sst": "SST-2", "sts": "STS-B", "diagnostic": "AX", "csv": "tsv"}
_PLAIN |= {"mnlim": "MNLI-matched", "mnlimm": "MNLI-mismatched"}


def find_dataset(name, language="zh"):
    """Return the `DatasetSpec` of a name such as "SST-2" or "sst2"; `language` is for XNLI."""
    found = _PLAIN.get(name.lower().replace("-", "").replace("_", ""))
    if found is None:
        names = ", ".join(DATASETS)
        raise UserError(f"`task_name={name}`: expected one of {names}; or use `processor`")
    return _xnli(language) if found == "XNLI" else DATASETS[found]


def custom_dataset(task_type=None, labels=None, layout=None):
    """Return the `DatasetSpec` of custom files; raise UserError if the arguments do not match."""
    layout = layout or Layout()
    task_type = task_type or "classification"
    if len(layout.text) > 2:
        raise UserError(f"`text_columns`: found {len(layout.text)} columns, expected one or two")
    if len(layout.label) > 1:
        if task_type == "regression":
            raise UserError("`label_column`: several columns cannot be used for regression")
        labels = labels or layout.label
        if len(labels) != len(layout.label):
            expected = f"expected one for each of the {len(layout.label)} columns of `label_column`"
            raise UserError(f"`labels`: found {counted(len(labels), 'name')}, {expected}")
        if set(labels) == set(layout.label):  # else the labels rename the columns, in their order
            layout = dataclasses.replace(layout, label=tuple(labels))
    if task_type == "regression":
        if labels:
            raise UserError("`labels` cannot be combined with `task_type=regression`")
        labels = ()
    values = {"labels": labels, "task_type": task_type, "metrics": CUSTOM_METRICS[task_type]}
    return dataclasses.replace(DATASETS["tsv"], layout=layout, **values)
