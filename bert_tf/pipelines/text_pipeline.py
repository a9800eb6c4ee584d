"""Texts as model inputs, and the base class of the pipelines."""

import itertools
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import keras
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling.models import BertModel
from bert_tf.pipelines.runner import BatchRunner, InputFeatures
from bert_tf.tasks.classification.features import truncate_pair
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.truncation import LengthCounter, log_truncated
from bert_tf.training import make_strategy
from bert_tf.training.task_config import SHORTEST, check_length

_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")

_Pipeline = TypeVar("_Pipeline", bound="TextPipeline")


class Text(NamedTuple):
    """A text or a pair of texts.

    Attributes:
      index: number of the line in the input, from 0.
      text_a: the text, or the first text of a pair.
      text_b: the second text of a pair, else None.
    """

    index: int  # type: ignore[assignment]
    text_a: str
    text_b: str | None

    @classmethod
    def parse(cls, index, line):
        """Parse a line; " ||| " separates the two texts of a pair, as in the release."""
        line = line.strip()
        match = _PAIR.match(line)
        return cls(index, *match.groups()) if match else cls(index, line, None)


def read_texts(path):
    """Yield a `Text` for each line of a file; an empty line is an empty text."""
    for index, line in enumerate(files.read_lines(path)):
        yield Text.parse(index, line)


def check_is_collection(texts):
    """Raise TypeError if `texts` is a single str, whose characters would be taken for texts."""
    if isinstance(texts, str):
        raise TypeError("expected a list of texts, got a single str")


class Word(NamedTuple):
    """A word delimited by white space; its tokens are at `start` to `end` of the sequence."""

    text: str
    start: int
    end: int


class EncodedText(NamedTuple):
    """A text and its token ids.

    Attributes:
      text: the `Text`.
      input_ids: list of the ids, including [CLS] and [SEP].
      words: list of `Word`, or None if words are not tracked.
    """

    text: Text
    input_ids: list
    words: list | None


class TextPreprocessor:
    """Converts texts to `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in the release.

    Attributes:
      lengths: `LengthCounter` of the texts since the last report.
    """

    def __init__(self, tokenizer, max_seq_length, with_words=False, max_limit=None):
        """Create a preprocessor.

        Args:
          tokenizer: a `FullTokenizer`.
          max_seq_length: maximum number of tokens, including [CLS] and [SEP].
          with_words: whether to track which tokens belong to which word. Words are delimited by
            white space, and each is tokenized separately.
          max_limit: the largest `max_seq_length` that the model allows, for messages.
        """
        if max_seq_length < SHORTEST:
            raise UserError(f"`max_seq_length={max_seq_length}` is less than {SHORTEST}")
        self._tokenizer = tokenizer
        self._max_seq_length = max_seq_length
        self._with_words, self._max_limit = with_words, max_limit
        self._cls, self._sep = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self.lengths, self._num_empty = LengthCounter(max_seq_length), 0

    def convert(self, text):
        """Return the `InputFeatures` of a `Text`; their `item` is an `EncodedText`."""
        ids_a, word_lengths_a = self._encode(text.text_a)
        ids_b, word_lengths_b = self._encode(text.text_b or "")
        self.lengths.add(len(ids_a) + len(ids_b) + (3 if ids_b else 2))
        if ids_b:
            truncate_pair(ids_a, ids_b, self._max_seq_length - 3)
        del ids_a[self._max_seq_length - 2 :]
        first = [self._cls, *ids_a, self._sep]
        second = [*ids_b, self._sep] if ids_b else []
        words = None
        if self._with_words:
            words = _locate_words(word_lengths_a, 1, len(ids_a))
            words += _locate_words(word_lengths_b, len(first), len(ids_b))
        ids = first + second
        segment_ids = [0] * len(first) + [1] * len(second)
        return InputFeatures(EncodedText(text, ids, words), ids, segment_ids)

    def convert_all(self, texts):
        """Yield the `InputFeatures` of texts, each a `Text` or a str with " ||| " in a pair."""
        check_is_collection(texts)
        for index, text in enumerate(texts):
            yield self.convert(text if isinstance(text, Text) else Text.parse(index, text))

    def report(self):
        """Log warnings for truncated texts and for words without tokens; reset the counts."""
        log_truncated("input", self.lengths.counts, self._max_seq_length, self._max_limit)
        if self._num_empty:
            console.warning(
                "%d words have no tokens (for example, invisible characters only) and were skipped",
                self._num_empty,
            )
        self.lengths, self._num_empty = LengthCounter(self._max_seq_length), 0

    def _encode(self, text):
        """Return the ids of a text, and a list of (word, number of its ids)."""
        if not self._with_words:
            return self._tokenizer.encode(text), None
        words = text.split()
        ids_of_words = self._tokenizer.encode_batch(words)
        self._num_empty += sum(not ids for ids in ids_of_words)
        lengths = [(word, len(ids)) for word, ids in zip(words, ids_of_words, strict=True)]
        return list(itertools.chain.from_iterable(ids_of_words)), lengths


