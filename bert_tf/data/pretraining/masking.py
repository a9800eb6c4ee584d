"""Which tokens of an instance are masked, and what stands for them."""

from bisect import bisect_left
from itertools import accumulate

import numpy as np

from bert_tf.errors import UserError

# A masked position that shows its own token.
KEEP = -1
# What the position of a mask is multiplied by, beside what is shown there; so small that both are
# one digit of Python's numbers in sequences of up to 1024.
_BITS = 20
_POSITION = 1 << _BITS


class Masker:
    """Draws the masks of one instance after another."""

    def __init__(self, corpus, vocab, settings):
        """Takes a `Corpus`, a dict from piece to id, and `Settings`."""
        self._settings = settings
        if max(vocab.values()) + 1 >= _POSITION:
            raise UserError(f"`vocab_file`: ids must be less than {_POSITION - 1}")
        self._mask_shown = vocab["[MASK]"] + 1
        self._shown = [index + 1 for index in vocab.values()]
        self._singles = list(range(settings.max_seq_length))
        self._is_plain = not settings.do_whole_word_mask and settings.max_ngram == 1
        # How many to mask, by the length.
        self._counts = [
            min(settings.wanted(length), settings.max_predictions_per_seq)
            for length in range(settings.max_seq_length + 1)
        ]
        if settings.word_boundaries == "spaces":
            self._goes_on = corpus.goes_on
        elif settings.do_whole_word_mask:
            of_pieces = np.zeros(max(vocab.values()) + 1, bool)
            of_pieces[[index for piece, index in vocab.items() if piece.startswith("##")]] = True
            self._goes_on = of_pieces[corpus.ids]
        # An n-gram of n words is 1 / n as likely as one of a single word.
        weights = list(accumulate(1 / n for n in range(1, settings.max_ngram + 1)))
        self._ngrams = [weight / weights[-1] for weight in weights]

    def __call__(self, bounds, rng):
        """Masks up to as many tokens as are wanted.

        Args:
          bounds: a_start, a_end, b_start, b_end, the segments in `Corpus.ids`; b may be empty.
          rng: a `random.Random`.

        Returns:
          A number for each masked position of the sequence, in their order, for `unpacked`.
        """
        a_start, a_end, b_start, b_end = bounds
        a_length, b_length = a_end - a_start, b_end - b_start
        count = self._counts[a_length + b_length + (3 if b_length else 2)]
        if self._is_plain:
            chosen = self._singles[1 : 1 + a_length]
            chosen += self._singles[2 + a_length : 2 + a_length + b_length]
            shuffle(chosen, rng, count)
            del chosen[count:]
        elif self._settings.max_ngram > 1:
            chosen = self._chosen_ngrams(self._words(*bounds), 2 + a_length, count, rng)
        else:
            chosen = self._chosen_words(self._words(*bounds), count, rng)
        random, pieces, mask, keep = rng.random, self._shown, self._mask_shown, KEEP + 1
        # 80% by [MASK], 10% by themselves, 10% by any piece.
        masked = [
            position * _POSITION
            + (
                mask
                if random() < 0.8
                else keep
                if random() < 0.5
                else pieces[below(len(pieces), rng)]
            )
            for position in chosen
        ]
        masked.sort()
        return masked

    def _words(self, a_start, a_end, b_start, b_end):
        """Lists of positions that are masked together."""
        words = []
        b_first = 2 + a_end - a_start
        for first, start, end in ((1, a_start, a_end), (b_first, b_start, b_end)):
            if not self._settings.do_whole_word_mask:
                words += [[position] for position in range(first, first + end - start)]
                continue
            for position, goes_on in enumerate(self._goes_on[start:end].tolist(), first):
                # Where b starts in the middle of a word, that belongs to a's last; so in the
                # release.
                if goes_on and words:
                    words[-1].append(position)
                else:
                    words.append([position])
        return words

    def _chosen_words(self, words, count, rng):
        """Positions of random words, as many as fit into `count`."""
        shuffle(words, rng)
        chosen = []
        for word in words:
            if len(chosen) >= count:
                break
            if len(chosen) + len(word) <= count:
                chosen += word
        return chosen

    def _chosen_ngrams(self, words, b_first, count, rng):
        """Positions of random runs of 1 to `max_ngram` words of one segment."""
        order = list(range(len(words)))
        shuffle(order, rng)
        chosen = {}
        for index in order:
            if len(chosen) >= count:
                break
            size = 1 + bisect_left(self._ngrams, rng.random())
            run = words[index : index + size]
            positions = [position for word in run for position in word]
            fits = len(run) == size and len(chosen) + len(positions) <= count
            if fits and chosen.keys().isdisjoint(positions):
                if positions[0] < b_first <= positions[-1] and len(run) > 1:
                    continue
                chosen.update(dict.fromkeys(positions))
        return list(chosen)


def unpacked(masks):
    """Positions, and the ids that are shown there or `KEEP`, of an int64 array of masks: int32."""
    shown = (masks & _POSITION - 1) - 1
    return (masks >> _BITS).astype(np.int32), shown.astype(np.int32)


def shuffle(items, rng, wanted=None):
    """`rng.shuffle(items)`, draw for draw, in half the time: most of the work is here.

    Args:
      items: a list or array, changed in place.
      rng: a `random.Random`.
      wanted: how many of the first items are to be right, if not all; what follows is then
        anything.
    """
    getrandbits = rng.getrandbits
    count = len(items)
    wanted = count if wanted is None else max(wanted, 1)
    while count > 1:
        bits = count.bit_length()
        # Down to where a number is drawn of one bit less, or to the first that is wanted.
        least = max(1 << bits - 1, 2)
        if count > wanted:
            least = max(least, wanted + 1)
            for last in range(count - 1, least - 2, -1):
                while (chosen := getrandbits(bits)) > last:
                    pass
                items[chosen] = items[last]
        else:
            for last in range(count - 1, least - 2, -1):
                while (chosen := getrandbits(bits)) > last:
                    pass
                kept = items[chosen]
                items[chosen] = items[last]
                items[last] = kept
        count = least - 1


def below(count, rng):
    """`rng.randint(0, count - 1)`, draw for draw, in half the time."""
    bits = count.bit_length()
    while (chosen := rng.getrandbits(bits)) >= count:
        pass
    return chosen
