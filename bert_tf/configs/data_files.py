"""Sources of task data: files and TensorFlow Datasets (TFDS)."""

import dataclasses
from typing import ClassVar

from bert_tf.configs.base import Config, option
from bert_tf.errors import UserError

SPLITS = ("train", "dev", "test")


@dataclasses.dataclass(frozen=True)
class FileConfig(Config):
    """Data files of a task. Each task lists the file names that it expects in `data_dir`."""

    data_dir: str | None = None
    train_file: str | None = option(None, "Training set. Default: the file in data_dir.")
    dev_file: str | None = option(None, "Development set. Default: the file in data_dir.")
    test_file: str | None = option(None, "Test set. Default: the file in data_dir.")


@dataclasses.dataclass(frozen=True)
class TfdsConfig(Config):
    """A dataset of TensorFlow Datasets (TFDS)."""

    GROUPS: ClassVar[tuple] = (("TensorFlow Datasets", "tfds_name tfds_data_dir tfds_splits"),)

    tfds_name: str | None = option(
        None,
        "Name of a TensorFlow Datasets (TFDS) dataset, such as glue/mrpc or squad/v1.1. (bert_tf)",
    )
    tfds_data_dir: str | None = option(
        None,
        "TFDS data directory with prepared datasets. (bert_tf)",
        requires="tfds_name",
    )
    tfds_splits: tuple[str, ...] = option(
        (),
        "TFDS splits for training, development and test, such as "
        "train[:90%],train[90%:],test. Default: the splits with the usual names. (bert_tf)",
        requires="tfds_name",
    )

    def check_source(self, file_options):
        """Raise UserError if `tfds_name` is combined with any of the options `file_options`."""
        for name in file_options:
            if self.tfds_name and self.is_given(name):
                raise UserError(f"`{name}` cannot be combined with `tfds_name`")
        if len(self.tfds_splits) > len(SPLITS):
            raise UserError(
                f"`tfds_splits`: found {len(self.tfds_splits)} splits, expected at most "
                f"{len(SPLITS)}, for training, development and test"
            )

    def split_names(self):
        """Return `tfds_splits` by their purpose: "train", "dev" and "test"."""
        return dict(zip(SPLITS, self.tfds_splits, strict=False))
