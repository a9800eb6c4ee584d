"""Text from tensorflow-datasets, which is imported on first use."""

from bert_tf import console
from bert_tf.data.pretraining.sources import Document
from bert_tf.errors import UserError, reason


class TfdsTextSource:
    """A source of documents like `FileSource`, one for each example of a tfds split."""

    unit, num_files = "examples", 1

    def __init__(self, name, split="train", text_field="text", data_dir=None):
        self._builder = load_builder(name, data_dir)
        self._split, self._field, self.name = split, text_field, f"{name}, {split}"
        self.done = 0
        info = self._builder.info
        try:
            self.total = info.splits[split].num_examples
        except (KeyError, ValueError, AssertionError):
            splits = ", ".join(info.splits)
            raise UserError(f"`tfds_split={split}`: expected a split of {name}, {splits}") from None
        if text_field not in info.features or str(info.features[text_field].np_dtype) != "object":
            raise UserError(
                f"`text_field={text_field}`: expected a text feature of {name}, which has "
                f"{', '.join(info.features)}"
            )

    def fingerprint(self):
        """Return a JSON object that identifies the text."""
        return {"input": [[self._builder.info.full_name, self._split, self._field]]}

    def documents(self):
        return self.read_documents(0)

    def read_documents(self, file):
        import tensorflow_datasets as tfds

        rows = self._builder.as_dataset(split=self._split, shuffle_files=False)
        number = 0
        for index, row in enumerate(tfds.as_numpy(rows)):
            try:
                text = row[self._field].decode("utf-8")
            except UnicodeDecodeError as error:
                where = f"{self.name}, example {index}"
                raise UserError(f"{where}: not UTF-8 text (byte {error.start + 1})") from None
            self.done = index + 1
            if text.strip():
                yield Document(file, number, [text], True)
                number += 1
        if number < self.done:
            console.info("%s: skipped %d documents without text", self.name, self.done - number)


def load_builder(name, data_dir):
    """Return the builder of a dataset, prepared if necessary."""
    try:
        # `import tensorflow_datasets` hides some of its import errors.
        import tensorflow_datasets.public_api as tfds
    except Exception as error:  # such as the VersionError of protobuf
        raise UserError(
            f"`tfds_name`: tensorflow-datasets cannot be imported ({reason(error)})"
        ) from None
    try:
        builder = tfds.builder(name, data_dir=data_dir)
    except (tfds.core.DatasetNotFoundError, ValueError, AssertionError) as error:
        raise UserError(f"`tfds_name`: found no dataset {name} ({reason(error)})") from None
    if not builder.is_prepared():
        console.info("downloading and preparing %s in %s", name, builder.data_path)
        try:
            builder.download_and_prepare()
        except Exception as error:  # network errors, and any error of the dataset's own code
            raise UserError(
                f"`tfds_name`: {name} cannot be prepared ({reason(error)}); prepare it on another "
                "machine and copy it, see `tfds_data_dir`"
            ) from None
    return builder
