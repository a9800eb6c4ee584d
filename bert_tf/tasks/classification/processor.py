"""The release's interface for custom data: `DataProcessor` and `InputExample`."""

import contextlib
import csv
import dataclasses
import functools
import importlib.machinery
import importlib.util
import os
import re
import sys
import types
from collections.abc import Iterable
from typing import Any

from bert_tf import tokenization
from bert_tf.data.containers import check_list
from bert_tf.data.tables import long_cells, to_python
from bert_tf.errors import UserError, reason, shown
from bert_tf.io import files
from bert_tf.tasks.classification.examples import Example, collect_examples
from bert_tf.tasks.classification.glue import CUSTOM_METRICS, DatasetSpec

_LONE_CR = re.compile(r"\r(?!\r*\n?\Z)")


@dataclasses.dataclass
class InputExample:
    """A labeled text or pair of texts, as in the release.

    Attributes:
      guid: the id of the example, written to `test_predictions.tsv`.
      label: one of the labels; may be None in a test set.
    """

    guid: Any
    text_a: str | bytes
    text_b: str | bytes | None = None
    label: Any = None


class DataProcessor:
    """Base class of custom tasks: their examples and labels, as in the release.

    `run_classifier.py --processor=MODULE:CLASS` creates an instance without arguments and calls
    only the methods of the required splits. `data_dir` is the value of `--data_dir`.
    """

    def get_train_examples(self, data_dir: str | None) -> Iterable[InputExample]:
        """Return the training set."""
        raise NotImplementedError

    def get_dev_examples(self, data_dir: str | None) -> Iterable[InputExample]:
        """Return the development set."""
        raise NotImplementedError

    def get_test_examples(self, data_dir: str | None) -> Iterable[InputExample]:
        """Return the test set; its labels are ignored."""
        raise NotImplementedError

    def get_labels(self) -> list:
        """Return the labels in the order of their ids."""
        raise NotImplementedError

    @classmethod
    def _read_tsv(cls, input_file: str, quotechar: str | None = None) -> list[list[str]]:
        """Return the cells of each line of a tab-separated file, local or remote.

        A carriage return within a line becomes a space. Empty lines at the end are dropped, unless
        there are others, which may separate sentences.
        """
        lines = [_LONE_CR.sub(" ", line) for line in files.read_lines(input_file)]
        with long_cells():
            rows = list(csv.reader(lines, delimiter="\t", quotechar=quotechar))
        count = max((number for number, row in enumerate(rows, 1) if row), default=0)
        return rows[:count] if all(rows[:count]) else rows


class ProcessorSource:
    """The examples of a processor, with the interface of `source.FileSource`."""

    files, training_columns = (), None

    def __init__(self, reference, data_dir=None):
        """Create the processor named "MODULE:CLASS"; raise UserError if that fails."""
        self._name, self._data_dir = reference, data_dir
        self._processor = _make(reference)
        labels = tuple(str(to_python(label)) for label in self._call("get_labels"))
        if len(set(labels)) < max(len(labels), 2):
            names = ", ".join(labels) or "(none)"
            found = f"found the labels {names} in get_labels, expected at least two different ones"
            raise UserError(f"`processor={reference}`: {found}")
        self.dataset = DatasetSpec({}, labels, metrics=CUSTOM_METRICS["classification"])

    def _call(self, method, *arguments):
        with _modules_of_the_release(self._name):
            try:
                missing = getattr(DataProcessor(), method)  # raises NotImplementedError
                values = getattr(self._processor, method, missing)(*arguments)
            except NotImplementedError:
                raise UserError(f"`processor={self._name}`: the class has no {method}") from None
            return check_list(values, f"processor={self._name}", f"a list from {method}")

    def splits(self, base):
        return [base]

    def read(self, split, bad=None):
        """Return the list of `Example` of a split; see `FileSource.read`."""
        method = f"get_{split}_examples"
        place, labels = f"{self._name}, {method}", self.dataset.reader()

        def make(where, index, example):
            names = "text_a", "text_b", "label", "guid"
            text_a, text_b, label, guid = (getattr(example, name, None) for name in names)
            if text_a is None:
                raise ValueError(f"found {shown(example)}, expected an InputExample with text_a")
            return Example(
                where,
                tokenization.convert_to_unicode(text_a),
                tokenization.convert_to_unicode(text_b) if text_b else None,
                labels.label_of(label) if split == "test" else labels.read_cells([label]),
                str(index if guid is None else guid),
            )

        examples = enumerate(self._call(method, self._data_dir))
        rows = ((f"{place}, example {i}", example) for i, example in examples)
        return collect_examples(place, self.dataset, rows, make, bad)


class _Tokenization(types.ModuleType):
    """The names of `bert_tf.tokenization`; others come from the fork's own module."""

    def __init__(self):
        super().__init__("tokenization")
        names = vars(tokenization).items()
        vars(self).update((name, x) for name, x in names if not name.startswith("__"))

    @functools.cached_property
    def _own(self):
        if spec := importlib.machinery.PathFinder.find_spec("tokenization"):
            own = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(own)
            return own

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._own, name)


@contextlib.contextmanager
def _modules_of_the_release(reference):
    """Let a processor import `tokenization` and `run_classifier`, as in the release."""
    script = types.SimpleNamespace(DataProcessor=DataProcessor, InputExample=InputExample)
    modules = {"run_classifier": script, "tokenization": _Tokenization()}
    modules.pop(reference.partition(":")[0], None)  # a processor in a file of that name
    before = {name: sys.modules.pop(name) for name in modules if name in sys.modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name in modules:
            del sys.modules[name]
        sys.modules.update(before)


def _make(reference):
    module, _, name = reference.partition(":")
    if not (module and name):
        raise UserError(f"`processor={reference}`: expected MODULE:CLASS")
    if os.getcwd() not in sys.path:  # Python adds the folder of the script instead
        sys.path.insert(0, os.getcwd())
    try:
        with _modules_of_the_release(reference):
            return getattr(importlib.import_module(module), name)()
    except Exception as error:  # user code may raise anything
        message = f"{type(error).__name__}: {reason(error)}"
        raise UserError(f"`processor={reference}`: {message}") from error
