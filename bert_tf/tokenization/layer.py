"""The tokenizer as a Keras layer."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.tokenization.graph import GraphTokenizer
from bert_tf.tokenization.settings import (
    EXTRA_SETTINGS,
    INPUTS,
    REQUIRED_TOKENS,
    SHORTEST,
    resolve_settings,
)
from bert_tf.tokenization.vocabulary import load_vocab
from bert_tf.tokenization.wordpiece import PresetTokenizer


@keras.saving.register_keras_serializable("bert_tf")
class BertTokenizer(PresetTokenizer, keras.layers.Layer):
    """Keras layer that converts strings to the inputs of a BERT model.

    It returns the same ids as `FullTokenizer` for every string, and works eagerly, in `tf.data`, on
    `keras.Input` and in exported models. The vocabulary is stored in the config of the model.
    Requires tensorflow-text.

    >>> tokenizer = bert_tf.BertTokenizer("vocab.txt", max_seq_length=6)
    >>> tokenizer("a b")["input_ids"].numpy().tolist()
    [2, 5, 6, 3, 0, 0]
    >>> tokenizer(["a b", "c"], ["d", ""])["segment_ids"].numpy().tolist()
    [[0, 0, 0, 0, 1, 1], [0, 0, 0, 0, 0, 0]]

    A model that takes strings:

    >>> texts = keras.Input((), dtype="string")
    >>> encoder = bert_tf.BertModel(bert_tf.BertConfig(vocab_size=20, num_hidden_layers=1))
    >>> model = keras.Model(texts, encoder(tokenizer(texts))["pooled_output"])
    >>> model(tf.constant(["a b", "c"])).shape
    TensorShape([2, 768])

    Call arguments:
      texts: strings of shape (B,), (B, 1) or ().
      pairs: optional second texts of the same shape; "" for no second text.

    Returns a dict of int32 (B, S), or (S,) for a scalar: `input_ids`, `input_mask`, `segment_ids`.

    Attributes:
      vocab: read-only mapping from piece to id.
    """

    saved_options = ("max_seq_length",)

    def __init__(
        self,
        vocabulary: str | Mapping[str, int] | Sequence[str | None],
        do_lower_case: bool | None = None,
        max_seq_length: int = 128,
        pad_to_longest: bool = False,
        keep_special_tokens: bool = False,
        **kwargs: Any,
    ):
        """Create the layer.

        Args:
          vocabulary: path of a vocabulary file, a mapping from piece to id, or a sequence of pieces
            in the order of their ids, with None for unused ids.
          do_lower_case: whether to lower-case the text, as in `FullTokenizer`.
          max_seq_length: maximum sequence length, in tokens; longer texts are truncated.
          pad_to_longest: whether to pad to the longest text of a batch, not to `max_seq_length`.
          keep_special_tokens: whether to keep "[MASK]" and other special tokens in a text.
          **kwargs: `strip_accents`, `tokenize_chinese_chars` and `max_input_chars_per_word` as in
            `FullTokenizer`, and arguments of a Keras layer.

        Raises:
          UserError: if `vocabulary` is not a vocabulary, `max_seq_length` is too small or
            tensorflow-text is not installed.
        """
        extra = {name: kwargs.pop(name, None) for name in EXTRA_SETTINGS}
        super().__init__(**kwargs)
        if max_seq_length < SHORTEST:
            raise UserError(f"`max_seq_length={max_seq_length}`: expected at least {SHORTEST}")
        vocabulary = os.fspath(vocabulary) if isinstance(vocabulary, os.PathLike) else vocabulary
        settings = resolve_settings(vocabulary, do_lower_case=do_lower_case, **extra)
        self.graph_tokenizer = GraphTokenizer(
            _read_vocabulary(vocabulary), keep_special_tokens=keep_special_tokens, **settings
        )
        self.vocab = self.graph_tokenizer.vocab
        self.do_lower_case, self.max_seq_length = settings["do_lower_case"], max_seq_length
        self.pad_to_longest, self.keep_special_tokens = pad_to_longest, keep_special_tokens
        # Keras must not convert strings to the dtype of the layer.
        self._convert_input_args = False
        self._allow_non_tensor_positional_args = True
        self.supports_jit = False

    def __call__(self, texts, pairs=None, **kwargs):
        # Not in `call`, where Keras would add lines to the error message.
        texts = _to_strings(texts, "texts")
        pairs = None if pairs is None else _to_strings(pairs, "pairs")
        a, b = (tf.TensorShape(x.shape)[:1] for x in (texts, texts if pairs is None else pairs))
        if not a.is_compatible_with(b):
            raise UserError(f"`texts` and `pairs`: found {a[0]} and {b[0]} items")
        return super().__call__(texts, pairs, **kwargs)

    def call(self, texts, pairs=None):
        columns = [texts] if pairs is None else [texts, pairs]
        flat = [tf.reshape(column, (-1,)) for column in columns]
        options = {"pad_to_longest": self.pad_to_longest}
        batch = self.graph_tokenizer(*flat, max_seq_length=self.max_seq_length, **options)
        return {name: x[0] for name, x in batch.items()} if texts.shape.rank == 0 else batch

    def compute_output_spec(self, texts, pairs=None):
        shape = (*texts.shape[:1], None if self.pad_to_longest else self.max_seq_length)
        return {name: keras.KerasTensor(shape, "int32", name=name) for name in INPUTS}

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary": self.get_vocabulary(),
            **self.graph_tokenizer.settings,
            "max_seq_length": self.max_seq_length,
            "pad_to_longest": self.pad_to_longest,
            "keep_special_tokens": self.keep_special_tokens,
        }


def _read_vocabulary(vocabulary):
    if isinstance(vocabulary, str):
        return load_vocab(vocabulary)
    if not isinstance(vocabulary, Mapping):
        vocabulary = {piece: index for index, piece in enumerate(vocabulary) if piece is not None}
    if missing := [token for token in REQUIRED_TOKENS if token not in vocabulary]:
        raise UserError(f"`vocabulary`: expected also the tokens {', '.join(missing)}")
    return vocabulary


def _to_strings(texts, argument):
    """Convert strings of shape (), (B,) or (B, 1) to a tensor; a `KerasTensor` stays one."""
    if not (tf.is_tensor(texts) or keras.utils.is_keras_tensor(texts)):
        texts = tf.convert_to_tensor(texts, tf.string)
    if texts.dtype != "string":
        raise UserError(f"`{argument}`: found {texts.dtype}, expected strings")
    rank = len(texts.shape) if isinstance(texts.shape, tuple) else texts.shape.rank
    if rank is not None and rank > 1 and (rank > 2 or texts.shape[1] != 1):
        found = f"found the shape {tuple(texts.shape)}, expected (batch size,)"
        advice = "pass the second texts of pairs as the argument `pairs`"
        raise UserError(f"`{argument}`: {found}; {advice}")
    return texts
