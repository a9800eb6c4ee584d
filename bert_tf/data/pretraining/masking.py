"""Static masking of instances."""

from bisect import bisect_left
from itertools import accumulate

import numpy as np

from bert_tf.errors import UserError
from bert_tf.tokenization.vocabulary import mask_id

# The replacement of a masked token that is kept.
KEEP = -1
# A mask is packed into one integer, position * 2**20 + replacement + 1. Up to position 1023 it fits
# into one digit of a Python integer, so that arithmetic and sorting are fast.
_REPLACEMENT_BITS = 20
PACKED_POSITION = 1 << _REPLACEMENT_BITS


class Masker:
    """Draws the masks for instances from a `Corpus`."""

    def __init__(self, corpus, vocab, config):
        self._config = config
        if max(vocab.values()) + 1 >= PACKED_POSITION:
            raise UserError(f"`vocab_file`: expected token ids less than {PACKED_POSITION - 1}")
        self._packed_mask = mask_id(vocab) + 1
        self._packed_tokens = [index + 1 for index in vocab.values()]
        self._is_plain = not config.do_whole_word_mask and config.max_ngram == 1
        # The number of tokens to mask, by sequence length.
        self._counts = [
            min(config.num_to_mask(length), config.max_predictions_per_seq)
            for length in range(config.max_seq_length + 1)
        ]
        if config.word_boundaries == "spaces":
            self.is_continuation = corpus.is_continuation
        elif config.do_whole_word_mask:
            is_continuation = np.zeros(max(vocab.values()) + 1, bool)
            is_continuation[[i for token, i in vocab.items() if token.startswith("##")]] = True
            self.is_continuation = is_continuation[corpus.ids]
        # Cumulative probabilities of n-gram lengths, where length n has the weight 1 / n.
        weights = list(accumulate(1 / n for n in range(1, config.max_ngram + 1)))
        self._ngrams = [weight / weights[-1] for weight in weights]

    def tables(self):
        return np.array(self._counts), np.array(self._packed_tokens), self._packed_mask

    def __call__(self, bounds, rng):
        """Return a list of packed masks for the `bounds` of a and b, sorted by position."""
        a_start, a_end, b_start, b_end = bounds
        a_length, b_length = a_end - a_start, b_end - b_start
        count = self._counts[a_length + b_length + (3 if b_length else 2)]
        if self._is_plain:
            chosen = [*range(1, 1 + a_length), *range(2 + a_length, 2 + a_length + b_length)]
            shuffle(chosen, rng, count)
            del chosen[count:]
        elif self._config.max_ngram > 1:
            chosen = self._choose_ngrams(self._words(*bounds), 2 + a_length, count, rng)
        else:
            chosen = self._choose_words(self._words(*bounds), count, rng)
        random, tokens, mask, keep = rng.random, self._packed_tokens, self._packed_mask, KEEP + 1
        # 80% become [MASK], 10% stay, 10% become a random token.
        masked = [
            position * PACKED_POSITION
            + (
                mask
                if random() < 0.8
                else keep
                if random() < 0.5
                else tokens[randbelow(len(tokens), rng)]
            )
            for position in chosen
        ]
        masked.sort()
        return masked

    def _words(self, a_start, a_end, b_start, b_end):
        words = []
        b_first = 2 + a_end - a_start
        for first, start, end in ((1, a_start, a_end), (b_first, b_start, b_end)):
            if not self._config.do_whole_word_mask:
                words += [[position] for position in range(first, first + end - start)]
                continue
            flags = self.is_continuation[start:end].tolist()
            for position, is_continuation in enumerate(flags, first):
                # If b starts within a word, its tokens join the last word of a, as in the release.
                if is_continuation and words:
                    words[-1].append(position)
                else:
                    words.append([position])
        return words

    def _choose_words(self, words, count, rng):
        shuffle(words, rng)
        chosen = []
        for word in words:
            if len(chosen) >= count:
                break
            if len(chosen) + len(word) <= count:
                chosen += word
        return chosen

    def _choose_ngrams(self, words, b_first, count, rng):
        """Return up to `count` positions of random n-grams, each within a segment."""
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
            crosses = len(run) > 1 and positions[0] < b_first <= positions[-1]
            if fits and not crosses and chosen.keys().isdisjoint(positions):
                chosen.update(dict.fromkeys(positions))
        return list(chosen)


def unpack_masks(masks):
    """Return the positions and replacements (or `KEEP`) of packed masks, as two int32 arrays."""
    replacements = (masks & PACKED_POSITION - 1) - 1
    return (masks >> _REPLACEMENT_BITS).astype(np.int32), replacements.astype(np.int32)


def shuffle(items, rng, num_needed=None):
    """Shuffle in place with the draws of `rng.shuffle(items)`, in half the time.

    Most of the time to create instances is spent here. Only the first `num_needed` items are
    defined, None for all.
    """
    getrandbits = rng.getrandbits
    count = len(items)
    num_needed = count if num_needed is None else max(num_needed, 1)
    while count > 1:
        bits = count.bit_length()
        # Stop where draws need one bit less, or at the last item that is needed.
        least = max(1 << bits - 1, 2)
        if count > num_needed:
            least = max(least, num_needed + 1)
            for last in range(count - 1, least - 2, -1):
                while (chosen := getrandbits(bits)) > last:
                    pass
                items[chosen] = items[last]
        else:
            for last in range(count - 1, least - 2, -1):
                while (chosen := getrandbits(bits)) > last:
                    pass
                item = items[chosen]
                items[chosen] = items[last]
                items[last] = item
        count = least - 1


def randbelow(count, rng):
    """Return `rng.randint(0, count - 1)` with the same draws, in half the time."""
    bits = count.bit_length()
    while (chosen := rng.getrandbits(bits)) >= count:
        pass
    return chosen
