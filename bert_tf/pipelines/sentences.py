"""A vector for each sentence, from the token vectors of one layer.

Letters of shapes: B sentences, S sequence, H hidden.
"""

import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from keras import ops

from bert_tf import console
from bert_tf.checkpoints.metadata import read_json
from bert_tf.errors import UserError
from bert_tf.files import read_text
from bert_tf.modeling.models import BertModel
from bert_tf.pipelines.base import TextPipeline
from bert_tf.pipelines.presets import ModelFiles, files_of
from bert_tf.pipelines.texts import Text, check_several
from bert_tf.tokenization import FullTokenizer

POOLINGS = ("mean", "max", "cls")

# What a vector is divided by at least, so that one of zeros stays one.
_LEAST_NORM = 1e-12


class SentenceEncoder(TextPipeline):
    """Sentences to vectors.

    >>> encoder = bert_tf.SentenceEncoder.from_preset("uncased_L-12_H-768_A-12")
    >>> encoder.encode(["A man is eating.", "Somebody has dinner."])  # float32 (2, H)

    Attributes:
      pooling, layer, normalize: as they were given.
      width: H.
    """

    def __init__(
        self,
        model: BertModel,
        tokenizer: FullTokenizer,
        pooling: str = "mean",
        layer: int = -2,
        normalize: bool = False,
        **how: Any,
    ):
        """Takes what to make of which model.

        Args:
          model: a `BertModel`.
          tokenizer: a `FullTokenizer`.
          pooling: "mean" over the tokens, with [CLS] and [SEP]; their "max"; or "cls", the first.
          layer: of which layer, 0 for the lowest or -1 for the last.
          normalize: whether to give vectors the length 1.
          **how: `strategy`, `batch_size` and `max_seq_length`, as `TextPipeline` takes them.

        Raises:
          UserError: if the model has no such layer.
        """
        super().__init__(model, tokenizer, **how)
        depth = model.config.num_hidden_layers
        if pooling not in POOLINGS:
            raise UserError(f"`pooling`: {pooling!r} is not one of {', '.join(POOLINGS)}")
        if not -depth <= layer < depth:
            raise UserError(f"`layer`: there is no layer {layer}, the model has {depth}")
        self.pooling, self.layer, self.normalize = pooling, layer, normalize
        self.width = model.config.hidden_size
        self._runner = self._make_runner(
            lambda batch: {"vectors": self.vectors_of(batch)}, 4 * self.width
        )

    @classmethod
    def from_preset(  # type: ignore[override]
        cls, preset: str | ModelFiles, **options: Any
    ) -> "SentenceEncoder":
        """Makes it of a published name, or of a folder or checkpoint.

        A folder of sentence-transformers says itself how its vectors are made; what is not given
        here, or None, is as it says.

        Args:
          preset: as `features.files_of` takes it, or `features.ModelFiles`.
          **options: those of `TextPipeline.from_preset` and of the constructor.
        """
        path = files_of(preset).checkpoint
        given = {name: value for name, value in options.items() if value is not None}
        said = said_beside(path)
        taken = [f"{name}={said[name]}" for name in said if name not in given]
        if taken:
            console.info("as %s says: %s", path, ", ".join(taken))
        return super().from_preset(preset, **{**said, **given})

    def encode(self, sentences: Iterable[str]) -> np.ndarray:
        """Returns the vectors of `sentences`, a list of str, as float32 (B, H)."""
        rows = [vector for _, vector in self.stream(sentences)]
        return np.array(rows, "float32").reshape(-1, self.width)

    def stream(
        self, sentences: Iterable[str], what: str = "reading sentences"
    ) -> Iterator[tuple[str, np.ndarray]]:
        """Yields each of `sentences`, any number of str, and its vector (H,)."""
        rows = self._make_rows()
        check_several(sentences)
        texts = (Text(index, sentence, None) for index, sentence in enumerate(sentences))
        for sequence, found in self._runner.run(rows.of(texts), what, "sentences"):
            yield sequence.text.text_a, found["vectors"]
        rows.report()

    def vectors_of(self, batch):
        """The model's inputs (B, S) to vectors, float32 (B, H)."""
        layers = self.model(batch, training=False)["all_encoder_layers"]
        return self.pooled(layers, batch["input_mask"])

    def pooled(self, layers, input_mask):
        """All layers, each (B, S, H), and the mask (B, S) to vectors, float32 (B, H)."""
        x = ops.cast(layers[self.layer], "float32")
        mask = ops.expand_dims(ops.cast(input_mask, "float32"), 2)
        if self.pooling == "cls":
            x = x[:, 0]
        elif self.pooling == "max":
            x = ops.max(x - (1.0 - mask) * 1e30, axis=1)
        else:
            x = ops.sum(x * mask, axis=1) / ops.sum(mask, axis=1)
        if self.normalize:
            x = x / ops.maximum(ops.norm(x, axis=-1, keepdims=True), _LEAST_NORM)
        return x


def said_beside(path):
    """What a folder of sentence-transformers says of its vectors, as arguments of the class.

    Returns:
      Dict, empty for any other folder.

    Raises:
      UserError: if it does something to them that is not known here.
    """
    path = os.path.dirname(path) if path.endswith(".safetensors") else path
    modules = os.path.join(path, "modules.json")
    if not tf.io.gfile.exists(modules):
        return {}
    try:
        kinds = {module["type"].rpartition(".")[2]: module["path"]
                 for module in json.loads(read_text(modules))}  # fmt: skip
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(f"{modules}: a list of modules with type and path was expected") from None
    unknown = sorted(set(kinds) - {"Transformer", "Pooling", "Normalize"})
    if unknown:
        raise UserError(f"{modules}: the module {unknown[0]} is not known here")
    values = read_json(os.path.join(path, kinds.get("Pooling", "")), "config.json")
    wanted = [
        name for name, value in values.items() if name.startswith("pooling_") and value is True
    ]
    poolings = {f"pooling_mode_{name}": name for name in ("mean_tokens", "max_tokens", "cls_token")}
    if len(wanted) != 1 or wanted[0] not in poolings:
        raise UserError(f"{path}: its pooling, {', '.join(wanted)}, is not known here")
    said = {
        "pooling": poolings[wanted[0]].partition("_")[0],
        "layer": -1,
        "normalize": "Normalize" in kinds,
    }
    length = read_json(path, "sentence_bert_config.json").get("max_seq_length")
    return {**said, "max_seq_length": length} if length else said
