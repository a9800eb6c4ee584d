"""The options of the data of a task: files, and data sets of tensorflow-datasets."""

import dataclasses
from typing import ClassVar

from bert_tf.configs.options import Config, option
from bert_tf.errors import UserError

PARTS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class FileOptions(Config):
    """Options of the files of a task; the help of `data_dir` names those in the folder."""

    data_dir: str | None = None
    train_file: str | None = option(None, "Training set if not that in data_dir.")
    dev_file: str | None = option(None, "Development set if not that in data_dir.")
    test_file: str | None = option(None, "Test set if not that in data_dir.")


@dataclasses.dataclass(frozen=True)
class TfdsOptions(Config):
    """Options of a data set of tensorflow-datasets."""

    GROUPS: ClassVar[tuple] = (("TensorFlow Datasets", "tfds_name tfds_data_dir tfds_splits"),)

    tfds_name: str | None = option(None, "Data set of tensorflow-datasets. (bert_tf)")
    tfds_data_dir: str | None = option(
        None,
        "Folder of prepared data sets of tensorflow-datasets. (bert_tf)",
        requires="tfds_name",
    )
    tfds_splits: tuple[str, ...] = option(
        (),
        "Splits of that data set for training, development and test, such as "
        "train[:90%],train[90%:],test; found by name if not given. (bert_tf)",
        requires="tfds_name",
    )

    def check_source(self, file_options):
        """Raise UserError if `file_options` are mixed with those of tensorflow-datasets."""
        for name in file_options:
            if self.tfds_name and self.is_given(name):
                raise UserError(f"`{name}` cannot be combined with `tfds_name`")
        if len(self.tfds_splits) > len(PARTS):
            raise UserError(
                f"`tfds_splits`: at most {len(PARTS)} splits were expected, for training, "
                "development and test"
            )

    def split_names(self):
        """Return a dict from "train", "dev" and "test" to `tfds_splits`."""
        return dict(zip(PARTS, self.tfds_splits, strict=False))
