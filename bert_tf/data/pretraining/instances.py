"""Creation of instances from a corpus, and static masking.

The instances and their order are the same as in the 2018 release, because the random generator is
called in the same places. Unlike in the release, the text is a flat array of token ids, and
instances are indices into it.

A function in `_SEGMENT_ITERATORS` passes once through the documents and yields the two segments of
each instance as (a_start, a_end, b_start, b_end, label), with indices into `Corpus.ids`.
`sentences` has the start of each sentence, as a memoryview, whose items are faster to read one by
one than NumPy's. `documents` is a list of (first sentence, last sentence + 1).
"""

import functools
import random
from array import array
from bisect import bisect_left
from itertools import accumulate

import numpy as np

from bert_tf import console
from bert_tf.data.pretraining.corpus import cumulative_offsets
from bert_tf.errors import UserError
from bert_tf.tokenization.packing import truncate_at_random
from bert_tf.tokenization.vocabulary import mask_id

# Minimum number of tokens, over all passes, for compiled code. Python takes 3 seconds for them;
# compiling takes 5 seconds once, loading 0.6 seconds.
_MIN_TOKENS_TO_COMPILE = 20_000_000

# The replacement of a masked token that is kept.
KEEP = -1
# A mask is packed into one integer, position * 2**20 + replacement + 1. Up to position 1023 it fits
# into one digit of a Python integer, so that arithmetic and sorting are fast.
_REPLACEMENT_BITS = 20
PACKED_POSITION = 1 << _REPLACEMENT_BITS


class Instances:
    """Shuffled sequences [CLS] a [SEP] b [SEP], or [CLS] a [SEP] if b is empty, with masks.

    `order` (I,) has the index of each instance in the rows of `segments` (I, 5): a_start, a_end,
    b_start, b_end, label. The label is whether b is a random next sentence, or a and b are swapped.
    Row i has the masks `starts[i]` to `starts[i + 1]` of `masks` (M,), see `unpack_masks`.
    """

    def __init__(self, segments, counts, masks, rng):
        self.segments = np.frombuffer(segments, np.int64).reshape(-1, 5)
        self.starts = cumulative_offsets(counts)
        # A dummy entry, so that index 0 is valid if nothing is masked.
        self.masks = np.asarray(masks or array("q", [0]))
        order = array("q", range(len(self.segments)))
        rng.shuffle(order)
        self.order = np.asarray(order)

    def __len__(self):
        return len(self.order)

    def lengths(self):
        """Return token counts with [CLS] and [SEP], int64 (I,)."""
        a_start, a_end, b_start, b_end, _ = self.segments.T
        return a_end - a_start + b_end - b_start + 2 + (b_end > b_start)


def create_instances(
    corpus, vocab, config, rng=None, on_progress=lambda count: None, compiled=None
):
    """Create the `Instances` of a `Corpus`; `on_progress` is called in every pass."""
    rng = rng or random.Random(config.random_seed)
    order = list(range(len(corpus.documents) - 1))
    rng.shuffle(order)
    bounds = corpus.documents.tolist()
    documents = [(bounds[index], bounds[index + 1]) for index in order]
    masker = None if config.dynamic_masking else Masker(corpus, vocab, config)
    parts = array("q"), array("i"), array("q")
    draw = compiled.draw if compiled else _draw
    for _ in range(config.dupe_factor):
        draw(corpus, documents, config, masker, rng, parts, on_progress)
    return Instances(*parts, rng)


def find_compiled(num_tokens, config):
    """Return the module `compiled`, or None if it cannot be used or would not save time."""
    is_covered = config.objective == "nsp" and config.max_ngram == 1
    if not is_covered or config.dupe_factor * num_tokens < _MIN_TOKENS_TO_COMPILE:
        return None
    try:
        from bert_tf.data.pretraining import compiled
    # Numba is missing, incompatible with this NumPy, or its library cannot be loaded.
    except (ImportError, OSError) as error:
        console.notice("instances are created faster with Numba (pip install numba): %s", error)
        return None
    return compiled


def _draw(corpus, documents, config, masker, rng, parts, on_progress):
    sentences = memoryview(corpus.sentences)
    all_segments, counts, all_masks = parts
    iter_segments = _SEGMENT_ITERATORS[config.objective]
    for segments in iter_segments(sentences, documents, config, rng, on_progress):
        all_segments.extend(segments)
        masks = masker(segments[:4], rng) if masker else []
        counts.append(len(masks))
        all_masks.fromlist(masks)


