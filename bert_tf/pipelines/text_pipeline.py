"""Base class of pipelines that apply a pre-trained model to texts in batches."""

import functools
import itertools
import re
from collections.abc import Callable, Mapping, Set
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.task import valid_length
from bert_tf.configs.train import BatchConfig
from bert_tf.data.input_pipeline import length_multiple
from bert_tf.errors import UserError, check_unicode
from bert_tf.io import files
from bert_tf.modeling.models import INPUTS, BertModel
from bert_tf.pipelines.arguments import check_texts
from bert_tf.pipelines.saving import Pipeline
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.packing import LengthCounter, log_truncated, pack_pair
from bert_tf.training.strategy import Workers, default_strategy, on_all_replicas, per_replica

_PAIR = re.compile(r"^(.*) \|\|\| (.*)$")

# Sequences are sorted by length within windows of at most this many output bytes and batches.
_WINDOW_BYTES = 128 << 20
_MAX_WINDOW_BATCHES = 64

SINGLE_PROCESS_MESSAGE = (
    "TF_CONFIG lists several workers, but feature extraction, sentence embedding and masked-word "
    "prediction run in a single process; unset TF_CONFIG and process a share of the texts on each "
    "machine"
)

_Pipeline = TypeVar("_Pipeline", bound="TextPipeline")


class Text(NamedTuple):
    """A text or a pair of texts; `index` is its line in the input, from 0."""

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


def check_collection(texts):
    """Return an iterable of texts, for a DataFrame its column; raise TypeError for a single str."""
    if isinstance(texts, str):
        raise TypeError("found a single str, expected a list of texts")
    is_keyed = isinstance(texts, (Mapping, Set)) or hasattr(texts, "columns")
    return check_texts(texts, "texts") if is_keyed else texts


class Word(NamedTuple):
    """A word delimited by whitespace; its tokens are at `start` to `end` (exclusive)."""

    text: str
    start: int
    end: int


class EncodedText(NamedTuple):
    """A text as model inputs; `extra_inputs` are for the function of a `BatchRunner`."""

    text: Text | None
    input_ids: list
    segment_ids: list
    words: list | None = None
    extra_inputs: Mapping = MappingProxyType({})


class TextPreprocessor:
    """Converts texts to `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in the release."""

    def __init__(self, tokenizer, max_seq_length, with_words=False, config=None):
        """Create a preprocessor; `with_words` tracks the tokens of each word."""
        self._tokenizer, self._max_seq_length = tokenizer, max_seq_length
        self._with_words, self._config = with_words, config
        self._lengths, self._num_empty = LengthCounter(max_seq_length), 0

    def convert(self, text):
        """Return the `EncodedText` of a `Text`; UserError if the model does not support it."""
        check_unicode(text.text_a + (text.text_b or ""), f"text {text.index}")
        if text.text_b and self._config:
            self._config.check_num_texts(2)
        ids_a, word_lengths_a = self._encode(text.text_a)
        ids_b, word_lengths_b = self._encode(text.text_b or "")
        packed = pack_pair(
            ids_a, ids_b, self._tokenizer, self._max_seq_length, self._lengths, pad=False
        )
        words = None
        if self._with_words:
            words = _locate_words(word_lengths_a, 1, len(ids_a))
            words += _locate_words(word_lengths_b, len(ids_a) + 2, len(ids_b))
        return EncodedText(text, packed["input_ids"], packed["segment_ids"], words)

    def convert_all(self, texts):
        """Yield the `EncodedText` of each `Text` or str; " ||| " in a str separates a pair."""
        for index, text in enumerate(check_collection(texts)):
            value = text.text_a if isinstance(text, Text) else text
            if not isinstance(value, str):
                raise UserError(f"`texts`: item {index} is {value!r:.50}, expected a text")
            yield self.convert(text if isinstance(text, Text) else Text.parse(index, text))
        max_limit = self._config.max_position_embeddings if self._config else None
        log_truncated("input", self._lengths.counts, self._max_seq_length, max_limit)
        if self._num_empty:
            console.warning(
                "%d words without tokens, such as invisible characters, were skipped",
                self._num_empty,
            )

    def _encode(self, text):
        """Return the ids of a text, and a list of (word, number of ids) or None."""
        if not self._with_words:
            return self._tokenizer.encode(text), None
        words = text.split()
        ids_of_words = self._tokenizer.encode_batch(words)
        self._num_empty += sum(not ids for ids in ids_of_words)
        lengths = [(word, len(ids)) for word, ids in zip(words, ids_of_words, strict=True)]
        return list(itertools.chain.from_iterable(ids_of_words)), lengths


