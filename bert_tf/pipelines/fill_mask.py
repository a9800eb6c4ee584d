"""What a pre-trained model puts in the place of masked words, and how likely it finds a sentence.

Letters of shapes: B batch, S sequence, P masked places, K best words, V vocabulary.
"""

import collections
import math
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import tensorflow as tf
from keras import ops

from bert_tf import checkpoints, console
from bert_tf.errors import UserError
from bert_tf.modeling.models import BertPretrainer
from bert_tf.pipelines.base import TextPipeline
from bert_tf.pipelines.runner import Row
from bert_tf.pipelines.texts import Text
from bert_tf.tokenization import FullTokenizer

MASK = "[MASK]"
_MOST = 700.0  # of which e is still a number
_HEAD = "cls/predictions/"
# Places whose probabilities of all words are held at once.
_PIECE = 64


class Guesses(NamedTuple):
    """What was guessed in a text.

    `text` is the `Text`; `tokens` its tokens with [CLS] and [SEP]; `places` where among them
    [MASK] stands; `best` for each of these the likeliest tokens, pairs of token and probability.
    """

    text: Text
    tokens: list
    places: list
    best: list


class Score(NamedTuple):
    """How likely a text is: the sum of its tokens' log-probabilities, each masked alone."""

    text: Text
    num_tokens: int
    log_probability: float

    @property
    def perplexity(self):
        """Pseudo-perplexity (Salazar et al., arXiv:1910.14659, section 3); NaN of no tokens."""
        return perplexity(self.num_tokens, self.log_probability)


def perplexity(num_tokens, log_probability):
    """Of so many tokens with that sum of log-probabilities; NaN of no tokens."""
    if not num_tokens:
        return math.nan
    loss = -log_probability / num_tokens
    return math.exp(loss) if loss < _MOST else math.inf


