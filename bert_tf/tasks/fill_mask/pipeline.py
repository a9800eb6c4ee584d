"""Prediction of masked tokens, and the pseudo-perplexity of texts.

Shapes: B batch, S sequence, H hidden, P masked positions, K best tokens, V vocabulary.
"""

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from bert_tf import checkpoints, console
from bert_tf.errors import UserError
from bert_tf.modeling.models import BertPretrainer
from bert_tf.pipelines.saving import write_pretrained
from bert_tf.pipelines.text_pipeline import Text, TextPipeline
from bert_tf.tasks.fill_mask.servable import fill_mask_servable
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.special_tokens import CLS, MASK, SEP
from bert_tf.tokenization.vocabulary import mask_id

# Prefix of the weights of the masked-LM head.
_HEAD = "cls/predictions/"
# math.exp overflows shortly above this value.
_MAX_EXPONENT = 700.0
# Number of positions whose probabilities (V each) are in memory at a time.
_CHUNK_SIZE = 64


class MaskPredictions(NamedTuple):
    """The predictions for the [MASK] tokens of a text.

    Attributes:
      text: the `Text`.
      tokens: list of its tokens, including [CLS] and [SEP].
      positions: indices of [MASK] in `tokens`.
      best: for each position a list of pairs (token, probability), the most probable first.
    """

    text: Text
    tokens: list
    positions: list
    best: list


class Score(NamedTuple):
    """The pseudo-log-likelihood of a text.

    Attributes:
      text: the `Text`.
      num_tokens: number of tokens that were scored.
      log_probability: sum of their log-probabilities, each with only that token masked.
    """

    text: Text
    num_tokens: int
    log_probability: float

    @property
    def perplexity(self):
        """Pseudo-perplexity (Salazar et al., arXiv:1910.14659, section 3); NaN without tokens."""
        return perplexity(self.num_tokens, self.log_probability)


def perplexity(num_tokens, log_probability):
    """Return e to the mean negative log-probability of the tokens; NaN without tokens."""
    if not num_tokens:
        return math.nan
    loss = -log_probability / num_tokens
    return math.exp(loss) if loss < _MAX_EXPONENT else math.inf


