"""Data sets of tensorflow-datasets, and texts from them."""

from bert_tf import console
from bert_tf.data.pretraining.sources import Document
from bert_tf.errors import UserError, reason


class TextSource:
    """Documents for pre-training, one of each example of a split.

    Attributes:
      name: what to call it in a message.
      total, unit: how much there is to read, and in what.
      done: how much of it was read.
      num_files: how many files there seem to be, one.
    """

    unit, num_files = "examples", 1

    def __init__(self, name, split="train", text_field="text", data_dir=None):
        """Takes what to read.

        Args:
          name: of the data set, as "wiki40b/en".
          split: as "train" or "train[:1%]".
          text_field: the feature with the text, in which sentences are found.
          data_dir: where data sets are kept, None for the library's own place.

        Raises:
          UserError: if there is no such data set, split or feature.
        """
        self._builder = prepared(name, data_dir)
        self._split, self._field, self.name = split, text_field, f"{name}, {split}"
        self.done = 0
        try:
            self.total = self._builder.info.splits[split].num_examples
        except (KeyError, ValueError, AssertionError):
            found = ", ".join(self._builder.info.splits)
            raise UserError(f"`tfds_split`: {name} has no split {split}, only {found}") from None
        features = self._builder.info.features
        if text_field not in features or str(features[text_field].np_dtype) != "object":
            found = ", ".join(features)
            raise UserError(f"`text_field`: {name} has no text {text_field!r} among {found}")

    def made_of(self):
        """What is read, as JSON has it."""
        return [[self._builder.info.full_name, self._split, self._field]]

    def settings(self):
        """How it is read; `made_of` says all of that."""
        return {}

    def documents(self):
        """Yields each `Document` with text, in the order of the data set."""
        return self.documents_of(0)

    def documents_of(self, file):
        """Yields those of the file of that number, which is 0."""
        import tensorflow_datasets as tfds

        rows = self._builder.as_dataset(split=self._split, shuffle_files=False)
        number = 0
        for index, row in enumerate(tfds.as_numpy(rows)):
            try:
                text = row[self._field].decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"{self.name}, example {index}"
                raise UserError(f"{where}: not UTF-8 (byte {error.start + 1})") from None
            self.done = index + 1
            if text.strip():
                yield Document(file, number, [text], True)
                number += 1
        if number < self.done:
            console.info(
                "%s: %d documents without text are left out", self.name, self.done - number
            )


def prepared(name, data_dir):
    """The builder of a data set, which is fetched if it is not there; UserError if it cannot be."""
    try:
        import tensorflow_datasets as tfds
    except ImportError:
        raise UserError("`tfds_name` wants tensorflow-datasets: pip install it") from None
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError, AssertionError) as error:
        raise UserError(f"`tfds_name`: there is no {name} ({reason(error)})") from None
    if not builder.is_prepared():
        console.info("%s is not in %s yet and is fetched", name, builder.data_path)
        try:
            builder.download_and_prepare()
        except Exception as error:  # of the network, of any data set's own code
            raise UserError(
                f"`tfds_name`: {name} cannot be prepared ({reason(error)}); it can be prepared on "
                "another machine and copied, see `tfds_data_dir`"
            ) from None
    return builder
