"""Learns a WordPiece vocabulary from text.

It starts from characters and again and again joins the pair of neighbours that occurs most often
in the text (Sennrich, Haddow and Birch 2016). The words are those that `BasicTokenizer` makes.
"""

import heapq
from collections import Counter, defaultdict
from itertools import pairwise

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.tokenization.vocabulary import REQUIRED
from bert_tf.tokenization.wordpiece import BasicTokenizer, WordpieceTokenizer

# The tokenizer makes longer words unknown whatever the vocabulary.
_LONGEST_WORD = WordpieceTokenizer({}).max_input_chars_per_word


# The most different words that are held while counting: far more than any vocabulary takes, and few
# enough for the memory of one machine, however large the corpus.
MAX_WORDS = 2_000_000


def count_words(paths, do_lower_case=True, max_words=MAX_WORDS):
    """Counts the words of UTF-8 text files, of any size.

    Memory is bounded: whenever there are more than `max_words` different words, the rarest go, all
    up to some count, until half are left. A word that goes and comes back counts from 0, so a count
    can be too small, but for a word that goes on occurring only by little. Single characters never
    go. The same files in the same order give the same counts.

    Args:
      paths: the files.
      do_lower_case: as in `BasicTokenizer`.
      max_words: the most different words to hold.

    Returns:
      A `Counter`.

    Raises:
      UserError: if there are no words.
    """
    tokenizer = BasicTokenizer(do_lower_case)
    words = Counter()
    pruned = 0
    ticker = console.Ticker("reading", "lines")
    for path in paths:
        for line in files.read_lines(path):
            words.update(tokenizer.tokenize(line))
            if len(words) > max_words:
                pruned = _prune(words, max_words // 2)
            ticker.add()
    ticker.done()
    if not words:
        raise UserError(f"{', '.join(paths)}: there are no words in it")
    if pruned:
        console.info(
            "more than %d different words: rare ones were left out while counting, at last those "
            "that had been seen %d times or less",
            max_words, pruned,
        )  # fmt: skip
    return words


def _prune(words, size):
    """Leaves out the rarest words until `size` are left, if need be; returns the count up to which.

    Single characters stay, as the vocabulary's alphabet hangs on them, and there cannot be many.
    """
    of_count = Counter(words.values())
    left = len(words)
    for limit in sorted(of_count):
        left -= of_count[limit]
        if left <= size:
            break
    rare = [word for word, count in words.items() if count <= limit and len(word) > 1]
    for word in rare:
        del words[word]
    return limit


def learn(words, vocab_size, min_count=2, num_unused=99):
    """Learns a vocabulary; the same words give the same one.

    Args:
      words: dict from word to how often it occurs.
      vocab_size: V, how many pieces to make.
      min_count: a piece that joins others must occur this often, a character too.
      num_unused: how many `[unusedN]` to keep for a user's own words. With 99 the special pieces
        get the ids that they have in the published English models.

    Returns:
      List of at most V pieces: [PAD], [unusedN], [UNK], [CLS], [SEP], [MASK], characters, pieces.

    Raises:
      UserError: if there is no room for all characters.
    """
    pieces = ["[PAD]", *(f"[unused{index}]" for index in range(num_unused)), *REQUIRED]
    characters = Counter()
    for word, count in words.items():
        for char in word:
            characters[char] += count
    kept = {char for char, count in characters.items() if count >= min_count}
    words = {
        word: count
        for word, count in words.items()
        if len(word) <= _LONGEST_WORD and kept.issuperset(word)
    }
    # Punctuation and ideographs are words by themselves and need no form that goes on.
    inside = set().union(*(word for word in words if len(word) > 1))
    pieces += sorted(kept) + sorted("##" + char for char in inside)
    if len(pieces) > vocab_size:
        raise UserError(
            f"`vocab_size={vocab_size}` is too small: special pieces and characters alone are "
            f"{len(pieces)}; a larger `min_count` leaves out rare characters"
        )
    known = set(pieces)
    ticker = console.Ticker("learning", "pieces", total=vocab_size - len(pieces))
    for piece in _joined(words, min_count):
        if len(pieces) == vocab_size:
            break
        if piece not in known:  # two ways can lead to one piece
            known.add(piece)
            pieces.append(piece)
            ticker.add()
    ticker.done()
    if len(pieces) < vocab_size:
        console.warning(
            "the text gives only %d pieces that occur %d times, not `vocab_size=%d`: the "
            "vocabulary is smaller, and so must vocab_size in the model's configuration be",
            len(pieces), min_count, vocab_size,
        )  # fmt: skip
    return pieces


def _joined(words, min_count):
    """Yields the pieces that come of joining, the most frequent first, ties by the pair."""
    spelled = [[word[0], *("##" + char for char in word[1:])] for word in words]
    counts = list(words.values())
    pairs = Counter()  # how often each pair of neighbours occurs
    holders = defaultdict(set)  # the words in which it does, or once did
    for number, symbols in enumerate(spelled):
        for pair in pairwise(symbols):
            pairs[pair] += counts[number]
            holders[pair].add(number)

    # A pair whose count changes is put in anew; an entry with another count is out of date.
    heap = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(heap)
    while heap:
        count, pair = heapq.heappop(heap)
        if -count != pairs[pair]:
            continue
        if -count < min_count:
            return
        piece = pair[0] + pair[1].removeprefix("##")
        yield piece
        changed = set()
        for number in holders.pop(pair):
            old = spelled[number]
            new = spelled[number] = _join(old, pair, piece)
            for neighbours in pairwise(old):
                pairs[neighbours] -= counts[number]
                changed.add(neighbours)
            for neighbours in pairwise(new):
                pairs[neighbours] += counts[number]
                holders[neighbours].add(number)
                changed.add(neighbours)
        for neighbours in changed:
            if pairs[neighbours] > 0:
                heapq.heappush(heap, (-pairs[neighbours], neighbours))
            else:
                del pairs[neighbours]


def _join(symbols, pair, piece):
    """`symbols` with `piece` for each `pair`, from the left."""
    joined = []
    for symbol in symbols:
        if joined and (joined[-1], symbol) == pair:
            joined[-1] = piece
        else:
            joined.append(symbol)
    return joined