def _next_sentence_pairs(sentences, documents, config, rng, on_progress):
    """Yield a segment and its continuation, or a random one (label 1), as in the release."""
    max_length = config.max_seq_length - 3
    for number, (first, last) in enumerate(documents):
        target = _draw_target_length(max_length, config, rng)
        while first < last:
            end = _chunk_end(sentences, first, last, target)
            cut = first + 1 + (randbelow(end - first - 1, rng) if end - first > 1 else 0)
            a_start, a_end = sentences[first], sentences[cut]
            # A single sentence leaves nothing for b.
            is_random_next = end - first == 1 or rng.random() < 0.5
            if is_random_next:
                b_target = target - (a_end - a_start)
                b_start, b_end = _random_segment(sentences, documents, number, b_target, rng)
                end = cut  # put the unused sentences back, so that none are lost
            else:
                b_start, b_end = a_end, sentences[end]
            bounds = truncate_at_random(a_start, a_end, b_start, b_end, max_length, rng)
            yield *bounds, is_random_next
            first = end
        on_progress(1)


def _sentence_order_pairs(sentences, documents, config, rng, on_progress):
    """Yield two consecutive segments, in order or swapped (label 1): ALBERT, arXiv:1909.11942."""
    max_length = config.max_seq_length - 3
    for first, last in documents:
        target = _draw_target_length(max_length, config, rng)
        while first < last:
            end = _chunk_end(sentences, first, last, target)
            a_start, b_end = sentences[first], sentences[end]
            if end - first > 1:
                a_end = sentences[first + 1 + randbelow(end - first - 1, rng)]
            elif b_end - a_start > 1:
                a_end = a_start + 1 + randbelow(b_end - a_start - 1, rng)
            else:
                first = end
                continue
            a_start, a_end, b_start, b_end = truncate_at_random(
                a_start, a_end, a_end, b_end, max_length, rng
            )
            if rng.random() < 0.5:
                yield b_start, b_end, a_start, a_end, True
            else:
                yield a_start, a_end, b_start, b_end, False
            first = end
        on_progress(1)


def _full_sentences(sentences, documents, config, rng, on_progress):
    """Yield one segment of as many sentences as fit: "FULL-SENTENCES" of RoBERTa, arXiv:1907.11692.

    At the end of a document, b is the beginning of the next one if a whole sentence fits, so an
    instance crosses at most one boundary. Longer sentences continue in the next instance.
    """
    number, position = 0, None
    while number < len(documents):
        first, last = documents[number]
        position = sentences[first] if position is None else position
        target = _draw_target_length(config.max_seq_length - 2, config, rng)
        a_start = position
        position = _fill(sentences, position, last, target, may_cut=True)
        a_end = b_start = b_end = position
        if position == sentences[last]:
            number, position = number + 1, None
            on_progress(1)
            room = target - (a_end - a_start) - 1
            if number < len(documents) and room > 0:
                first, last = documents[number]
                b_start = sentences[first]
                b_end = _fill(sentences, b_start, last, room, may_cut=False)
                position = b_end
                if b_end == sentences[last]:
                    number, position = number + 1, None
                    on_progress(1)
        yield a_start, a_end, b_start, b_end, False


_SEGMENT_ITERATORS = {
    "nsp": _next_sentence_pairs,
    "sop": _sentence_order_pairs,
    "none": _full_sentences,
}


def _fill(sentences, start, last, room, may_cut):
    """Return the end of the last sentence that fits; `may_cut` cuts the first if none fits."""
    after = bisect_left(sentences, start + room + 1, 0, last + 1) - 1
    if sentences[after] > start:
        return sentences[after]
    return start + room if may_cut else start


def _chunk_end(sentences, first, last, target):
    """Return the end of the chunk from sentence `first`: at `target` tokens, at most `last`."""
    return bisect_left(sentences, sentences[first] + target, first + 1, last)


def _draw_target_length(max_length, config, rng):
    return rng.randint(2, max_length) if rng.random() < config.short_seq_prob else max_length


