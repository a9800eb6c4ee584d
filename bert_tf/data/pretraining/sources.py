"""Where text comes from: files of lines or of JSON, packed or not; documents one by one."""

import json
from typing import NamedTuple

from bert_tf import console, files
from bert_tf.errors import UserError

FORMATS = ("auto", "text", "jsonl")


class Document(NamedTuple):
    """A document of a source.

    Attributes:
      file: the number of its file, from 0.
      number: its number in that file, from 0.
      lines: list of str, one sentence each, unless
      is_raw: sentences are still to be found in the lines, as `sentences.split` does it.
    """

    file: int
    number: int
    lines: list
    is_raw: bool


class FileSource:
    """Documents of files.

    Attributes:
      total, unit: how much there is to read, and in what.
      done: how much of it was read.
      num_files: how many files there are.
    """

    unit = "kB"

    def __init__(self, paths, format="auto", text_field="text", split_sentences=False):
        """Takes what to read.

        Args:
          paths: UTF-8 files, any of them packed by gzip.
          format: "text" is one sentence a line and a blank line between documents; "jsonl" is one
            JSON object a line, each a document; "auto" is jsonl for names that end in .jsonl,
            .ndjson or .json, with .gz or without, and else text.
          text_field: where such an object has its text: a string, in which sentences are found, or
            a list of sentences.
          split_sentences: whether to find sentences in the lines of text too.
        """
        if format not in FORMATS:
            raise UserError(f"`input_format`: {format!r} is not one of {', '.join(FORMATS)}")
        self.paths = paths
        self._format, self._text_field, self._split = format, text_field, split_sentences
        # A file that is missing is told of by those who read it.
        self.total = sum(size for _, size, _ in self.made_of()) / 1000
        self.done = 0.0
        self.num_files = len(paths)
        self._unfinished = 0

    def made_of(self):
        """List of (path, bytes, time of the last change in nanoseconds or 0) of the files."""
        return [[path, *files.size_and_time(path)] for path in self.paths]

    def settings(self):
        """How the files are read: dict of what JSON has, by the names of flags."""
        return {
            "input_format": self._format,
            "text_field": self._text_field,
            "split_sentences": self._split,
        }

    @property
    def name(self):
        """What to call it in a message."""
        return ", ".join(self.paths)

    def documents(self):
        """Yields each `Document` that has a line that is not blank.

        Raises:
          UserError: if a file cannot be read, or a line is not what it should be.
        """
        for number in range(self.num_files):
            yield from self.documents_of(number)
        if self._unfinished:
            console.info(
                "%d files end without a blank line; their last document ends with the file (in the "
                "release it went on in the next file)",
                self._unfinished,
            )

    def documents_of(self, file):
        """Yields those of the file of that number."""
        documents = self._of_json(file) if self.is_json(file) else self._of_text(file)
        for number, (lines, is_raw) in enumerate(documents):
            yield Document(file, number, lines, is_raw)

    def is_json(self, file):
        """Whether the file of that number is read as JSON lines."""
        name = self.paths[file].lower().removesuffix(".gz")
        by_name = name.endswith((".jsonl", ".ndjson", ".json"))
        return self._format == "jsonl" or (self._format == "auto" and by_name)

    def _moved(self, count):
        self.done += count / 1000

    def _of_text(self, file):
        lines, blank = [], True
        for line in files.read_lines(self.paths[file], self._moved):
            blank = not line.strip()
            if not blank:
                lines.append(line)
            elif lines:
                yield lines, self._split
                lines = []
        self._unfinished += not blank and file < len(self.paths) - 1
        if lines:
            yield lines, self._split

    def _of_json(self, file):
        path, field, empty = self.paths[file], self._text_field, 0
        for number, line in enumerate(files.read_lines(path, self._moved, strict=True), 1):
            if not line.strip():
                continue
            where = f"{path}, line {number}"
            try:
                value = json.loads(line)
            # A plain ValueError is a number of more digits than Python turns into one.
            except (ValueError, RecursionError) as error:
                too_deep = isinstance(error, RecursionError)
                found = "lists in lists without end" if too_deep else getattr(error, "msg", error)
                raise UserError(f"{where}: one JSON object was expected ({found})") from None
            if not isinstance(value, dict):
                raise UserError(f"{where}: one JSON object was expected, not {line.strip()[:40]}")
            if field not in value:
                found = ", ".join(value) or "nothing"
                raise UserError(f"{where}: there is no {field!r}, only {found} (see `text_field`)")
            text = value[field]
            is_list = isinstance(text, list) and all(isinstance(x, str) for x in text)
            if not is_list and not isinstance(text, str):
                raise UserError(f"{where}: {field!r} must be a text or a list of texts")
            lines = [x for x in (text if is_list else [text]) if x.strip()]
            empty += not lines
            if lines:
                yield lines, not is_list
        if empty:
            console.info("%s: %d documents without text are left out", path, empty)
