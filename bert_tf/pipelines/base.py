"""What the classes of this room share: a pre-trained model, its tokenizer, and how it is run."""

from collections.abc import Callable
from typing import Any, TypeVar

import keras
import tensorflow as tf

from bert_tf import checkpoints
from bert_tf.modeling.models import BertModel
from bert_tf.pipelines.presets import ModelFiles, files_of
from bert_tf.pipelines.runner import Runner
from bert_tf.pipelines.texts import TextRows
from bert_tf.tasks.base import check_length
from bert_tf.tokenization import FullTokenizer
from bert_tf.training import make_strategy

_Made = TypeVar("_Made", bound="TextPipeline")


class TextPipeline:
    """What a model says of texts.

    Attributes:
      model: the model.
      tokenizer: a `FullTokenizer`.
      max_seq_length: the longest sequence.
    """

    # From a `BertConfig` and a `dtype`.
    make_model: Callable = BertModel
    # Whether "[MASK]" and its like in a text stand for the token.
    keep_special_tokens = False

    def __init__(
        self,
        model: keras.Model,
        tokenizer: FullTokenizer,
        strategy: tf.distribute.Strategy | None = None,
        batch_size: int = 32,
        max_seq_length: int = 128,
    ):
        """Takes the model.

        Args:
          model: what `make_model` makes, made in the scope of `strategy`.
          tokenizer: a `FullTokenizer`, made with `keep_special_tokens`.
          strategy: a `tf.distribute.Strategy` of one process, None for what there is.
          batch_size: the global batch.
          max_seq_length: the longest sequence; texts are cut to it.

        Raises:
          UserError: if the model cannot take such sequences.
        """
        check_length(max_seq_length, model.config)
        self.model, self.tokenizer, self.max_seq_length = model, tokenizer, max_seq_length
        self._strategy, self._batch_size = strategy or make_strategy(), batch_size

    @classmethod
    def from_preset(
        cls: type[_Made],
        preset: str | ModelFiles,
        dtype: str | None = None,
        strategy: tf.distribute.Strategy | None = None,
        **options: Any,
    ) -> _Made:
        """Makes it of a published name, or of a folder or checkpoint.

        Args:
          preset: as `features.files_of` takes it, or `features.ModelFiles`.
          dtype: a Keras dtype policy.
          strategy: a `tf.distribute.Strategy` of one process, None for what there is.
          **options: for the constructor.

        Raises:
          UserError: if a file is missing, or they do not fit together.
        """
        found = files_of(preset)
        config, tokenizer = found.open(cls.keep_special_tokens)
        strategy = strategy or make_strategy()
        with strategy.scope():
            model = cls.make_model(config, dtype=dtype)
        cls._check(model, found.checkpoint)
        checkpoints.warm_start(model, found.checkpoint)
        return cls(model, tokenizer, strategy=strategy, **options)

    @staticmethod
    def _check(model, checkpoint):
        """Raises UserError if the checkpoint lacks what `warm_start` would leave random."""

    def _make_runner(self, function, bytes_per_row=0, more_inputs=()):
        return Runner(
            function,
            self._strategy,
            self._batch_size,
            self.max_seq_length,
            bytes_per_row,
            more_inputs,
        )

    def _make_rows(self, with_words=False):
        return TextRows(self.tokenizer, self.max_seq_length, with_words)
