"""`TokenVectors`: vectors of the tokens or words of texts, without training."""

import dataclasses
import functools
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from bert_tf import console
from bert_tf.configs.base import derived
from bert_tf.configs.model import LAYER_COMBINATIONS
from bert_tf.configs.task import TaskConfig
from bert_tf.configs.train import BatchConfig
from bert_tf.data import records
from bert_tf.errors import UserError, counted
from bert_tf.modeling.models import BertModel
from bert_tf.tasks.features.served import EncoderAnswers, encoder_servable
from bert_tf.tasks.streaming import StreamingPipeline, read_pairs
from bert_tf.tokenization.special_tokens import INPUTS
from bert_tf.training.task import ServedTask, TaskSpec

WORD_POOLINGS = ("first", "mean")

_SCHEMA = {name: records.PRETRAINING[name] for name in INPUTS}


@dataclasses.dataclass(frozen=True)
class TokenVectorsConfig(TaskConfig):
    """The config of `TokenVectors`.

    Attributes:
      layers: indices of the layers to return: 0 is the first, -1 the last.
      layer_combination: "embeddings", "second_to_last", "last", "weighted_sum_last_four",
        "concat_last_four" or "weighted_sum_all", which combines layers into one vector (BERT paper,
        table 7); overrides `layers`.
      layer_weights: weights of the layers in a weighted sum; None for equal weights.
      words: None for a vector per token, "first" for the vector of each word's first token, "mean"
        for the mean over each word's tokens.
    """

    layers: tuple[int, ...] = derived((-1,))
    layer_combination: str | None = derived(None)
    layer_weights: tuple[float, ...] | None = derived(None)
    words: str | None = derived(None)


def _make_model(config, dtype=None):
    return BertModel(config.bert_config, dtype)


SPEC = TaskSpec(
    name="encoder",
    config_class=TokenVectorsConfig,
    make_model=_make_model,
    make_servable=encoder_servable,
    served={"encoder": ServedTask(EncoderAnswers)},
)


class TextVectors(NamedTuple):
    """The vectors of one text.

    Attributes:
      tokens: list of T tokens or words.
      layers: list of L layer indices, or a list with the name of a layer combination (L is 1).
      values: array (T, L, W).
    """

    tokens: list
    layers: list
    values: np.ndarray


