"""Questions from tensorflow-datasets, as squad/v1.1 and squad/v2.0 have them."""

import itertools
import operator

from bert_tf.data.tfds_builder import load_builder
from bert_tf.errors import UserError, reason
from bert_tf.tasks.question_answering.reading import Answer, Paragraph, Question

# What our parts are called there, and what the features must be.
_SPLITS = {"train": "train", "predict": "validation"}
_FEATURES = ("id", "context", "question", "answers")


class SpanSource:
    """A split of a data set of tensorflow-datasets, as `reading.JsonSource` has a file.

    Questions come in the order of the data set, which is not that of articles; those that follow
    each other with the same context are one paragraph.
    """

    def __init__(self, name, part, data_dir=None, split=None):
        """Finds the data set, and prepares it if that was not done before.

        Args:
          name: "squad/v1.1", "squad/v2.0", or another with the same features.
          part: "train" or "predict".
          data_dir: where data sets are kept; None for tensorflow-datasets' own folder.
          split: as tensorflow-datasets writes it ("train[:90%]"); None for train or validation.

        Raises:
          UserError: if there is no such data set, or it has not the features of SQuAD.
        """
        self._builder = load_builder(name, data_dir)
        self._split = split or _SPLITS[part]
        self.name = f"{name}, {self._split}"
        there = self._builder.info.features
        missing = [feature for feature in _FEATURES if feature not in there]
        if missing:
            raise UserError(
                f"`tfds_name`: {name} has no feature {', '.join(missing)}; it has "
                f"{', '.join(there)}"
            )

    def paragraphs(self):
        """Yields each `Paragraph`; its place is that of its first question."""
        for context, pairs in itertools.groupby(self._pairs(), operator.itemgetter(0)):
            questions = tuple(question for _, question in pairs)
            yield Paragraph(questions[0].where, context, questions)

    def _pairs(self):
        """Yields the context and the `Question` of each example."""
        import tensorflow_datasets

        try:
            data = self._builder.as_dataset(split=self._split, shuffle_files=False)
            rows = tensorflow_datasets.as_numpy(data)
        except (ValueError, AssertionError) as error:
            raise UserError(f"`tfds_splits`: {self.name}: {reason(error)}") from None
        for index, row in enumerate(rows):
            where = f"{self.name}, example {index}"
            try:
                yield row["context"].decode("utf-8"), _question(row, where)
            except UnicodeDecodeError as error:
                raise UserError(f"{where}: {error}") from None

    def parts(self):
        """Yields (a part, its number of characters), as `reading.JsonSource`: it is a paragraph."""
        for paragraph in self.paragraphs():
            yield paragraph, len(paragraph.context)

    @staticmethod
    def opened(part):
        """Yields the `Paragraph` of a part."""
        yield part


def _question(row, where):
    name = row["id"].decode("utf-8")
    texts, starts = row["answers"]["text"], row["answers"]["answer_start"]
    answers = tuple(
        Answer(text.decode("utf-8"), int(start)) for text, start in zip(texts, starts, strict=True)
    )
    is_impossible = bool(row.get("is_impossible", not answers))
    text = row["question"].decode("utf-8")
    return Question(f"{where} (id {name})", name, text, answers, is_impossible)
