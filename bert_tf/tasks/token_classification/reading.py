"""Sentences with a tag for each word, from column files and from tensorflow-datasets."""

import dataclasses
import os
import re

import tensorflow as tf

from bert_tf import files
from bert_tf.data.tfds_builder import load_builder
from bert_tf.errors import UserError, reason
from bert_tf.tasks.tsv import BadRows

DOCUMENT = "-DOCSTART-"

# What the splits of a data set are called.
_SPLITS = {"train": ("train",), "dev": ("dev", "validation", "valid"), "test": ("test",)}
_FILES = {
    "train": ("train.txt", "train.conll", "eng.train"),
    "dev": ("dev.txt", "valid.txt", "dev.conll", "valid.conll", "eng.testa"),
    "test": ("test.txt", "test.conll", "eng.testb"),
}
_VERB = {"train": "train", "dev": "eval", "test": "predict"}


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Words of a sentence and, where they were asked for, their tags.

    `where` says the file, `lines` the number of each word's line in it. `columns` are the line's
    columns of each word, to write them again. `opening` are the lines in front of it that begin
    documents, `closing` those behind the last sentence of a set.
    """

    where: str
    words: tuple
    tags: tuple | None = None
    columns: tuple = ()
    lines: tuple = ()
    opening: tuple = ()
    closing: tuple = ()

    def place(self, i):
        """File and line of a word, for an error to name."""
        return f"{self.where}, line {self.lines[i]}" if self.lines else self.where


class ColumnFiles:
    """Files with a word a line, its columns between spaces, and an empty line between sentences.

    A line whose word is -DOCSTART- begins a document.
    """

    def __init__(self, data_dir=None, paths=None, word_column=0, tag_column=-1):
        """Takes where they are.

        Args:
          data_dir: a folder with train.txt, dev.txt and test.txt, or what else they are called.
          paths: dict from "train", "dev" and "test" to files that are elsewhere.
          word_column: number of the word's column, from 0, or from -1 counted from the last.
          tag_column: that of the tag.
        """
        self._data_dir, self._paths = data_dir, paths or {}
        self._word, self._tag = word_column, tag_column

    def read(self, part, bad=None):
        """Reads a set.

        Args:
          part: "train", "dev" or "test"; of "test" no tags are read, if it has any.
          bad: `BadRows` for sentences that cannot be used; None for an error at the first one.

        Returns:
          List of `Sentence`; UserError names file and line of what is wrong.
        """
        path, bad = self._find(part), bad or BadRows()
        found = self._sentences(path, part != "test", bad)
        if not found:
            raise UserError(bad.first or f"{path}: there is not a single sentence in it")
        return found

    def _find(self, part):
        if self._paths.get(part):
            return files.require(self._paths[part], f"{part}_file")
        if not self._data_dir:
            raise UserError(f"`data_dir`, `{part}_file` or `tfds_name` must say what to read")
        paths = [os.path.join(self._data_dir, name) for name in _FILES[part]]
        for path in paths:
            if tf.io.gfile.exists(path):
                return files.require(path, "data_dir")
        raise UserError(
            f"`do_`{_VERB[part]}: there is none of {', '.join(_FILES[part])} in {self._data_dir}"
        )

    def _sentences(self, path, with_tags, bad):
        found, rows, width, opening, problem = [], [], None, [], None
        for number, line in enumerate((*files.read_lines(path, strict=True), "\n"), 1):
            # Only these stand between columns: a word may hold other white space.
            columns = re.split("[ \t]+", line.strip(" \t\r\n"))
            if columns == [""] or columns[0] == DOCUMENT:
                if problem:
                    bad(problem)
                elif rows:
                    found.append(self._sentence(path, rows, with_tags, tuple(opening)))
                    opening = []
                rows, problem = [], None
                if columns[0] == DOCUMENT:
                    opening.append(" ".join(columns))
            else:
                width = width or len(columns)
                rows.append((number, columns))
                problem = problem or self._problem(path, number, columns, width, with_tags)
        if found:
            found[-1] = dataclasses.replace(found[-1], closing=tuple(opening))
        return found

    def _problem(self, path, number, columns, width, with_tags):
        where = f"{path}, line {number}"
        if len(columns) != width:
            return f"{where}: {len(columns)} columns, the first line has {width}"
        if "\0" in "".join(columns):
            return f"{where}: there is a NUL in it"
        wanted = {"word_column": self._word, **({"tag_column": self._tag} if with_tags else {})}
        for flag, column in wanted.items():
            if not -width <= column < width:
                return f"{where}: {width} columns, there is none for `{flag}={column}`"
        if with_tags and self._word % width == self._tag % width:
            return f"{where}: a word and a tag were expected, {' '.join(columns)!r} has {width}"
        return None

    def _sentence(self, path, rows, with_tags, opening):
        return Sentence(
            path,
            tuple(columns[self._word] for _, columns in rows),
            tuple(columns[self._tag] for _, columns in rows) if with_tags else None,
            tuple(tuple(columns) for _, columns in rows),
            tuple(number for number, _ in rows),
            opening,
        )


class TfdsSentences:
    """The sentences of a data set of tensorflow-datasets; it says nothing of documents."""

    def __init__(self, name, data_dir=None, splits=None, words="tokens", tags=None):
        """Finds the data set, and prepares it if that was not done before.

        Args:
          name: such as "conll2003".
          data_dir: where data sets are kept; None for tensorflow-datasets' own folder.
          splits: dict from "train", "dev" and "test" to its splits, as tensorflow-datasets writes
            them; others are found by their names.
          words: the feature of the words.
          tags: the feature of the tags; None for "ner", or "tags".

        Raises:
          UserError: if there is no such data set or feature.
        """
        self.name, self._splits = name, splits or {}
        self._builder = load_builder(name, data_dir)
        features = self._builder.info.features
        found = {}
        for flag, wanted in (("word_column", [words]), ("tag_column", [tags] if tags else _TAGS)):
            found[flag] = next((feature for feature in wanted if feature in features), None)
            if found[flag] is None:
                raise UserError(
                    f"`{flag}`: {name} has no feature {wanted[0]!r}; it has {', '.join(features)}"
                )
            feature = features[found[flag]]
            # That of a dict is a dict.
            is_row = isinstance(feature.shape, tuple) and len(feature.shape) == 1
            if not is_row or (flag == "word_column" and feature.tf_dtype != tf.string):
                raise UserError(
                    f"`{flag}`: {found[flag]} of {name} is {feature!r}; a sequence with a "
                    f"{flag.partition('_')[0]} for each word was expected"
                )
        self._words, self._tags = found.values()
        self._names = getattr(getattr(features[self._tags], "feature", None), "names", None)

    def read(self, part, bad=None):
        """As `ColumnFiles.read`."""
        import tensorflow_datasets as tfds

        there, bad = self._builder.info.splits, bad or BadRows()
        split = self._splits.get(part) or next((x for x in _SPLITS[part] if x in there), None)
        if split is None:
            raise UserError(
                f"`tfds_name`: {self.name} has no split for {part}, only {', '.join(there)}; "
                "`tfds_splits` names others"
            )
        try:
            rows = tfds.as_numpy(self._builder.as_dataset(split=split, shuffle_files=False))
        except (ValueError, AssertionError) as error:
            raise UserError(f"`tfds_splits`: {self.name}, {split}: {reason(error)}") from None
        found = []
        for number, row in enumerate(rows):
            where = f"{self.name}, {split}, example {number}"
            try:
                words = tuple(word.decode() for word in row[self._words])
                tags = tuple(map(self._tag, row[self._tags])) if part != "test" else None
            except UnicodeDecodeError as error:
                bad(f"{where}: not UTF-8 ({reason(error)})")
                continue
            if problem := self._problem(words, tags):
                bad(f"{where}: {problem}")
            else:
                found.append(Sentence(where, words, tags, tuple((word,) for word in words)))
        if not found:
            raise UserError(bad.first or f"{self.name}, {split}: there is not a single sentence")
        return found

    def _problem(self, words, tags):
        if not words:
            return "there is no word in it"
        # Predictions are written a word a line, with spaces between its columns.
        for word in words:
            if not word or re.search("[ \t\r\n\0]", word):
                return f"{word!r} is no word of a column file"
        if tags is None:
            return None
        if len(tags) != len(words):
            return f"{len(words)} words and {len(tags)} tags"
        return "there is a word without a tag" if None in tags else None

    def _tag(self, value):
        """A tag as text; None if there is none, which a data set says by a number below 0."""
        if isinstance(value, bytes):
            return value.decode() or None
        if self._names:
            return self._names[value] if 0 <= value < len(self._names) else None
        return str(value)


_TAGS = ["ner", "tags"]
