"""Pre-training instances from plain text, drawn as the release drew them.

The same text, settings and seed give the release's instances in the release's order: every draw
from the random generator is made where the release made it. What differs is what is held in
memory: token ids in one flat array, and an instance as a few numbers that point into it.
"""

import random
from array import array
from bisect import bisect_left
from itertools import islice
from typing import NamedTuple

import numpy as np

from bert_tf import console, files
from bert_tf.data import records
from bert_tf.errors import UserError


class Settings(NamedTuple):
    """What to make of a corpus; the defaults are the release's."""

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    do_whole_word_mask: bool = False
    random_seed: int = 12345

    def check(self):
        """Returns the settings; UserError names the first that cannot be."""
        # [CLS] a [SEP] b [SEP]
        for name, least in (
            ("max_seq_length", 5),
            ("max_predictions_per_seq", 1),
            ("dupe_factor", 1),
        ):
            if getattr(self, name) < least:
                raise UserError(f"--{name} must be at least {least}, not {getattr(self, name)}")
        for name in ("masked_lm_prob", "short_seq_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"--{name} must be from 0 to 1, not {getattr(self, name)}")
        return self


class Corpus(NamedTuple):
    """Tokenized text: T tokens in N sentences in D documents.

    Attributes:
      ids: int32 (T,), all tokens.
      sentences: int64 (N + 1,), where each sentence starts in `ids`, and T.
      documents: int64 (D + 1,), where each document starts in `sentences`, and N.
    """

    ids: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray


class Instance(NamedTuple):
    """[CLS] a [SEP] b [SEP] with masks.

    Attributes:
      a_start, a_end, b_start, b_end: the two segments, in `Corpus.ids`.
      is_random_next: whether b comes from elsewhere.
      positions: masked positions in the sequence, ascending.
      replacements: the id that stands at each of them, or `KEEP`.
    """

    a_start: int
    a_end: int
    b_start: int
    b_end: int
    is_random_next: bool
    positions: array
    replacements: array

    @property
    def length(self):
        """Number of tokens, [CLS] and [SEP] included."""
        return self.a_end - self.a_start + self.b_end - self.b_start + 3


# A masked position that shows its own token.
KEEP = -1

# Lines to tokenize at a time.
_BATCH = 1000


def read_corpus(paths, tokenizer):
    """Tokenizes text files: one sentence a line, a blank line between two documents.

    The end of a file ends its document too. Lines that tokenize to nothing are left out.

    Args:
      paths: UTF-8 text files.
      tokenizer: a `FullTokenizer`.

    Returns:
      A `Corpus`.

    Raises:
      UserError: if a file cannot be read, or none has any text.
    """
    ids, sentences, documents = array("i"), array("q", [0]), array("q", [0])
    unfinished = 0

    def end_document():
        if len(sentences) - 1 > documents[-1]:
            documents.append(len(sentences) - 1)

    ticker = console.Ticker("tokenizing", "lines")
    for path in paths:
        blank = True
        lines = files.read_lines(path)
        while batch := list(islice(lines, _BATCH)):
            for line, line_ids in zip(batch, tokenizer.encode_batch(batch), strict=True):
                blank = not line.strip()
                if blank:
                    end_document()
                elif line_ids:
                    ids.extend(line_ids)
                    sentences.append(len(ids))
            ticker.add(len(batch))
        unfinished += not blank and path != paths[-1]
        end_document()
    ticker.done()

    if not ids:
        raise UserError(f"{', '.join(paths)}: no text in it, one sentence a line was expected")
    if unfinished:
        console.info(
            "%d files end without a blank line; their last document ends with the file (in the "
            "release it went on in the next file)",
            unfinished,
        )
    return Corpus(
        np.frombuffer(ids, np.int32), np.frombuffer(sentences, np.int64), np.array(documents)
    )


def create_instances(corpus, vocab, settings):
    """Makes all instances of a corpus and shuffles them.

    Args:
      corpus: a `Corpus`.
      vocab: dict from piece to id.
      settings: `Settings`.

    Returns:
      A list of `Instance`.
    """
    settings.check()
    if len(corpus.documents) == 2:
        console.warning(
            "the corpus is one document, so a random next sentence comes from that same document; "
            "blank lines separate documents"
        )
    rng = random.Random(settings.random_seed)
    made = list(instances(corpus, vocab, settings, rng))
    rng.shuffle(made)
    capped = sum(_wanted(one.length, settings) > settings.max_predictions_per_seq for one in made)
    if capped:
        console.warning(
            "--max_predictions_per_seq=%d masks less than --masked_lm_prob=%g in %.1f%% of the "
            "instances; at full length %d would be needed",
            settings.max_predictions_per_seq, settings.masked_lm_prob, 100 * capped / len(made),
            _wanted(settings.max_seq_length, settings),
        )  # fmt: skip
    return made


def instances(corpus, vocab, settings, rng):
    """Yields the instances of a corpus, `dupe_factor` times over, document by document.

    Args:
      corpus: a `Corpus`.
      vocab: dict from piece to id.
      settings: `Settings`.
      rng: a `random.Random`; it also sets the order of the documents.

    Yields:
      `Instance`s.
    """
    order = list(range(len(corpus.documents) - 1))
    rng.shuffle(order)
    bounds = corpus.documents.tolist()
    documents = [(bounds[index], bounds[index + 1]) for index in order]
    # Items of a memoryview are Python's own numbers, which are faster than NumPy's one by one.
    sentences = memoryview(corpus.sentences)
    if settings.do_whole_word_mask:
        goes_on = np.zeros(max(vocab.values()) + 1, bool)
        goes_on[[index for piece, index in vocab.items() if piece.startswith("##")]] = True
    else:
        singles = [(position,) for position in range(settings.max_seq_length)]
    mask_id, vocab_ids = vocab["[MASK]"], list(vocab.values())

    ticker = console.Ticker("creating", "instances")
    for _ in range(settings.dupe_factor):
        for number in range(len(documents)):
            for segments in _segments(sentences, documents, number, settings, rng):
                a_start, a_end, b_start, b_end, _ = segments
                a_length, b_length = a_end - a_start, b_end - b_start
                if settings.do_whole_word_mask:
                    words = _words(
                        goes_on[corpus.ids[a_start:a_end]], goes_on[corpus.ids[b_start:b_end]]
                    )
                else:
                    words = singles[1 : 1 + a_length]
                    words += singles[2 + a_length : 2 + a_length + b_length]
                count = _wanted(a_length + b_length + 3, settings)
                count = min(count, settings.max_predictions_per_seq)
                positions, replacements = _mask(words, count, mask_id, vocab_ids, rng)
                yield Instance(*segments, positions, replacements)
                ticker.add()
    ticker.done()


def _segments(sentences, documents, number, settings, rng):
    """Yields the pairs of segments of one document: a_start, a_end, b_start, b_end, random next.

    Sentences are collected until they fill the target length, then cut in two at a random one. The
    target is the full length, for full use of the computation, but for some documents shorter, so
    that pre-training and fine-tuning meet on short sequences too.
    """
    longest = settings.max_seq_length - 3
    target = longest
    if rng.random() < settings.short_seq_prob:
        target = rng.randint(2, longest)
    first, last = documents[number]
    end = first
    while end < last:
        end += 1  # the chunk is the sentences from `first` up to `end`
        if end < last and sentences[end] - sentences[first] < target:
            continue
        cut = first + (rng.randint(1, end - first - 1) if end - first > 1 else 1)
        a_start, a_end = sentences[first], sentences[cut]
        # A single sentence leaves nothing for b, so its b is a random one.
        is_random_next = end - first == 1 or rng.random() < 0.5
        if is_random_next:
            wanted = target - (a_end - a_start)
            b_start, b_end = _random_next(sentences, documents, number, wanted, rng)
            end = cut  # the rest of the chunk is used again, so that nothing is lost
        else:
            b_start, b_end = a_end, sentences[end]
        yield *_truncate(a_start, a_end, b_start, b_end, longest, rng), is_random_next
        first = end


def _random_next(sentences, documents, number, wanted, rng):
    """Sentences of another document from a random one on, until they have `wanted` tokens."""
    # Ten tries make the document itself unlikely even where documents are few.
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != number:
            break
    first, last = documents[other]
    start = first + rng.randint(0, last - first - 1)
    end = bisect_left(sentences, sentences[start] + wanted, start + 1, last)
    return sentences[start], sentences[end]


def _truncate(a_start, a_end, b_start, b_end, longest, rng):
    """Takes tokens off the longer segment, at its front or its back by chance."""
    excess = (a_end - a_start) + (b_end - b_start) - longest
    for _ in range(excess):
        front = rng.random() < 0.5
        if a_end - a_start > b_end - b_start:
            a_start += front
            a_end -= not front
        else:
            b_start += front
            b_end -= not front
    return a_start, a_end, b_start, b_end


def _words(a_goes_on, b_goes_on):
    """Lists of positions that are masked together, by which tokens go on with a word."""
    words = []
    for first, flags in ((1, a_goes_on), (2 + len(a_goes_on), b_goes_on)):
        for position, goes_on in enumerate(flags.tolist(), first):
            # Where b starts in the middle of a word, that belongs to a's last; so in the release.
            if goes_on and words:
                words[-1].append(position)
            else:
                words.append([position])
    return words


def _wanted(length, settings):
    """How many tokens of a sequence to mask, if there is room."""
    return max(1, round(length * settings.masked_lm_prob))


def _mask(words, count, mask_id, vocab_ids, rng):
    """Masks up to `count` tokens: 80% by [MASK], 10% by themselves, 10% by any piece."""
    _shuffle(words, rng)
    masked = {}
    for word in words:
        if len(masked) >= count:
            break
        if len(masked) + len(word) > count:
            continue
        for position in word:
            if rng.random() < 0.8:
                masked[position] = mask_id
            elif rng.random() < 0.5:
                masked[position] = KEEP
            else:
                masked[position] = vocab_ids[rng.randint(0, len(vocab_ids) - 1)]
    positions = sorted(masked)
    return array("i", positions), array("i", [masked[position] for position in positions])


def _shuffle(items, rng):
    """`rng.shuffle(items)`, draw for draw, in half the time: most of the work is here."""
    getrandbits = rng.getrandbits
    for count in range(len(items), 1, -1):
        bits = count.bit_length()
        chosen = getrandbits(bits)
        while chosen >= count:
            chosen = getrandbits(bits)
        items[count - 1], items[chosen] = items[chosen], items[count - 1]


def values(instance, corpus, vocab, settings):
    """An instance as `records.PRETRAINING` has it: dict from name to array (S,), (P,) or (1,)."""
    length, count = instance.length, len(instance.positions)
    b_first = 2 + instance.a_end - instance.a_start
    input_ids, input_mask, segment_ids = np.zeros((3, settings.max_seq_length), np.int32)
    positions, labels = np.zeros((2, settings.max_predictions_per_seq), np.int32)
    weights = np.zeros(settings.max_predictions_per_seq, np.float32)

    input_ids[0] = vocab["[CLS]"]
    input_ids[1 : b_first - 1] = corpus.ids[instance.a_start : instance.a_end]
    input_ids[b_first - 1] = input_ids[length - 1] = vocab["[SEP]"]
    input_ids[b_first : length - 1] = corpus.ids[instance.b_start : instance.b_end]
    input_mask[:length] = 1
    segment_ids[b_first:length] = 1

    masked = np.asarray(instance.positions)
    replacements = np.asarray(instance.replacements)
    positions[:count] = masked
    labels[:count] = input_ids[masked]
    weights[:count] = 1.0
    input_ids[masked] = np.where(replacements == KEEP, labels[:count], replacements)
    return {
        "input_ids": input_ids,
        "input_mask": input_mask,
        "segment_ids": segment_ids,
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": weights,
        "next_sentence_labels": [instance.is_random_next],
    }


def write(paths, made, corpus, vocab, settings):
    """Writes instances to TFRecord files in turn; all files appear at the end, or none does."""
    ticker = console.Ticker("writing", "instances", total=len(made))
    with records.writing(paths, records.PRETRAINING) as write_one:
        for instance in made:
            write_one(values(instance, corpus, vocab, settings))
            ticker.add()
    ticker.done()


def summarize(made, corpus, vocab):
    """Says what has become of the corpus, in two lines."""
    console.info(
        "corpus: %d documents, %d sentences, %d tokens, %.2f%% of them unknown",
        len(corpus.documents) - 1, len(corpus.sentences) - 1, len(corpus.ids),
        100 * np.mean(corpus.ids == vocab["[UNK]"]),
    )  # fmt: skip
    console.info(
        "made: %d instances, %.1f%% with a random next sentence, %.1f%% of their tokens masked",
        len(made),
        100 * sum(one.is_random_next for one in made) / len(made),
        100 * sum(len(one.positions) for one in made) / sum(one.length for one in made),
    )  # fmt: skip
