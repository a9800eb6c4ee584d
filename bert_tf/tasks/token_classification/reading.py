"""Read tagged sentences from column files and tensorflow-datasets."""

import dataclasses
import re

import tensorflow as tf

from bert_tf.data.rows import BadRows, TfdsRows, find_file
from bert_tf.errors import UserError, counted
from bert_tf.io import files

DOCUMENT_START = "-DOCSTART-"

_FILES = {
    "train": ("train.txt", "train.conll", "eng.train"),
    "dev": ("dev.txt", "valid.txt", "dev.conll", "valid.conll", "eng.testa"),
    "test": ("test.txt", "test.conll", "eng.testb"),
}

# Usual names of splits and tags in tensorflow-datasets.
_TFDS_SPLITS = {"train": ("train",), "dev": ("dev", "validation", "valid"), "test": ("test",)}
_TFDS_TAGS = ("ner", "tags")


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence in a file or dataset.

    Attributes:
      where: the file or the example, for error messages.
      tags: the tags of the words; None if they were not read.
      columns: all columns of each word, to copy to the predictions.
      leading_lines: the -DOCSTART- lines before the sentence.
      trailing_lines: the -DOCSTART- lines after the last sentence of a file.
    """

    where: str
    words: tuple
    tags: tuple | None = None
    columns: tuple = ()
    lines: tuple = ()
    leading_lines: tuple = ()
    trailing_lines: tuple = ()

    def location(self, i):
        return f"{self.where}, line {self.lines[i]}" if self.lines else self.where


class ColumnFiles:
    """Column files: one word per line, columns separated by spaces, sentences by empty lines.

    A line that begins with -DOCSTART- starts a document.
    """

    def __init__(self, data_dir=None, paths=None, word_column=0, tag_column=-1):
        """Set the files and the column indices; `paths` takes precedence over `data_dir`."""
        self._data_dir, self._paths = data_dir, paths or {}
        self._word, self._tag = word_column, tag_column
        self.files = []  # read so far

    def read(self, split, bad=None):
        """Return the list of `Sentence` of a split; `bad`, a `BadRows`, collects invalid ones."""
        path = find_file(split, _FILES[split], self._data_dir, self._paths.get(split))
        self.files.append(path)
        bad = bad or BadRows()
        sentences = self._sentences(path, split != "test", bad)
        if not sentences:
            raise UserError(bad.first or f"{path}: the file contains no sentences")
        return sentences

    def _sentences(self, path, with_tags, bad):
        sentences, rows, width, leading_lines, problem = [], [], None, [], None
        for number, line in enumerate((*files.read_lines(path, strict=True), "\n"), 1):
            # Not `split()`: words may contain other whitespace.
            columns = re.split("[ \t]+", line.strip(" \t\r\n"))
            if columns == [""] or columns[0] == DOCUMENT_START:
                if problem:
                    bad(problem)
                elif rows:
                    sentences.append(self._sentence(path, rows, with_tags, tuple(leading_lines)))
                    leading_lines = []
                rows, problem = [], None
                if columns[0] == DOCUMENT_START:
                    leading_lines.append(" ".join(columns))
            else:
                width = width or len(columns)
                rows.append((number, columns))
                problem = problem or self._problem(path, number, columns, width, with_tags)
        if sentences:
            sentences[-1] = dataclasses.replace(sentences[-1], trailing_lines=tuple(leading_lines))
        return sentences

    def _problem(self, path, number, columns, width, with_tags):
        where = f"{path}, line {number}"
        if len(columns) != width:
            found = counted(len(columns), "column")
            return f"{where}: found {found}, expected {width} as in the first line"
        if "\0" in "".join(columns):
            return f"{where}: found a NUL character"
        used = {"word_column": self._word, **({"tag_column": self._tag} if with_tags else {})}
        for argument, column in used.items():
            if not -width <= column < width:
                return f"{where}: found {width} columns, expected one for `{argument}={column}`"
        if with_tags and self._word % width == self._tag % width:
            return f"{where}: found only {' '.join(columns)!r}, expected a word and a tag"
        return None

    def _sentence(self, path, rows, with_tags, leading_lines):
        return Sentence(
            path,
            tuple(columns[self._word] for _, columns in rows),
            tuple(columns[self._tag] for _, columns in rows) if with_tags else None,
            tuple(tuple(columns) for _, columns in rows),
            tuple(number for number, _ in rows),
            leading_lines,
        )


class TfdsSentences:
    """The sentences of a dataset in tensorflow-datasets, without document boundaries."""

    def __init__(self, name, data_dir=None, splits=None, words="tokens", tags=None):
        """Find the dataset, such as "conll2003", and its features; prepare it if necessary."""
        self._rows, self._splits = TfdsRows(name, data_dir), splits or {}
        self._words = self._find_feature("word_column", [words], "word")
        self._tags = self._find_feature("tag_column", [tags] if tags else _TFDS_TAGS, "tag")
        feature = self._rows.features[self._tags]
        self._names = getattr(getattr(feature, "feature", None), "names", None)

    def _find_feature(self, argument, names, item):
        name = self._rows.find_feature(names, argument)
        feature = self._rows.features[name]
        # The shape of a nested feature is a dict.
        is_sequence = isinstance(feature.shape, tuple) and len(feature.shape) == 1
        if not is_sequence or (item == "word" and feature.tf_dtype != tf.string):
            raise UserError(
                f"`{argument}`: the feature {name} of {self._rows.name} is {feature!r}, expected a "
                f"sequence with one {item} per word"
            )
        return name

    def read(self, split, bad=None):
        bad = bad or BadRows()
        name = self._splits.get(split) or self._rows.find_split(_TFDS_SPLITS[split])
        if name is None:
            raise self._rows.missing_split(split)

        def make(where, index, row):
            words = tuple(word.decode() for word in row[self._words])
            tags = tuple(map(self._tag_name, row[self._tags])) if split != "test" else None
            if problem := self._problem(words, tags):
                raise ValueError(problem)
            return Sentence(where, words, tags, tuple((word,) for word in words))

        sentences = bad.collect(self._rows.read(name), make)
        if not sentences:
            raise UserError(bad.first or f"{self._rows.name}, {name}: the split has no sentences")
        return sentences

    def _problem(self, words, tags):
        if not words:
            return "the sentence has no words"
        # Predictions are written to a column file.
        odd = next((word for word in words if not word or re.search("[ \t\r\n\0]", word)), None)
        if odd is not None:
            return f"the word {odd!r} is empty or contains whitespace or NUL"
        if tags is not None and len(tags) != len(words):
            return f"found {counted(len(tags), 'tag')}, expected one for each of {len(words)} words"
        return "a word has no tag" if tags and None in tags else None

    def _tag_name(self, value):
        """Return a tag as text, or None if it is missing (a negative id)."""
        if isinstance(value, bytes):
            return value.decode() or None
        if self._names:
            return self._names[value] if 0 <= value < len(self._names) else None
        return str(value)
