"""What a pre-trained model puts in the place of masked words, and how likely it finds a sentence.

Letters of shapes: B batch, S sequence, P masked places, K best words, V vocabulary.
"""

import collections
import math
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.errors import UserError
from bert_tf.features.presets import files_of
from bert_tf.features.runner import Row, Runner
from bert_tf.features.texts import Text, TextRows, as_text
from bert_tf.modeling.models import BertPretrainer
from bert_tf.tasks.checks import check_length
from bert_tf.training import make_strategy

MASK = "[MASK]"
_MOST = 700.0  # of which e is still a number
_HEAD = "cls/predictions/"


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


class MaskedWords:
    """Guesses masked words.

    >>> words = bert_tf.MaskedWords.from_preset("uncased_L-12_H-768_A-12")
    >>> next(words.guess(["The capital of France is [MASK]."])).best
    >>> next(words.score(["The capital of France is Paris."])).perplexity
    """

    def __init__(
        self, model, tokenizer, num_best=5, strategy=None, batch_size=32, max_seq_length=128
    ):
        """Takes the model.

        Args:
          model: a `BertPretrainer`, made in the scope of `strategy`.
          tokenizer: a `FullTokenizer` that keeps special tokens.
          num_best: how many words to give for each masked one.
          strategy: a `tf.distribute.Strategy`, None for what there is.
          batch_size: the global batch.
          max_seq_length: the longest sequence; texts are cut to it.
        """
        check_length(max_seq_length, model.config)
        strategy = strategy or make_strategy()
        self._model, self._tokenizer = model, tokenizer
        self._max_seq_length = max_seq_length
        self._mask = tokenizer.vocab[MASK]
        self._num_best = min(num_best, model.config.vocab_size)
        sizes = strategy, batch_size, max_seq_length
        self._guesser = Runner(self._best, *sizes, 8 * num_best * max_seq_length)
        self._scorer = Runner(self._likelihood, *sizes)
        self.workers = self._guesser.workers

    @classmethod
    def from_preset(cls, preset, dtype=None, strategy=None, **options):
        """Makes it of a published name, or of a folder or checkpoint with a masked-LM head.

        Args:
          preset: as `features.files_of` takes it, or `features.ModelFiles`.
          dtype: a Keras dtype policy.
          strategy: a `tf.distribute.Strategy`, None for what there is.
          **options: for the constructor.

        Raises:
          UserError: if the head is missing; random weights would guess at random.
        """
        found = files_of(preset) if isinstance(preset, str) else preset
        config, tokenizer = found.open(keep_special_tokens=True)
        strategy = strategy or make_strategy()
        with strategy.scope():
            model = BertPretrainer(config, dtype=dtype)
        there = checkpoints.open_checkpoint(found.checkpoint).shapes
        missing = [name for name in checkpoints.weights(model)
                   if name.startswith(_HEAD) and name not in there]  # fmt: skip
        if missing:
            raise UserError(
                f"--init_checkpoint: {found.checkpoint} has no head for masked words, it lacks "
                f"{missing[0]}"
            )
        checkpoints.warm_start(model, found.checkpoint)
        return cls(model, tokenizer, strategy=strategy, **options)

    def guess(self, texts):
        """Yields `Guesses` for each of `texts`: `Text`s, or str with " ||| " in a pair."""
        rows = TextRows(self._tokenizer, self._max_seq_length)
        without = 0

        def masked():
            for index, text in enumerate(texts):
                row = rows.row(as_text(index, text))
                places = [i for i, token in enumerate(row.input_ids) if token == self._mask]
                # A text without any is run all the same, and what comes of it is left out.
                yield row._replace(more={"masked_lm_positions": places or [0]})

        for sequence, found in self._guesser.run(masked(), "guessing words"):
            ids = sequence.input_ids
            places = [i for i, token in enumerate(ids) if token == self._mask]
            without += not places
            count = len(places)
            best = [
                list(zip(self._words(words), map(float, probabilities), strict=True))
                for words, probabilities in zip(
                    found["ids"][:count], found["probabilities"][:count], strict=True
                )
            ]
            yield Guesses(sequence.text, self._words(ids), places, best)
        rows.report()
        if without:
            console.warning("%d texts have no %s in them, nothing was guessed", without, MASK)

    def score(self, texts):
        """Yields a `Score` for each of `texts`; its model runs once for each token."""
        rows = TextRows(self._tokenizer, self._max_seq_length)
        ends = set(self._tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"]))
        coming = collections.deque()

        def masked():
            for index, text in enumerate(texts):
                row = rows.row(as_text(index, text))
                ids = row.input_ids
                places = [i for i, token in enumerate(ids) if token not in ends]
                coming.append((row.item.text, len(places)))
                for i in places:
                    hidden = [*ids[:i], self._mask, *ids[i + 1 :]]
                    more = {"masked_lm_positions": [i], "masked_lm_ids": [ids[i]]}
                    yield Row(None, hidden, row.segment_ids, more)

        total = done = 0
        for _, found in self._scorer.run(masked(), "scoring", "tokens"):
            while not coming[0][1]:
                yield Score(*coming.popleft(), 0.0)
            total += float(found["log_probability"])
            done += 1
            if done == coming[0][1]:
                yield Score(*coming.popleft(), total)
                total = done = 0
        while coming:
            yield Score(*coming.popleft(), 0.0)
        rows.report()

    def _words(self, ids):
        """Tokens of ids; a row of the table that the vocabulary does not reach is told by number.

        Some tables are longer than their vocabulary, rounded up.
        """
        known = self._tokenizer.inv_vocab
        return [known.get(int(index), f"[id {index}]") for index in ids]

    def _log_probabilities(self, batch):
        """Of every word at the masked places: (B, P, V)."""
        inputs = {name: value for name, value in batch.items() if name != "masked_lm_ids"}
        logits = self._model(inputs, training=False)["masked_lm_logits"]
        return keras.ops.log_softmax(logits)

    def _best(self, batch):
        """The K likeliest words at each place, and their probabilities: (B, P, K)."""
        values, ids = tf.math.top_k(self._log_probabilities(batch), self._num_best)
        return {"ids": ids, "probabilities": tf.exp(values)}

    def _likelihood(self, batch):
        """Log-probability of the word that was masked: (B,)."""
        found = self._log_probabilities(batch)[:, 0]
        return {"log_probability": tf.gather(found, batch["masked_lm_ids"][:, 0], batch_dims=1)}
