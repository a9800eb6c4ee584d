"""Tagged sentences from column files, tables and tensorflow-datasets, and the words of texts."""

import itertools
import operator
import re
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.configs.task import SPLITS
from bert_tf.data import tables
from bert_tf.data.columns import RowErrors, find_file, header_and_rows
from bert_tf.data.labels import Labels
from bert_tf.data.tfds import TfdsDataset
from bert_tf.errors import UserError, counted, shown
from bert_tf.io import files
from bert_tf.tasks.token_classification import schemes
from bert_tf.tasks.token_classification.options import Tags
from bert_tf.tasks.token_classification.served import find_word_starts
from bert_tf.tokenization.graph import HostTokenizer

DOCUMENT_START = "-DOCSTART-"

_FILES = {
    "train": ("train.txt", "train.conll", "eng.train"),
    "dev": ("dev.txt", "valid.txt", "dev.conll", "valid.conll", "eng.testa"),
    "test": ("test.txt", "test.conll", "eng.testb"),
}


class Sentence(NamedTuple):
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

    A line that begins with -DOCSTART- starts a document. A line that begins with "# " before a
    sentence is a comment if it has "=" or a different number of columns.
    """

    def __init__(self, data_dir=None, paths=None, word_column=0, tag_column=-1):
        """Set the files and the column indices; `paths` takes precedence over `data_dir`."""
        self._data_dir, self._paths = data_dir, paths or {}
        self._word, self._tag = word_column, tag_column
        self.files = []  # read so far

    def read(self, split, bad=None):
        """Return the list of `Sentence` of a split; `bad`, a `RowErrors`, collects invalid ones."""
        path = find_file(split, _FILES[split], self._data_dir, self._paths.get(split))
        self.files.append(path)
        table_format = tables.find_format(path, "tab")
        if next(files.read_lines(path), "").startswith('{"'):
            table_format = tables.TableFormat("json_lines")
        if table_format.kind != "delimited":
            raise UserError(f"{path}: found {table_format}, expected a word and its tag per line")
        bad = bad or RowErrors()
        sentences = self._sentences(path, split != "test", bad)
        if not sentences:
            raise UserError(bad.first or f"{path}: the file contains no sentences")
        return sentences

    def _sentences(self, path, with_tags, bad):
        def read_columns():
            # Not `split()`: words may contain other whitespace.
            lines = itertools.chain(files.read_lines(path, strict=True), "\n")
            return (re.split("[ \t]+", line.strip(" \t\r\n")) for line in lines)

        width = next((len(x) for x in read_columns() if x[0] not in ("", "#", DOCUMENT_START)), 0)
        sentences, rows, leading_lines = [], [], []
        problem = None
        num_comments = 0
        for number, columns in enumerate(read_columns(), 1):
            is_comment = columns[0] == "#" and not rows and width > 0
            if is_comment and (len(columns) != width or "=" in "".join(columns)):
                num_comments += 1
                continue
            if columns == [""] or columns[0] == DOCUMENT_START:
                if problem:
                    bad.add(problem)
                elif rows:
                    numbers, lines_of_words = zip(*rows, strict=True)
                    words = tuple(x[self._word] for x in lines_of_words)
                    tags = tuple(x[self._tag] for x in lines_of_words) if with_tags else None
                    leading = tuple(leading_lines)
                    leading_lines = []
                    sentences.append(Sentence(path, words, tags, lines_of_words, numbers, leading))
                rows, problem = [], None
                if columns[0] == DOCUMENT_START:
                    leading_lines.append(" ".join(columns))
            else:
                width = width or len(columns)
                rows.append((number, tuple(columns)))
                problem = problem or self._problem(path, number, columns, width, with_tags)
        if num_comments:
            console.info("%s: %d comments before sentences", path, num_comments)
        if sentences:
            sentences[-1] = sentences[-1]._replace(trailing_lines=tuple(leading_lines))
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


class TfdsSentences:
    """The sentences of a dataset in tensorflow-datasets, without document boundaries."""

    files = ()

    def __init__(self, name, data_dir=None, splits=None, words="tokens", tags=None):
        """Find the dataset, such as "conll2003", and its features; prepare it if necessary."""
        self._data = TfdsDataset(name, data_dir, splits)
        self._columns = [words], [tags] if tags else ["ner", "tags"]  # their usual names

    def read(self, split, bad=None):
        bad = bad or RowErrors()
        table = self._data.table(split)
        arguments = ("word_column", "tag_column")
        sentences = sentences_of_table(table, arguments, None, split != "test", self._columns, bad)
        if not sentences:
            raise UserError(bad.first or f"{table.name}: the split has no sentences")
        return sentences


def make_source(options):
    if options.tfds_name:
        features = options.word_column or "tokens", options.tag_column
        splits = options.split_names()
        return TfdsSentences(options.tfds_name, options.tfds_data_dir, splits, *features)
    columns = {}
    for name, default in (("word_column", "0"), ("tag_column", "-1")):
        value = getattr(options, name) or default
        try:
            columns[name] = int(value)
        except ValueError:
            raise UserError(f"`{name}={value}`: expected a column number") from None
    paths = {split: getattr(options, f"{split}_file") for split in SPLITS}
    return ColumnFiles(options.data_dir, paths, **columns)


def write_columns(path, sentences, tags):
    """Write the columns of each `Sentence` and its `tags`, a list, in the format of conlleval.

    Raises:
      UserError: if a word that is not from a column file is empty or has spaces or line ends.
    """
    outside = schemes.OUTSIDE
    with files.writing_text(path) as write:
        for sentence, predicted in zip(sentences, tags, strict=True):
            write("".join(f"{line} {outside}\n\n" for line in sentence.leading_lines))
            columns = sentence.columns or zip(sentence.words)
            for word in () if sentence.columns else sentence.words:
                if not word or re.search("[ \t\r\n]", word):
                    raise UserError(f"{sentence.where}: the word {word!r} is empty or has spaces")
            pairs = zip(columns, predicted, strict=True)
            write("\n".join(" ".join([*columns, tag]) for columns, tag in pairs) + "\n\n")
            write("".join(f"{line} {outside}\n\n" for line in sentence.trailing_lines))


def infer_tags(sentences, scheme=None):
    """Return the `Tags` of a training set, with the labels in alphabetical order."""
    labels = {tag for sentence in sentences for tag in sentence.tags}
    data_scheme = schemes.infer_scheme(labels, scheme)
    scheme = scheme or ("none" if data_scheme == "none" else "iob2")
    if scheme != "none":
        # An invalid tag adds no label; `valid_sentences` reports it.
        valid = (tag for tag in labels - {schemes.OUTSIDE} if schemes.is_tag(tag, data_scheme))
        labels = {schemes.split_tag(tag, data_scheme)[1] for tag in valid}
    return Tags(schemes.tag_names(sorted(labels), scheme), scheme, data_scheme)


def valid_sentences(sentences, tags, bad):
    """Return the sentences with valid tags; report the others to `bad`."""
    valid, leading_lines = [], ()
    for sentence in sentences:
        # If the first sentence of a document is skipped, the next one starts the document.
        leading_lines += sentence.leading_lines
        try:
            if sentence.tags is not None:
                tags.convert(sentence)
        except UserError as error:
            bad.add(str(error))
        else:
            valid.append(sentence._replace(leading_lines=leading_lines))
            leading_lines = ()
    return valid


def infer_run_tags(data, source, train):
    """Return the `Tags` of the training set `train`, read first if it is None, for a run."""
    bad = RowErrors(skip=True)
    sentences = train or source.read("train", bad)
    tags = infer_tags(sentences, data.learn_scheme)
    bad.report("invalid sentences skipped while collecting the tags of the training set")
    if tags.data_scheme == "iob2" and any(schemes.is_iob1(x.tags) for x in sentences):
        if data.output_scheme == "iob1":
            tags = tags._replace(data_scheme="iob1")
        else:
            console.notice(
                "entities of the training set begin with I-, as in IOB1; predictions and "
                "eval_accuracy are in iob2; `output_scheme=iob1` keeps iob1"
            )
    message = "tag scheme of the data: %s; the model learns %s: %s"
    console.info(message, tags.data_scheme, tags.scheme, ", ".join(tags.names[:50]))
    return tags


# Number of texts that are tokenized at a time.
_CHUNK_SIZE = 1000


# Usual names of the columns of words or texts, and of tags or entities.
_COLUMNS = (("tokens", "words", "text"), ("ner_tags", "tags", "labels", "entities"))


def sentences_of_table(table, arguments, config=None, with_tags=True, columns=_COLUMNS, bad=None):
    """Return a list of `Sentence`; `bad`, a `RowErrors`, collects invalid ones.

    A row has a list of words and their tags, in any scheme, or a text and its entities. Texts are
    divided into words as in the exported model, with tags in the data scheme of the model's
    `config`, which is None before the tags are known.
    """
    _, find, rows = header_and_rows(table)
    text = find(columns[0], arguments[0])
    tags = find(columns[1], arguments[1]) if with_tags else None
    tag_names = config.tags.names if config else ()
    labels = Labels(tag_names, class_names=table.label_names.get(tags, ()))
    bad = bad or RowErrors()
    rows = list(rows)  # a str for a row that cannot be read
    values = (row[text] for _, row in rows if not isinstance(row, str))
    first = next(filter(lambda value: not tables.is_missing(value), values), None)
    if not isinstance(first, str):

        def of_words(where, _, row):
            return _sentence(where, row[text], row.get(tags), labels, with_tags)

        return bad.collect(rows, of_words)
    if config is None or config.tags.scheme == "none":
        raise UserError(f"`{arguments[0]}`: found strings, expected lists of words")
    texts = bad.collect(rows, lambda where, _, row: (where, _check_text(row[text]), row.get(tags)))
    num_cut = 0

    def make(where, _, row):
        nonlocal num_cut
        text, starts, ends, entities = row
        words = tuple(text[i:j] for i, j in zip(starts, ends, strict=True))
        if not words or not with_tags:
            return Sentence(where, words) if words else None
        spans, cut = _locate(_read_entities(entities), text, starts, ends)
        num_cut += cut
        tags = schemes.tags_from_spans(spans, len(words), config.tags.data_scheme)
        return Sentence(where, words, tuple(tags))

    sentences = bad.collect(_split_texts(texts, config), make)
    if num_cut:
        console.warning("%d entities start or end inside a word; expanded to whole words", num_cut)
    return sentences


def _check_text(text):
    if not isinstance(text, str):
        raise ValueError(f"found {shown(text)}, expected a text as in the first row")
    return tables.as_text(text)


def _sentence(where, words, tags, labels, with_tags):
    # The characters of a string would count as words.
    if not isinstance(words, list):
        raise ValueError(f"found {words!r:.50}, expected words")
    if any(map(tables.is_missing, words)):
        raise ValueError(f"found {shown(words)}, where a word is missing")
    words = tuple(map(tables.as_text, words))
    if not (words or tags):  # an empty sentence has no tags
        return None
    if not with_tags:
        return Sentence(where, words)
    if not isinstance(tags, list) or len(tags) != len(words):
        found = counted(len(tags), "tag") if isinstance(tags, list) else repr(tags)
        raise ValueError(f"found {found}, expected one for each of {len(words)} words")
    # A tag as text may be in another scheme than the model's.
    tags = tuple((x.strip() or None) if isinstance(x, str) else labels.label_of(x) for x in tags)
    if None in tags:
        raise ValueError("a word has no tag")
    return Sentence(where, words, tags)


def _split_texts(rows, config):
    """Yield (where, (text, starts and ends of its words, entities)) for (where, text, entities)."""
    settings = config.tokenizer_settings
    tokenizer = HostTokenizer(config.vocab, **settings)
    for i in range(0, len(rows), _CHUNK_SIZE):
        chunk = rows[i : i + _CHUNK_SIZE]
        texts = tf.constant([text for _, text, _ in chunk])
        ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
        is_start = ids.with_values(find_word_starts(settings, texts, ids, starts))
        offsets = zip(*(x.to_list() for x in (starts, ends, is_start)), strict=True)
        for (where, text, entities), (first, last, starts_word) in zip(chunk, offsets, strict=True):
            tokens = np.flatnonzero(starts_word)  # the first of each word
            if len(tokens):
                # Unicode normalization may reorder combining marks, so the last token may start
                # first.
                first = np.minimum.reduceat(first, tokens)
                last = np.maximum.reduceat(last, tokens)
            yield where, (text, first, last, entities)


def _read_entities(entities):
    """Return a sorted list of (start, end, label) for the entities of a text."""
    try:
        values = operator.itemgetter("start", "end", "label")
        rows = (values(entity) if isinstance(entity, Mapping) else entity for entity in entities)
        return sorted((operator.index(i), operator.index(j), label) for i, j, label in rows)
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"found {shown(entities)}, expected a list of dicts with start, end and label, or of "
            "tuples (start, end, label); start and end must be integers"
        ) from None


def _locate(entities, text, word_starts, word_ends):
    """Return the word `Span`s of sorted entities, and the number of entities that cut a word."""
    spans: list[schemes.Span] = []
    num_cut = 0
    for start, end, label in entities:
        covered = np.flatnonzero((word_starts < end) & (word_ends > start))
        is_inside = start >= 0 and end <= len(text)
        if not is_inside or start >= end or not len(covered):
            problem = f"{'contains no word of' if is_inside else 'is not within'} the text"
            entity = f"the entity {label} from {start} to {end}"
            raise ValueError(f"{entity} {problem} ({len(text)} characters)")
        first, last = int(covered[0]), int(covered[-1])
        if spans and first < spans[-1].end:
            raise ValueError(f"the entity {label} from {start} to {end} overlaps the one before it")
        num_cut += bool(word_starts[first] < start or word_ends[last] > end)
        spans.append(schemes.Span(label, first, last + 1))
    return spans, num_cut