class FillMask(TextPipeline):
    """Predicts masked tokens, and scores texts by masking each token in turn.

    >>> fill_mask = bert_tf.FillMask.from_preset("uncased_L-12_H-768_A-12")
    >>> next(fill_mask.predict(["The capital of France is [MASK]."])).best
    >>> next(fill_mask.score(["The capital of France is Paris."])).perplexity

    `save_to_preset` writes a Hugging Face folder.
    """

    make_model = BertPretrainer
    keep_special_tokens = True

    def __init__(
        self, model: BertPretrainer, tokenizer: FullTokenizer, num_best: int = 5, **options: Any
    ):
        """Create the pipeline.

        Args:
          model: a `BertPretrainer`.
          tokenizer: a `FullTokenizer` that keeps special tokens.
          num_best: number of tokens to return for each [MASK].
          **options: `strategy`, `batch_size` and `max_seq_length`, as in `TextPipeline`.
        """
        super().__init__(model, tokenizer, **options)
        self._encoder, self._head = model.get_layer("bert"), model.get_layer("masked_lm")
        self._mask_id = mask_id(tokenizer.vocab)
        self._num_best = min(num_best, model.config.vocab_size)
        self._predict_runner = self._make_runner(
            self._compute_best, 8 * self._num_best * self.max_seq_length, ("positions",)
        )
        self._score_runner = self._make_runner(
            self._compute_log_probability, 4, ("positions", "masked_ids")
        )

    @staticmethod
    def _check_checkpoint(model, checkpoint):
        names = checkpoints.open_checkpoint(checkpoint).shapes
        missing = [name for name in checkpoints.weights(model)
                   if name.startswith(_HEAD) and name not in names]  # fmt: skip
        if missing:
            raise UserError(
                f"`init_checkpoint`: {checkpoint} has no masked-LM head; {missing[0]} is missing"
            )

    def predict(self, texts: Iterable[str | Text]) -> Iterator[MaskPredictions]:
        """Yield the `MaskPredictions` of texts, each a `Text` or a str with " ||| " in a pair."""
        num_unmasked = 0

        def sequences():
            for encoded in self._encode(texts):
                # A text without [MASK] is run with a dummy position, whose output is dropped.
                positions = self._mask_positions(encoded) or [0]
                yield encoded._replace(extra_inputs={"positions": positions})

        for encoded, arrays in self._predict_runner.run(sequences(), "predicting words"):
            positions = self._mask_positions(encoded)
            num_unmasked += not positions
            # The rows after the last position are padding.
            best = [
                list(zip(self._tokens(ids), map(float, probabilities), strict=True))
                for _, ids, probabilities in zip(
                    positions, arrays["ids"], arrays["probabilities"], strict=False
                )
            ]
            yield MaskPredictions(encoded.text, self._tokens(encoded.input_ids), positions, best)
        if num_unmasked:
            console.warning("%d texts contain no %s and have no predictions", num_unmasked, MASK)

    def _write_preset(self, folder):
        tensors = checkpoints.tensors(self.model)
        write_pretrained(folder, tensors, self.model.config, self.tokenizer)

    def _servable(self, options):
        return fill_mask_servable(
            self.model, self.tokenizer, self.max_seq_length, options, self._num_best
        )

    def score(self, texts: Iterable[str | Text]) -> Iterator[Score]:
        """Yield a `Score` for each text; the model runs once per token.

        A [MASK] in a text stays masked and is not scored, because the original token is unknown; a
        warning reports their number.
        """
        unscored = self.tokenizer.convert_tokens_to_ids([CLS, SEP, MASK])

        def scored_positions(encoded):
            return [i for i, token in enumerate(encoded.input_ids) if token not in unscored]

        def sequences(texts):
            """Yield each text once for each of its scored tokens, with that token masked."""
            for encoded in texts:
                for i in scored_positions(encoded):
                    ids = encoded.input_ids
                    yield encoded._replace(
                        input_ids=[*ids[:i], self._mask_id, *ids[i + 1 :]],
                        extra_inputs={"positions": [i], "masked_ids": [ids[i]]},
                    )

        encoded_texts, sources = itertools.tee(self._encode(texts))
        results = self._score_runner.run(sequences(sources), "scoring", "tokens")
        num_masks = 0
        for encoded in encoded_texts:
            num_masks += len(self._mask_positions(encoded))
            count = len(scored_positions(encoded))
            tokens = itertools.islice(results, count)
            total = sum((float(arrays["log_probability"]) for _, arrays in tokens), 0.0)
            yield Score(encoded.text, count, total)
        next(results, None)  # ends the progress line
        if num_masks:
            console.warning("the texts contain %d %s, which are not scored", num_masks, MASK)

    def _mask_positions(self, encoded):
        return [i for i, token in enumerate(encoded.input_ids) if token == self._mask_id]

    def _tokens(self, ids):
        """Return the tokens of ids.

        An embedding table may have more rows than the vocabulary, because its size is rounded up;
        such a row is shown by its number.
        """
        inv_vocab = self.tokenizer.inv_vocab
        return [inv_vocab.get(int(index), f"[id {index}]") for index in ids]

    def _compute_best(self, batch):
        """Return the K most probable tokens and their probabilities, (B, P, K), for a batch."""

        def best(log_probabilities, _):
            values, ids = tf.math.top_k(log_probabilities, self._num_best)
            return {"ids": ids, "probabilities": tf.exp(values)}

        return self._map_positions(batch, best, {"ids": tf.int32, "probabilities": tf.float32})

    def _compute_log_probability(self, batch):
        """Return the log-probability of the masked token, (B,), for a batch."""

        def select(log_probabilities, ids):
            return {"log_probability": tf.gather(log_probabilities, ids, batch_dims=1)}

        outputs = self._map_positions(batch, select, {"log_probability": tf.float32})
        return {name: values[:, 0] for name, values in outputs.items()}

    def _map_positions(self, batch, function, dtypes):
        """Apply a function to the log-probabilities of all tokens at `positions`.

        It is applied to chunks of positions: the log-probabilities of a whole batch may not fit in
        memory.

        Args:
          batch: inputs of the model, `positions` (B, P) and optionally `masked_ids` (B, P).
          function: function from float32 (_CHUNK_SIZE, V) and int32 (_CHUNK_SIZE,) to a dict of
            tensors (_CHUNK_SIZE, ...).
          dtypes: dict from the names of these tensors to their types.

        Returns:
          Dict of tensors (B, P, ...).
        """
        batch = dict(batch)
        positions = batch.pop("positions")
        ids = batch.pop("masked_ids", positions)
        x = self._encoder(batch, training=False, positions=positions)["sequence_output"]
        rows, per_row = ops.shape(x)[:2]
        count = rows * per_row
        padding = -count % _CHUNK_SIZE
        x = tf.pad(tf.reshape(x, (count, x.shape[-1])), [[0, padding], [0, 0]])
        ids = tf.pad(tf.reshape(ids, (count,)), [[0, padding]])

        def map_chunk(chunk):
            logits = self._head(chunk[0][None])[0]
            return function(tf.nn.log_softmax(logits), chunk[1])

        chunks = tf.reshape(x, (-1, _CHUNK_SIZE, x.shape[-1])), tf.reshape(ids, (-1, _CHUNK_SIZE))
        outputs = tf.map_fn(map_chunk, chunks, fn_output_signature=dtypes, parallel_iterations=1)
        outputs = {
            name: tf.reshape(value, (count + padding, *value.shape[2:]))[:count]
            for name, value in outputs.items()
        }
        return {
            name: tf.reshape(value, (rows, per_row, *value.shape[1:]))
            for name, value in outputs.items()
        }
