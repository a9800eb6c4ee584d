"""Data from tensorflow-datasets, which is imported on first use."""

from bert_tf import console
from bert_tf.data import tables
from bert_tf.data.columns import class_names, header_and_rows, plain_rows
from bert_tf.data.pretraining.corpus import Document
from bert_tf.errors import UserError, reason

# Usual names of the splits.
_SPLITS = {
    "train": ("train",),
    "dev": ("validation", "validation_matched", "dev", "valid"),
    "dev_mismatched": ("validation_mismatched",),
    "test": ("test", "test_matched"),
    "test_mismatched": ("test_mismatched",),
    "test_ax": ("test",),
}


class TfdsDataset:
    """A dataset of tensorflow-datasets, which is prepared if necessary; each split is a table.

    `splits` is a dict from "train", "dev" and "test" to splits in the notation of
    tensorflow-datasets, such as "train[:90%]". By default, they have their usual names.
    """

    def __init__(self, name, data_dir=None, splits=None):
        self.name, self._splits = name, splits or {}
        self._builder = _load_builder(name, data_dir)
        self.info = self._builder.info
        self.features = self.info.features
        self.supervised_keys = self.info.supervised_keys or (None, None)
        self.label_names = class_names(self.features)

    def find_split(self, split):
        """Return the name of a split in the dataset; None if there is none."""
        usual = (name for name in _SPLITS[split] if name in self.info.splits)
        return self._splits.get(split) or next(usual, None)

    def missing_split(self, split):
        return UserError(
            f"`tfds_name`: found no split for {split} in {self.name}, only "
            f"{', '.join(self.info.splits)}; select one with `tfds_splits`"
        )

    def table(self, split):
        """Return the `Table` of a split."""
        name = self.find_split(split)
        if name is None:
            raise self.missing_split(split)
        title = f"{self.name}, {name}"
        return tables.Table(title, tables.TableFormat("tfds"), self._rows(name), self.label_names)

    def _rows(self, name):
        import tensorflow_datasets as tfds

        try:
            rows = tfds.as_numpy(self._builder.as_dataset(split=name, shuffle_files=False))
        except (ValueError, AssertionError) as error:
            raise UserError(f"`tfds_splits`: {self.name}, {name}: {reason(error)}") from None
        names = list(self.features)
        yield 0, names, None
        yield from plain_rows([row.get(name) for name in names] for row in rows)


class TfdsTextSource:
    """A source of documents like `TextFileSource`, one for each example of a tfds split."""

    unit, num_files = "examples", 1

    def __init__(self, name, split="train", text_field="text", data_dir=None):
        self._data = TfdsDataset(name, data_dir, {"train": split})
        self.name = f"{name}, {split}"
        self._split, self._field = split, text_field
        self.done = 0
        info = self._data.info
        try:
            self.total = info.splits[split].num_examples
        except (KeyError, ValueError, AssertionError):
            splits = ", ".join(info.splits)
            raise UserError(f"`tfds_split={split}`: expected a split of {name}, {splits}") from None
        if text_field not in info.features or str(info.features[text_field].np_dtype) != "object":
            expected = f"a text feature of {name}, which has {', '.join(info.features)}"
            raise UserError(f"`text_field={text_field}`: expected {expected}")

    def fingerprint(self):
        """Return a JSON object that identifies the text."""
        return {"input": [[self._data.info.full_name, self._split, self._field]]}

    def documents(self, files=None):
        number = 0
        *_, rows = header_and_rows(self._data.table("train"))
        for self.done, (where, row) in enumerate(rows, 1):
            if isinstance(row, str):
                raise UserError(f"{where}: {row}")
            if row[self._field].strip():
                yield Document(0, number, [row[self._field]], True)
                number += 1
        if number < self.done:
            console.info("%s: skipped %d documents without text", self.name, self.done - number)


def _load_builder(name, data_dir):
    """Return the builder of a dataset, prepared if necessary."""
    try:
        # `import tensorflow_datasets` hides some of its import errors.
        import tensorflow_datasets.public_api as tfds
    except Exception as error:  # such as the VersionError of protobuf
        raise UserError(f"`tfds_name`: no tensorflow-datasets ({reason(error)})") from None
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError, AssertionError) as error:
        raise UserError(f"`tfds_name`: found no dataset {name} ({reason(error)})") from None
    if not builder.is_prepared():
        console.info("downloading and preparing %s in %s", name, builder.data_path)
        try:
            builder.download_and_prepare()
        except Exception as error:  # network errors, and any error of the dataset's own code
            advice = "prepare it on another machine and copy it, see `tfds_data_dir`"
            problem = f"{name} cannot be prepared ({reason(error)})"
            raise UserError(f"`tfds_name`: {problem}; {advice}") from None
    return builder