def _random_segment(sentences, documents, number, target, rng):
    """Return the bounds of a chunk at a random sentence of another document."""
    # Ten draws make the same document unlikely even among few documents.
    for _ in range(10):
        other = randbelow(len(documents), rng)
        if other != number:
            break
    first, last = documents[other]
    start = first + randbelow(last - first, rng)
    return sentences[start], sentences[_chunk_end(sentences, start, last, target)]


class Masker:
    """Draws the masks for instances from a `Corpus`."""

    def __init__(self, corpus, vocab, config):
        self._config = config
        if max(vocab.values()) + 1 >= PACKED_POSITION:
            raise UserError(f"`vocab_file`: expected token ids less than {PACKED_POSITION - 1}")
        self.packed_mask = mask_id(vocab) + 1
        self.packed_tokens = [index + 1 for index in vocab.values()]
        self._is_plain = not config.do_whole_word_mask and config.max_ngram == 1
        # The number of tokens to mask, by sequence length.
        most = config.max_predictions_per_seq
        self.counts = [min(config.num_to_mask(n), most) for n in range(config.max_seq_length + 1)]
        # Whether each token is masked with the one before it, bool (T,).
        if config.word_boundaries == "spaces":
            self.is_continuation = corpus.is_continuation
        elif config.do_whole_word_mask:
            pieces = [index for token, index in vocab.items() if token.startswith("##")]
            self.is_continuation = np.isin(corpus.ids, pieces)
        else:
            self.is_continuation = np.zeros(len(corpus.ids), bool)
        # Cumulative probabilities of n-gram lengths, where length n has the weight 1 / n.
        weights = list(accumulate(1 / n for n in range(1, config.max_ngram + 1)))
        self._ngrams = [weight / weights[-1] for weight in weights]

    def __call__(self, bounds, rng):
        """Return a list of packed masks for the `bounds` of a and b, sorted by position."""
        a_start, a_end, b_start, b_end = bounds
        a_length, b_length = a_end - a_start, b_end - b_start
        count = self.counts[a_length + b_length + (3 if b_length else 2)]
        if self._is_plain:
            chosen = [*range(1, 1 + a_length), *range(2 + a_length, 2 + a_length + b_length)]
            shuffle(chosen, rng, count)
            del chosen[count:]
        elif self._config.max_ngram > 1:
            chosen = self._choose_ngrams(self._words(*bounds), 2 + a_length, count, rng)
        else:
            chosen = self._choose_words(self._words(*bounds), count, rng)
        random, tokens, mask, masked = rng.random, self.packed_tokens, self.packed_mask, []
        # 80% become [MASK], 10% stay, 10% become a random token.
        for position in chosen:
            if random() < 0.8:
                replacement = mask
            else:
                replacement = KEEP + 1 if random() < 0.5 else tokens[randbelow(len(tokens), rng)]
            masked.append(position * PACKED_POSITION + replacement)
        return sorted(masked)

    def _words(self, a_start, a_end, b_start, b_end):
        words = []
        for first, start, end in ((1, a_start, a_end), (2 + a_end - a_start, b_start, b_end)):
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


def shuffle(items, rng, count=None):
    """Shuffle in place with the draws of `rng.shuffle(items)`, in about half the time.

    Only the first `count` items are as `rng.shuffle` leaves them; the order of the others is
    arbitrary. Most of the time to create instances is spent here.
    """
    # Few lists are cached: the list for a length ends with the lists for all smaller lengths.
    size = 1 << len(items).bit_length()
    getrandbits = rng.getrandbits
    draws, start = _draws(size), size - len(items)
    split = max(size - (count or len(items)), start)
    for last, bits in draws[start:split]:
        while (chosen := getrandbits(bits)) > last:
            pass
        items[chosen] = items[last]
    for last, bits in draws[split:]:
        while (chosen := getrandbits(bits)) > last:
            pass
        items[last], items[chosen] = items[chosen], items[last]


@functools.cache
def _draws(length):
    """Return the largest value of each draw of a shuffle, and its number of bits."""
    return [(last, (last + 1).bit_length()) for last in range(length - 1, 0, -1)]


def randbelow(count, rng):
    """Return `rng.randint(0, count - 1)` with the same draws, in half the time."""
    bits = count.bit_length()
    while (chosen := rng.getrandbits(bits)) >= count:
        pass
    return chosen
