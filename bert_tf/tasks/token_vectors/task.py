"""`TokenVectors`: vectors of the tokens or words of texts, without training, and their files."""

import contextlib
import dataclasses
import itertools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import console
from bert_tf.configs.base import option
from bert_tf.configs.model import LAYER_COMBINATIONS
from bert_tf.configs.task import TaskConfig
from bert_tf.configs.train import BatchConfig
from bert_tf.data import records
from bert_tf.errors import UserError, counted
from bert_tf.io import files
from bert_tf.modeling.models import BertModel
from bert_tf.serving.exporting import Servable
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.streams import TextStream, check_layers, read_pairs
from bert_tf.tokenization.settings import INPUTS

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

    UNSAVED = ("layers", "layer_combination", "layer_weights", "words")

    layers: tuple[int, ...] = (-1,)
    layer_combination: str | None = option(None, None, choices=LAYER_COMBINATIONS)
    layer_weights: tuple[float, ...] | None = None
    words: str | None = option(None, None, choices=("first", "mean"))


def encoder_servable(model, config, serving_config):
    """Return a `BertModel` with a `TaskConfig` as a `Servable`.

    Text input: `text`. Outputs: `sequence_output` (B, S, H), `pooled_output` (B, H), and `tokens`,
    int32 (B, S), the token ids with [CLS] and [SEP], 0 for padding.
    """
    prepared = prepare_model(model, config, serving_config)

    def serve_ids(inputs):
        outputs = prepared.call(inputs)
        outputs = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
        outputs = {name: tf.cast(x, tf.float32) for name, x in outputs.items()}
        return {**outputs, "tokens": tf.identity(inputs["input_ids"])}

    def add_to_onnx(graph, inputs):
        x = graph.encode(inputs)
        return {"sequence_output": x, "pooled_output": graph.pool(x), "tokens": inputs["input_ids"]}

    serve_text = prepared.with_tokenizer(serve_ids, "text")
    return Servable(
        "encoder", prepared, serve_text, serve_ids, has_variable_width=True, add_to_onnx=add_to_onnx
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


class TokenVectors(TextStream):
    """Computes a vector for each token or word, without training.

    >>> vectors = bert_tf.TokenVectors.from_preset(
    ...     "uncased_L-12_H-768_A-12", layer_combination="second_to_last"
    ... )
    >>> text = vectors.predict("a man ||| a plan")
    >>> text.tokens, text.values  # T tokens, array (T, L, W)

    `model` is a `BertModel`.
    """

    name = "encoder"
    config_class = TokenVectorsConfig
    make_servable = staticmethod(encoder_servable)
    config: TokenVectorsConfig

    @staticmethod
    def make_model(config, dtype=None):
        return BertModel(config.bert_config, dtype=dtype)

    def __init__(self, model: BertModel, config: TokenVectorsConfig):
        super().__init__(model, config)
        count, name = model.config.num_hidden_layers, config.layer_combination
        layers = LAYER_COMBINATIONS[name] if name else config.layers
        self._indices = range(count) if layers is None else layers
        check_layers(f"layer_combination={name}" if name else "layers", self._indices, count)
        is_sum, weights = name not in (None, "embeddings", "concat_last_four"), config.layer_weights
        if is_sum and weights is not None and len(weights) != len(self._indices):
            expected = f"expected {len(self._indices)} for `layer_combination={name}`"
            raise UserError(f"`layer_weights`: found {counted(len(weights), 'number')}, {expected}")
        self._layers = [name] if name else list(config.layers)

    def stream(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Iterator[TextVectors]:
        """Yield the `TextVectors` of each str of an iterable; " ||| " in it separates a pair.

        An iterator is read lazily. `batch_size` is as in `BatchConfig`.
        """
        config = self.config
        num_layers = 4 if config.layer_combination == "concat_last_four" else len(self._layers)
        size = 4 * config.max_seq_length * num_layers * self.model.config.hidden_size

        rows = self._words(texts) if config.words else self._tokens(texts)
        results = self._run(self._values, rows, _SCHEMA, batch_size, "reading texts", size)
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

    def _values(self, outputs, batch):
        """Return the layers, or their combination, of the outputs of `BertModel`: (B, S, L, W)."""
        name = self.config.layer_combination
        layers = [outputs["all_encoder_layers"][i] for i in self._indices]
        layers = layers or [outputs["embedding_output"]]
        values = ops.stack([ops.cast(x, "float32") for x in layers], axis=2)
        if name == "concat_last_four":
            values = ops.reshape(values, (*ops.shape(values)[:2], 1, 4 * values.shape[-1]))
        elif name:
            weights = self.config.layer_weights or [1 / len(layers)] * len(layers)
            weights = ops.reshape(ops.array(weights, "float32"), (-1, 1))
            values = ops.sum(values * weights, 2, keepdims=True)
        return {"values": values}

    def _tokens(self, texts):
        """Yield ((tokens, None), features) for each text."""
        for features in self._pack_pairs(texts):
            yield (self.tokenizer.convert_ids_to_tokens(features["input_ids"]), None), features

    def _words(self, texts):
        """Yield ((words, spans of their tokens), features); words without tokens are left out."""
        num_empty = 0

        def encode():
            nonlocal num_empty
            for pair in read_pairs(texts):
                words = [text.split() for text in pair]
                ids = list(map(self.tokenizer.encode_batch, words))
                sizes = [list(map(len, x)) for x in ids]
                num_empty += sum(size == 0 for size in itertools.chain(*sizes))
                # The lists of `joined` are truncated.
                joined = [list(itertools.chain(*x)) for x in ids]
                yield (words, sizes, joined), *joined

        for (words, sizes, joined), features in self._pack(encode()):
            located, start = [], 1
            for names, counts, kept in zip(words, sizes, joined, strict=True):
                ends = (min(x, len(kept)) + start for x in itertools.accumulate(counts, initial=0))
                spans = zip(names, itertools.pairwise(ends), strict=True)
                located += [(word, span) for word, span in spans if span[0] < span[1]]
                start += len(kept) + 1
            yield ([word for word, _ in located], [span for _, span in located]), features
        if num_empty:
            message = "%d words without tokens, such as invisible characters, were skipped"
            console.warning(message, num_empty)


def json_line(index, text):
    """Return the `TextVectors` of line `index` as JSON like the release's, rounded to 6 digits."""
    # For float32 values this equals Python's round(), but it is many times faster.
    values = np.round(text.values.astype("float64"), 6).tolist()
    features = []
    for token, vectors in zip(text.tokens, values, strict=True):
        pairs = zip(text.layers, vectors, strict=True)
        layers = [{"index": layer, "values": vector} for layer, vector in pairs]
        features.append({"token": token, "layers": layers})
    return json.dumps({"linex_index": index, "features": features}) + "\n"


@contextlib.contextmanager
def array_writer(path, count, width):
    """Yield a function that writes one row (W,) of a NumPy file, float32 (`count`, `width`)."""
    header = {"descr": "<f4", "fortran_order": False, "shape": (count, width)}
    num_written = 0
    with files.replacing(path) as (temporary,):
        with files.open_file(temporary, "wb") as writer:
            np.lib.format.write_array_header_1_0(writer, header)

            def write(row):
                nonlocal num_written
                num_written += 1
                writer.write(row.astype("<f4").tobytes())

            yield write
        if num_written != count:
            found = f"found {num_written} rows, expected {count}"
            raise UserError(f"{path}: {found}; the input may have changed")