class FillMask(TextPipeline):
    """Guesses masked words.

    >>> words = bert_tf.FillMask.from_preset("uncased_L-12_H-768_A-12")
    >>> next(words.guess(["The capital of France is [MASK]."])).best
    >>> next(words.score(["The capital of France is Paris."])).perplexity
    """

    make_model = BertPretrainer
    keep_special_tokens = True

    def __init__(
        self, model: BertPretrainer, tokenizer: FullTokenizer, num_best: int = 5, **how: Any
    ):
        """Takes the model.

        Args:
          model: a `BertPretrainer`.
          tokenizer: a `FullTokenizer` that keeps special tokens.
          num_best: how many words to give for each masked one.
          **how: `strategy`, `batch_size` and `max_seq_length`, as `TextPipeline` takes them.

        Raises:
          UserError: if the model cannot take such sequences.
        """
        super().__init__(model, tokenizer, **how)
        self._encoder, self._head = model.get_layer("bert"), model.get_layer("masked_lm")
        self._mask = tokenizer.vocab[MASK]
        self._num_best = min(num_best, model.config.vocab_size)
        self._guesser = self._make_runner(
            self._best, 8 * self._num_best * self.max_seq_length, ("places",)
        )
        self._scorer = self._make_runner(self._likelihood, 4, ("places", "masked_ids"))

    @staticmethod
    def _check(model, checkpoint):
        there = checkpoints.open_checkpoint(checkpoint).shapes
        missing = [name for name in checkpoints.weights(model)
                   if name.startswith(_HEAD) and name not in there]  # fmt: skip
        if missing:
            raise UserError(
                f"`init_checkpoint`: {checkpoint} has no head for masked words, it lacks "
                f"{missing[0]}"
            )

    def guess(self, texts: Iterable[str | Text]) -> Iterator[Guesses]:
        """Yields `Guesses` for each of `texts`: `Text`s, or str with " ||| " in a pair."""
        rows = self._make_rows()
        without = 0

        def masked():
            for row in rows.of(texts):
                # A text without any is run all the same, and what comes of it is left out.
                yield row._replace(more={"places": self._places(row.input_ids) or [0]})

        for sequence, found in self._guesser.run(masked(), "guessing words"):
            places = self._places(sequence.input_ids)
            without += not places
            # What comes behind is padding.
            best = [
                list(zip(self._words(ids), map(float, probabilities), strict=True))
                for _, ids, probabilities in zip(
                    places, found["ids"], found["probabilities"], strict=False
                )
            ]
            yield Guesses(sequence.text, self._words(sequence.input_ids), places, best)
        rows.report()
        if without:
            console.warning("%d texts have no %s in them, nothing was guessed", without, MASK)

    def score(self, texts: Iterable[str | Text]) -> Iterator[Score]:
        """Yields a `Score` for each of `texts`; its model runs once for each token.

        A [MASK] that stands in a text stays one, and is not scored: there is no word to compare
        with. A warning counts them.
        """
        rows = self._make_rows()
        unscored = self.tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]", MASK])
        coming: collections.deque[tuple[Text, int]] = collections.deque()
        left_out = 0

        def masked():
            nonlocal left_out
            for row in rows.of(texts):
                ids = row.input_ids
                left_out += len(self._places(ids))
                places = [i for i, token in enumerate(ids) if token not in unscored]
                coming.append((row.item.text, len(places)))
                for i in places:
                    hidden = [*ids[:i], self._mask, *ids[i + 1 :]]
                    more = {"places": [i], "masked_ids": [ids[i]]}
                    yield Row(None, hidden, row.segment_ids, more)

        total, done = 0.0, 0
        for _, found in self._scorer.run(masked(), "scoring", "tokens"):
            while not coming[0][1]:
                yield Score(*coming.popleft(), 0.0)
            total += float(found["log_probability"])
            done += 1
            if done == coming[0][1]:
                yield Score(*coming.popleft(), total)
                total, done = 0.0, 0
        while coming:
            yield Score(*coming.popleft(), 0.0)
        rows.report()
        if left_out:
            console.warning("%d %s stood in the texts, they are not scored", left_out, MASK)

    def _places(self, ids):
        """Where among ids [MASK] stands."""
        return [i for i, token in enumerate(ids) if token == self._mask]

    def _words(self, ids):
        """Tokens of ids; a row of the table that the vocabulary does not reach is told by number.

        Some tables are longer than their vocabulary, rounded up.
        """
        known = self.tokenizer.inv_vocab
        return [known.get(int(index), f"[id {index}]") for index in ids]

    def _best(self, batch):
        """The K likeliest words at each place, and their probabilities: (B, P, K)."""

        def best(log_probabilities, _):
            values, ids = tf.math.top_k(log_probabilities, self._num_best)
            return {"ids": ids, "probabilities": tf.exp(values)}

        return self._of_places(batch, best, {"ids": tf.int32, "probabilities": tf.float32})

    def _likelihood(self, batch):
        """Log-probability of the word that was masked: (B,)."""

        def likelihood(log_probabilities, ids):
            return {"log_probability": tf.gather(log_probabilities, ids, batch_dims=1)}

        found = self._of_places(batch, likelihood, {"log_probability": tf.float32})
        return {name: values[:, 0] for name, values in found.items()}

    def _of_places(self, batch, function, types):
        """What a function says of the log-probabilities of all words at the places asked for.

        Those of all places of a batch at once could take more memory than there is.

        Args:
          batch: with `places` (B, P), and `masked_ids` (B, P) if the function wants them.
          function: from float32 (_PIECE, V) and int32 (_PIECE,) to a dict of tensors (_PIECE, ...).
          types: dict from its names to what they are.

        Returns:
          Dict of tensors (B, P, ...).
        """
        batch = dict(batch)
        places = batch.pop("places")
        ids = batch.pop("masked_ids", places)
        x = self._encoder(batch, training=False)["sequence_output"]
        x = tf.gather(x, places, batch_dims=1)  # (B, P, H)
        rows, per_row = ops.shape(x)[:2]
        count = rows * per_row
        filling = -count % _PIECE
        x = tf.pad(tf.reshape(x, (count, x.shape[-1])), [[0, filling], [0, 0]])
        ids = tf.pad(tf.reshape(ids, (count,)), [[0, filling]])

        def of_piece(piece):
            logits = self._head(piece[0][None], tf.range(_PIECE)[None])[0]
            return function(tf.nn.log_softmax(logits), piece[1])

        pieces = tf.reshape(x, (-1, _PIECE, x.shape[-1])), tf.reshape(ids, (-1, _PIECE))
        found = tf.map_fn(of_piece, pieces, fn_output_signature=types, parallel_iterations=1)
        return {
            name: tf.reshape(
                tf.reshape(value, (count + filling, *value.shape[2:]))[:count],
                (rows, per_row, *value.shape[2:]),
            )
            for name, value in found.items()
        }