def _locate_words(word_lengths, start, num_tokens):
    """Return the `Word`s that have tokens among the `num_tokens` from `start`."""
    words, end_of_text = [], start + num_tokens
    for word, length in word_lengths:
        end = min(start + length, end_of_text)
        if end > start:
            words.append(Word(word, start, end))
        start = end
    return words


class TextPipeline(Pipeline):
    """Base class of pipelines that apply a pre-trained model to texts."""

    def __new__(cls, *arguments, **options):
        pipeline = super().__new__(cls)
        pipeline._arguments = arguments, options
        return pipeline

    def __reduce__(self):
        """Pickle and copy the constructor's arguments, except for the strategy."""
        arguments, options = self._arguments
        options = {name: value for name, value in options.items() if name != "strategy"}
        return functools.partial(type(self), **options), arguments

    # Called with a `BertConfig` and a `dtype`.
    make_model: Callable = BertModel
    # Whether to keep "[MASK]" and other special tokens in a text.
    keep_special_tokens = False

    def __init__(
        self,
        model: keras.Model,
        tokenizer: FullTokenizer,
        strategy: tf.distribute.Strategy | None = None,
        batch_size: int = 32,
        max_seq_length: int | None = None,
    ):
        """Create a pipeline from a model.

        Args:
          model: a model created by `make_model` in the scope of `strategy`.
          tokenizer: a `FullTokenizer` with the `keep_special_tokens` of this class.
          strategy: a single-process `tf.distribute.Strategy`; None to use all devices.
          batch_size: the global batch size.
          max_seq_length: maximum sequence length, in tokens; longer texts are truncated. None for
            128, or for the maximum of the model if that is less.

        Raises:
          UserError: if the model does not support `max_seq_length`.
        """
        batch_size = BatchConfig(batch_size).validate().batch_size
        self.model, self.tokenizer = model, tokenizer
        self.max_seq_length = valid_length(max_seq_length, model.config)
        self._strategy, self._batch_size = strategy or default_strategy(), batch_size

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
          preset: see `checkpoints.resolve`.
          dtype: a Keras dtype policy.
          strategy: a single-process `tf.distribute.Strategy`; None to use all devices.
          **options: other arguments of the constructor.

        Raises:
          UserError: if a file is missing or the files do not match.
        """
        model_files = checkpoints.resolve(preset)
        tokenizer = model_files.load_tokenizer(cls.keep_special_tokens)
        strategy = strategy or default_strategy()
        with strategy.scope():
            model = cls.make_model(model_files.bert_config, dtype=dtype)
        cls._check_checkpoint(model, model_files.checkpoint)
        checkpoints.warm_start(model, model_files.checkpoint)
        return cls(model, tokenizer, strategy=strategy, **options)

    @staticmethod
    def _check_checkpoint(model, checkpoint):
        """Raise UserError if the checkpoint lacks required weights; a hook for subclasses."""

    def _make_runner(self, function, bytes_per_row=0, extra_inputs=()):
        return BatchRunner(
            function, self._strategy, self._batch_size, self.max_seq_length, bytes_per_row,
            extra_inputs,
        )  # fmt: skip

    def _encode(self, texts, with_words=False):
        config = self.model.config
        preprocessor = TextPreprocessor(self.tokenizer, self.max_seq_length, with_words, config)
        return preprocessor.convert_all(texts)


class BatchRunner:
    """Runs a function on batches of sequences and returns the outputs in input order.

    Within a window, sequences are sorted by length, so that batches need little padding. TPUs
    recompile for each new shape, so their batches are full and padded to `max_seq_length`.
    """

    def __init__(
        self, function, strategy, batch_size, max_seq_length, bytes_per_row=0, extra_inputs=()
    ):
        """Create a runner of a function from a dict of int32 (B, S) to a dict of tensors (B, ...).

        `bytes_per_row` is the approximate output size for the longest sequence. `extra_inputs` are
        padded with 0 to the next power of two to limit the number of shapes.
        """
        if Workers(strategy).is_multi_worker:
            raise UserError(SINGLE_PROCESS_MESSAGE)
        per_replica(batch_size, strategy, "batch_size")
        self._function, self._batch_size = function, batch_size
        self._num_replicas = strategy.num_replicas_in_sync
        self._multiple = length_multiple(strategy, False, max_seq_length)
        self._max_seq_length = max_seq_length
        num_batches = _WINDOW_BYTES // max(1, batch_size * bytes_per_row)
        self._window_size = batch_size * min(max(1, num_batches), _MAX_WINDOW_BATCHES)
        any_shape = {
            name: tf.TensorSpec((None, None), tf.int32) for name in (*INPUTS, *extra_inputs)
        }
        # If shapes may vary, a single trace covers all of them.
        self._step = on_all_replicas(
            self._run_replica, strategy, any_shape if self._multiple else None
        )

    def run(self, sequences, description, unit="texts"):
        """Yield (sequence, dict of its output arrays) for each `EncodedText`, read lazily."""
        progress = console.ProgressLog(description, unit)
        sequences = iter(sequences)
        while window := list(itertools.islice(sequences, self._window_size)):
            results = [None] * len(window)
            for indices, outputs in self._run_window(window):
                for row, index in enumerate(indices):
                    results[index] = {name: values[row] for name, values in outputs.items()}
                progress.add(len(indices))
            yield from zip(window, results, strict=True)
        progress.done()

    def _run_window(self, window):
        """Yield (indices into the window, dict of arrays with one row per index) by batch."""
        order = sorted(range(len(window)), key=lambda i: len(window[i].input_ids))
        previous = None
        for start in range(0, len(order), self._batch_size):
            indices = order[start : start + self._batch_size]
            outputs = self._step(self._make_batch([window[i] for i in indices]))
            # Copy the previous outputs to the host while the device computes.
            if previous:
                yield _to_host(*previous)
            previous = indices, outputs
        yield _to_host(*previous)

    def _make_batch(self, sequences):
        """Return a dict of int32 (B, S), filled up with copies of the first sequence."""
        unit = self._num_replicas if self._multiple else self._batch_size
        sequences = sequences + sequences[:1] * (-len(sequences) % unit)
        length = self._max_seq_length
        if self._multiple:
            longest = max(len(x.input_ids) for x in sequences)
            length = min(-(-longest // self._multiple) * self._multiple, length)
        batch = {
            "input_ids": _pad([x.input_ids for x in sequences], length),
            "input_mask": _pad([[1] * len(x.input_ids) for x in sequences], length),
            "segment_ids": _pad([x.segment_ids for x in sequences], length),
        }
        for name in sequences[0].extra_inputs:
            values = [x.extra_inputs[name] for x in sequences]
            batch[name] = _pad(values, 1 << (max(map(len, values)) - 1).bit_length())
        return batch

    def _run_replica(self, batch):
        """Run the function on this replica's rows; every replica receives the whole `batch`."""
        if self._num_replicas > 1:
            replica = tf.distribute.get_replica_context().replica_id_in_sync_group
            batch = {
                name: tf.gather(tf.stack(tf.split(values, self._num_replicas)), replica)
                for name, values in batch.items()
            }
        return self._function(batch)


def _to_host(indices, outputs):
    return indices, {name: value.numpy() for name, value in outputs.items()}


def _pad(lists, length):
    return np.array([[*values, *[0] * (length - len(values))] for values in lists], "int32")