class TokenVectors(StreamingPipeline):
    """Computes a vector for each token or word, without training.

    >>> vectors = bert_tf.TokenVectors.from_preset(
    ...     "uncased_L-12_H-768_A-12", layer_combination="second_to_last"
    ... )
    >>> text = vectors.predict("a man ||| a plan")
    >>> text.tokens, text.values  # T tokens, array (T, L, W)

    `model` is a `BertModel`.
    """

    spec = SPEC
    config: TokenVectorsConfig

    def __init__(self, model: BertModel, config: TokenVectorsConfig):
        super().__init__(model, config)
        if config.words not in (None, *WORD_POOLINGS):
            raise UserError(f"`words={config.words}`: expected one of {', '.join(WORD_POOLINGS)}")
        num_layers = model.config.num_hidden_layers
        name = config.layer_combination
        self._layers: list = [name] if name else list(config.layers)
        if name:
            self._combine = _combination(name, config.layer_weights, num_layers)
        else:
            _check_layers(config.layers, num_layers)
            self._combine = functools.partial(_stack, layers=config.layers)

    def stream(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Iterator[TextVectors]:
        """Yield the `TextVectors` of each str of an iterable; " ||| " in it separates a pair.

        An iterator is read lazily. `batch_size` is the number of texts per step.
        """
        config: Any = self.config
        record_format = {"schema": _SCHEMA, "lengths": {"S": config.max_seq_length}}
        num_layers = 4 if config.layer_combination == "concat_last_four" else len(self._layers)
        size = 4 * config.max_seq_length * num_layers * config.bert_config.hidden_size

        def compute(outputs, batch):
            return {"values": self._combine(outputs)}

        rows = self._words(texts) if config.words else self._tokens(texts)
        results = self._run(compute, rows, record_format, batch_size, "reading texts", size)
        for (tokens, spans), arrays in results:
            values = arrays["values"]
            # Remove the padding.
            if config.words == "first":
                values = values[[start for start, _ in spans]]
            elif config.words == "mean":
                means = [values[start:end].mean(0) for start, end in spans]
                values = np.array(means, "float32").reshape(-1, *values.shape[1:])
            else:
                values = values[: len(tokens)].copy()
            yield TextVectors(tokens, self._layers, values)

    def _tokens(self, texts):
        """Yield ((tokens, None), features) for each text."""
        rows = ((None, *map(self.tokenizer.encode, pair)) for pair in read_pairs(texts))
        for _, features in self._pack(rows):
            ids = features["input_ids"][: sum(features["input_mask"])]
            yield (self.tokenizer.convert_ids_to_tokens(ids), None), features

    def _words(self, texts):
        """Yield ((words, spans of their tokens), features); words without tokens are left out."""
        num_empty = 0

        def encode():
            nonlocal num_empty
            for pair in read_pairs(texts):
                words = [text.split() for text in pair]
                ids = list(map(self.tokenizer.encode_batch, words))
                num_empty += sum(not x for x in itertools.chain(*ids))
                # The lists of `joined` are truncated.
                joined = [list(itertools.chain(*x)) for x in ids]
                yield (words, ids, joined), *joined

        for (words, ids, joined), features in self._pack(encode()):
            located, start = [], 1
            for names, parts, kept in zip(words, ids, joined, strict=True):
                located += _locate(names, parts, start, start + len(kept))
                start += len(kept) + 1
            yield ([word for word, *_ in located], [span for _, *span in located]), features
        if num_empty:
            console.warning(
                "%d words without tokens, such as invisible characters, were skipped", num_empty
            )


def _locate(words, ids, start, limit):
    """Return (word, start, end) for each word with tokens before the position `limit`."""
    located = []
    for word, parts in zip(words, ids, strict=True):
        end = min(start + len(parts), limit)
        if end > start:
            located.append((word, start, end))
        start = end
    return located


def _combination(name, layer_weights, num_layers):
    """Return a function from the outputs of `BertModel` to float32 (B, S, 1, W)."""
    if name not in LAYER_COMBINATIONS:
        raise UserError(
            f"`layer_combination={name}`: expected one of {', '.join(LAYER_COMBINATIONS)}"
        )
    layers = LAYER_COMBINATIONS[name]
    layers = range(num_layers) if layers is None else layers
    if layers and num_layers < -min(layers):
        raise UserError(
            f"`layer_combination={name}`: the model has {num_layers} layers, expected at least "
            f"{-min(layers)}"
        )
    if not layers:
        return lambda outputs: ops.cast(outputs["embedding_output"], "float32")[:, :, None]
    is_sum = name != "concat_last_four"
    weights = [1 / len(layers)] * len(layers) if layer_weights is None else list(layer_weights)
    if is_sum and len(weights) != len(layers):
        raise UserError(
            f"`layer_weights`: found {counted(len(weights), 'number')}, expected {len(layers)} for "
            f"`layer_combination={name}`"
        )

    def combine(outputs):
        values = _stack(outputs, layers)  # (B, S, L, H)
        if not is_sum:
            return ops.reshape(values, (*ops.shape(values)[:2], 1, 4 * values.shape[-1]))
        return ops.sum(values * ops.reshape(ops.array(weights, "float32"), (-1, 1)), 2)[:, :, None]

    return combine


def _stack(outputs, layers):
    """Stack layers of the outputs of `BertModel` as float32 (B, S, L, H)."""
    return ops.stack(
        [ops.cast(outputs["all_encoder_layers"][i], "float32") for i in layers], axis=2
    )


def _check_layers(layers, count):
    for layer in layers:
        if not -count <= layer < count:
            raise UserError(
                f"`layers`: found {layer}, expected numbers from 0 to {count - 1} or from -1 to "
                f"-{count}, because the model has {count} layers"
            )
