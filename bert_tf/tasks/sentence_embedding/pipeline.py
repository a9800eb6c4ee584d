"""Sentence vectors and the search for nearest neighbors among them.

Shapes: B sentences, S sequence, H hidden, Q queries, N vectors, K neighbors.
"""

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import checkpoints, console
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.checkpoints.metadata import folder_of, read_json
from bert_tf.configs.model import BertConfig
from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.modeling.models import BertModel, first_position
from bert_tf.pipelines.saving import write_pretrained
from bert_tf.pipelines.text_pipeline import Text, TextPipeline, check_collection
from bert_tf.tasks.sentence_embedding.servable import sentence_embedding_servable
from bert_tf.tokenization import FullTokenizer

# The poolings, and the setting of a sentence-transformers folder that turns each of them on.
POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
}

# The package of the modules that a sentence-transformers folder names.
_MODULES = "sentence_transformers.models"

# Lower bound of the norm that a vector is divided by, so that a zero vector stays zero.
_MIN_NORM = 1e-12

# Number of vectors that `NearestNeighbors` compares at once.
_BLOCK_SIZE = 1024


class SentenceEncoder(TextPipeline):
    """Converts sentences to vectors, from the token vectors of one layer.

    >>> encoder = bert_tf.SentenceEncoder.from_preset("uncased_L-12_H-768_A-12")
    >>> encoder.encode(["A man is eating.", "Somebody has dinner."])  # float32 (2, H)

    `save_to_preset` writes a sentence-transformers folder, without the layers above `layer`.

    Attributes:
      pooling, layer, normalize: the arguments of the constructor.
      width: H.
    """

    def __init__(
        self,
        model: BertModel,
        tokenizer: FullTokenizer,
        pooling: str = "mean",
        layer: int = -2,
        normalize: bool = False,
        **options: Any,
    ):
        """Create the pipeline.

        Args:
          model: a `BertModel`.
          tokenizer: a `FullTokenizer`.
          pooling: "mean" or "max" over the tokens, including [CLS] and [SEP]; or "cls" for the
            vector of the first token.
          layer: number of the layer, 0 for the lowest or -1 for the last.
          normalize: whether to scale vectors to length 1.
          **options: `strategy`, `batch_size` and `max_seq_length`, as in `TextPipeline`.
        """
        super().__init__(model, tokenizer, **options)
        num_layers = model.config.num_hidden_layers
        if pooling not in POOLINGS:
            raise UserError(f"`pooling`: {pooling!r} is not one of {', '.join(POOLINGS)}")
        if not -num_layers <= layer < num_layers:
            raise UserError(f"`layer={layer}` does not exist; the model has {num_layers} layers")
        self.pooling, self.layer, self.normalize = pooling, layer, normalize
        self.width = model.config.hidden_size
        self._runner = self._make_runner(
            lambda batch: {"vectors": self.compute(self.model, batch)}, 4 * self.width
        )

    @classmethod
    def from_preset(  # type: ignore[override]
        cls, preset: str | PretrainedFiles, **options: Any
    ) -> "SentenceEncoder":
        """Create a pipeline as `TextPipeline.from_preset` does.

        The settings of a sentence-transformers folder apply to options that are None or not given.
        """
        model_files = checkpoints.resolve(preset)
        path = model_files.checkpoint
        given = {name: value for name, value in options.items() if value is not None}
        defaults = sentence_transformers_options(path, given.get("pooling"))
        used = [f"{name}={value}" for name, value in defaults.items() if name not in given]
        if used:
            console.info("from the settings in %s: %s", path, ", ".join(used))
        return super().from_preset(model_files, **{**defaults, **given})

    def encode(self, sentences: Iterable[str]) -> np.ndarray:
        """Return the vectors of an iterable of str as float32 (B, H)."""
        rows = [vector for _, vector in self.stream(sentences)]
        return np.array(rows, "float32").reshape(-1, self.width)

    def predict(self, texts: Iterable[str]) -> np.ndarray:
        """Call `encode`; all pipelines have a method of this name."""
        return self.encode(texts)

    def _write_preset(self, folder):
        config = self.model.config
        num_layers = self.layer % config.num_hidden_layers + 1
        unused = [f"bert/encoder/layer_{i}/" for i in range(num_layers, config.num_hidden_layers)]
        tensors = {
            name: value
            for name, value in checkpoints.tensors(self.model).items()
            if not name.startswith(tuple(unused))
        }
        config = BertConfig.from_dict({**config.to_dict(), "num_hidden_layers": num_layers})
        modules = [("Transformer", ""), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
        pooling = {setting: self.pooling == name for name, setting in POOLINGS.items()}
        values = {
            "modules.json": [
                {"idx": i, "name": str(i), "path": path, "type": f"{_MODULES}.{name}"}
                for i, (name, path) in enumerate(modules[: 3 if self.normalize else 2])
            ],
            "sentence_bert_config.json": {
                "max_seq_length": self.max_seq_length,
                "do_lower_case": False,
            },
            "1_Pooling/config.json": {"word_embedding_dimension": self.width, **pooling},
        }
        write_pretrained(folder, tensors, config, self.tokenizer)
        for name, value in values.items():
            files.write_text(os.path.join(folder, name), json.dumps(value, indent=2) + "\n")

    def _servable(self, options):
        return sentence_embedding_servable(self, options)

    def stream(
        self, sentences: Iterable[str], description: str = "reading sentences"
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yield each sentence and its vector (H,); the sentences are read as needed."""
        rows = enumerate(check_collection(sentences))
        texts = (Text(index, sentence, None) for index, sentence in rows)
        for encoded, arrays in self._runner.run(self._encode(texts), description, "sentences"):
            yield encoded.text.text_a, arrays["vectors"]

    def compute(self, model, batch):
        """Return the sentence vectors, float32 (B, H), of a batch of inputs of a `BertModel`."""
        if self.pooling == "cls" and self.layer in (-1, self.model.config.num_hidden_layers - 1):
            first = first_position(batch)
            x = model(batch, training=False, positions=first)["sequence_output"]
        else:
            x = model(batch, training=False)["all_encoder_layers"][self.layer]
        x = ops.cast(x, "float32")
        mask = ops.expand_dims(ops.cast(batch["input_mask"], "float32"), 2)
        if self.pooling == "cls":
            x = x[:, 0]
        elif self.pooling == "max":
            x = ops.max(x - (1.0 - mask) * 1e30, axis=1)
        else:
            x = ops.sum(x * mask, axis=1) / ops.sum(mask, axis=1)
        if self.normalize:
            x = x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), _MIN_NORM)
        return x


class _Module(NamedTuple):
    """A module of a sentence-transformers folder, in its modules.json."""

    type: str
    path: str


def sentence_transformers_options(path, pooling=None):
    """Return the settings of a sentence-transformers folder as arguments of `SentenceEncoder`.

    The dict is empty for any other folder. `path` is a folder or a file in it. `pooling` is used
    instead of that of the folder.

    Raises:
      UserError: if the folder uses a module or a pooling that is not supported.
    """
    folder = folder_of(path)
    modules_file = os.path.join(folder, "modules.json")
    if not tf.io.gfile.exists(modules_file):
        return {}
    modules = {
        module["type"].rpartition(".")[2]: module["path"]
        for module in json_files.read(modules_file, list[_Module], "sentence-transformers")
    }
    unsupported = sorted(set(modules) - {"Transformer", "Pooling", "Normalize"})
    if unsupported:
        raise UserError(
            f"{modules_file}: module {unsupported[0]} is not supported; expected only Transformer, "
            "Pooling and Normalize"
        )
    recorded, problem = _read_pooling(folder, modules)
    if pooling is None and problem:
        raise UserError(f"{problem}; `pooling` overrides it")
    if pooling not in (None, recorded):
        console.info("`pooling=%s` as given; %s", pooling, problem or f"{folder} has {recorded}")
    options = {"pooling": pooling or recorded, "layer": -1, "normalize": "Normalize" in modules}
    length = read_json(folder, "sentence_bert_config.json").get("max_seq_length")
    return {**options, "max_seq_length": length} if length else options


def _read_pooling(folder, modules):
    """Return (pooling, None), or (None, what is wrong), for the modules of a folder."""
    if "Pooling" not in modules:
        return "mean", None  # what sentence-transformers adds to a plain model
    path = os.path.join(folder, modules["Pooling"], "config.json")
    if not tf.io.gfile.exists(path):
        return None, f"{path} does not exist, although modules.json lists it"
    settings = read_json(folder, os.path.join(modules["Pooling"], "config.json"))
    modes = [x for x, value in settings.items() if x.startswith("pooling_") and value is True]
    for name, setting in POOLINGS.items():
        if modes == [setting]:
            return name, None
    expected = ", ".join(POOLINGS.values())
    found = ", ".join(modes) or "none"
    return None, f"{folder}: pooling {found} is not supported; expected one of {expected}"


def l2_normalize(vectors):
    """Return vectors (..., H) as float32, scaled to length 1; zero vectors stay zero."""
    vectors = np.asarray(vectors, "float32")
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), _MIN_NORM)


def nearest_neighbors(queries, vectors, count=5):
    """Find the vectors with the greatest cosine similarity to each query.

    Args:
      queries: normalized vectors (Q, H).
      vectors: normalized vectors (N, H).
      count: K, the number of neighbors.

    Returns:
      For each query a list of at most K pairs (index, cosine), the nearest first; ties are in the
      order of the indices.
    """
    similarities = queries @ vectors.T  # (Q, N)
    order = np.argsort(-similarities, axis=-1, kind="stable")[:, :count]
    return [
        [(int(i), float(row[i])) for i in best]
        for row, best in zip(similarities, order, strict=True)
    ]


class Neighbor(NamedTuple):
    """A neighbor of a query.

    Attributes:
      index: number of the vector, from 0.
      similarity: cosine of the vector and the query.
      item: the object that was added with the vector.
    """

    index: int  # type: ignore[assignment]
    similarity: float
    item: object


class NearestNeighbors:
    """Finds the nearest neighbors of queries in a stream of vectors, by cosine similarity.

    Unlike `sklearn.neighbors.NearestNeighbors`, it does not hold the vectors in memory.

    >>> neighbors = NearestNeighbors(queries, count=5)
    >>> for sentence, vector in encoder.stream(sentences):
    ...     neighbors.add(vector, sentence)
    >>> neighbors.results()  # for each query a list of `Neighbor`, the nearest first
    """

    def __init__(self, queries, count=5):
        """Start a search for the `count` nearest neighbors of each of `queries` (Q, H)."""
        self._queries = l2_normalize(queries)
        self._count = count
        self._best = [[] for _ in self._queries]
        self._pending = []
        self._num_added = 0

    def add(self, vector, item=None):
        """Add a vector (H,) and an object that identifies it."""
        self._pending.append((self._num_added, vector, item))
        self._num_added += 1
        if len(self._pending) >= _BLOCK_SIZE:
            self._compare()

    def results(self):
        """Return for each query a list of at most `count` `Neighbor`s, the nearest first."""
        self._compare()
        return self._best

    def _compare(self):
        if not self._pending:
            return
        numbers, vectors, items = zip(*self._pending, strict=True)
        block = nearest_neighbors(self._queries, l2_normalize(vectors), self._count)
        for row, pairs in enumerate(block):
            new = [Neighbor(numbers[i], similarity, items[i]) for i, similarity in pairs]
            # The sort is stable, so ties stay in the order in which they were added.
            best = sorted(self._best[row] + new, key=lambda x: -x.similarity)
            self._best[row] = best[: self._count]
        self._pending = []