def _locate_words(word_lengths, start, num_tokens):
    """Return a `Word` for each word that has a token among the `num_tokens` from `start`."""
    words, end_of_text = [], start + num_tokens
    for word, length in word_lengths:
        end = min(start + length, end_of_text)
        if end > start:
            words.append(Word(word, start, end))
        start = end
    return words


class TextPipeline:
    """Base class of the pipelines: applies a pre-trained model to texts.

    Attributes:
      model: the model.
      tokenizer: a `FullTokenizer`.
      max_seq_length: maximum number of tokens of a text.
    """

    # Called with a `BertConfig` and a `dtype`.
    make_model: Callable = BertModel
    # Whether "[MASK]" and other special tokens in a text are kept as such.
    keep_special_tokens = False

    def __init__(
        self,
        model: keras.Model,
        tokenizer: FullTokenizer,
        strategy: tf.distribute.Strategy | None = None,
        batch_size: int = 32,
        max_seq_length: int = 128,
    ):
        """Create a pipeline from a model.

        Args:
          model: a model as `make_model` creates it, in the scope of `strategy`.
          tokenizer: a `FullTokenizer` with this class' `keep_special_tokens`.
          strategy: a `tf.distribute.Strategy` of one process; by default all available devices
            are used.
          batch_size: the global batch size.
          max_seq_length: maximum number of tokens; longer texts are truncated. A UserError is
            raised if the model does not support this length.
        """
        check_length(max_seq_length, model.config)
        self.model, self.tokenizer, self.max_seq_length = model, tokenizer, max_seq_length
        self._strategy, self._batch_size = strategy or make_strategy(), batch_size

    @classmethod
    def from_preset(
        cls: type[_Pipeline],
        preset: str | PretrainedFiles,
        dtype: str | None = None,
        strategy: tf.distribute.Strategy | None = None,
        **options: Any,
    ) -> _Pipeline:
        """Create a pipeline from the name of a published model, a folder or a checkpoint.

        Args:
          preset: as in `checkpoints.resolve`.
          dtype: a Keras dtype policy.
          strategy: a `tf.distribute.Strategy` of one process; by default all available devices
            are used.
          **options: further arguments of the constructor.

        Raises:
          UserError: if a file is missing or the files do not match.
        """
        model_files = checkpoints.resolve(preset)
        tokenizer = model_files.load_tokenizer(cls.keep_special_tokens)
        strategy = strategy or make_strategy()
        with strategy.scope():
            model = cls.make_model(model_files.bert_config, dtype=dtype)
        cls._check_checkpoint(model, model_files.checkpoint)
        checkpoints.warm_start(model, model_files.checkpoint)
        return cls(model, tokenizer, strategy=strategy, **options)

    @staticmethod
    def _check_checkpoint(model, checkpoint):
        """Raise UserError if the checkpoint lacks weights that this pipeline requires."""

    def _make_runner(self, function, bytes_per_row=0, extra_inputs=()):
        return BatchRunner(
            function, self._strategy, self._batch_size, self.max_seq_length, bytes_per_row,
            extra_inputs,
        )  # fmt: skip

    def _make_preprocessor(self, with_words=False):
        max_limit = self.model.config.max_position_embeddings
        return TextPreprocessor(self.tokenizer, self.max_seq_length, with_words, max_limit)
