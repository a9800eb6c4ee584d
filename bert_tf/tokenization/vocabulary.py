"""Read, check, extend and learn vocabularies."""

import itertools
import re
from collections import Counter

from bert_tf import console
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tokenization.normalization import normalize
from bert_tf.tokenization.settings import (
    MASK,
    MAX_CHARS_PER_WORD,
    PAD,
    REQUIRED_TOKENS,
    SPECIAL_TOKENS,
    is_tokenizer_json,
    read_tokenizer_json,
)

# Far more than the pieces of a vocabulary, but few enough for the memory of one machine.
MAX_WORDS = 2_000_000

_UNUSED = re.compile(r"\[unused\d+\]")

# Folder names of the published models: uncased_L-12_H-768_A-12, wwm_cased_L-24_H-1024_A-16, ...
_PUBLISHED_MODEL = re.compile(
    r"(?:^|/)((?:wwm_|multi_)?(uncased|cased|multilingual|chinese)_L-\d+_H-\d+_A-\d+)(?:/|$)"
)

# Minimum share of pieces with capital letters in a cased vocabulary. The uncased Chinese model has
# some such pieces.
_CASED_SHARE = 0.2


def load_vocab(vocab_file):
    """Read a vocabulary file as a dict from piece to id.

    The file has one piece per line, or is Hugging Face's `tokenizer.json`. White space around a
    piece is ignored. If a piece occurs twice, its last line counts, as in the release.

    Raises:
      UserError: if the file cannot be read, is empty or lacks one of `REQUIRED_TOKENS`.
    """
    if is_tokenizer_json(vocab_file):
        lines = vocab = read_tokenizer_json(vocab_file)[0]
    else:
        lines = files.read_text(vocab_file).removesuffix("\n").split("\n")
        vocab = {piece.strip(): index for index, piece in enumerate(lines)}
    if not any(vocab):
        raise UserError(f"{vocab_file}: the vocabulary is empty, expected one piece per line")
    if missing := [token for token in REQUIRED_TOKENS if token not in vocab]:
        found = f"found no {', '.join(missing)} among its {len(vocab)} pieces"
        raise UserError(f"{vocab_file}: {found}, expected the vocabulary of a BERT model")
    if len(vocab) < len(lines):
        message = "%s: %d of %d lines repeat an earlier piece; the last line of each counts"
        console.warning(message, vocab_file, len(lines) - len(vocab), len(lines))
    if vocab.get(PAD, 0) != 0:
        console.warning("%s: %s has id %d, but padding uses id 0", vocab_file, PAD, vocab[PAD])
    return vocab


def vocabulary_text(vocab_file):
    """Return the text of a vocabulary file; convert a `tokenizer.json` to one piece per line."""
    if not is_tokenizer_json(vocab_file):
        return files.read_text(vocab_file)
    return to_text(load_vocab(vocab_file))


def to_text(vocab):
    """Return a vocabulary as text: one line per id, empty for ids without a valid piece."""
    lines = [""] * (max(vocab.values()) + 1)
    for piece, index in vocab.items():
        if piece.split() == [piece]:  # words contain no whitespace
            lines[index] = piece
    return "".join(f"{line}\n" for line in lines)


def special_tokens(vocab):
    """Return a tuple of the `SPECIAL_TOKENS` in `vocab`."""
    return tuple(token for token in SPECIAL_TOKENS if token in vocab)


def mask_id(vocab):
    """Return the id of [MASK]; raise UserError if `vocab` lacks it."""
    if MASK not in vocab:
        raise UserError(f"`vocab_file`: found no {MASK} among its {len(vocab)} pieces")
    return vocab[MASK]


def casing_from_path(path):
    """Return a published model named in a path, and whether it is uncased, or None."""
    match = _PUBLISHED_MODEL.search(path.replace("\\", "/"))
    return match and (match.group(1), match.group(2) != "cased")


def validate_case_matches_checkpoint(do_lower_case, init_checkpoint):
    """Warn if `do_lower_case` contradicts the name of the checkpoint's folder.

    The release raises an error, but the folder may have been renamed.
    """
    casing = casing_from_path(init_checkpoint or "")
    if casing and casing[1] != do_lower_case:
        model, expected = casing
        console.warning(
            f"the checkpoint's folder is named {model}, a model trained with "
            f"`do_lower_case={expected}`, but `do_lower_case={do_lower_case}` was given"
        )


def validate_case_matches_vocabulary(do_lower_case, vocab, vocab_file):
    """Warn if `do_lower_case` contradicts the capital letters of the pieces in `vocab`."""
    pieces = [piece for piece in vocab if not piece.startswith("[")]  # not [CLS], [unused1]
    num_capital = sum(piece != piece.lower() for piece in pieces)
    if do_lower_case and num_capital > _CASED_SHARE * len(pieces):
        console.warning(
            f"{num_capital} of the {len(pieces)} pieces of {vocab_file} have capital letters, as "
            "in a cased model, but `do_lower_case=True`"
        )
    elif not do_lower_case and not num_capital and any(piece != piece.upper() for piece in pieces):
        console.warning(
            "no piece of %s has capital letters, as in an uncased model, but `do_lower_case=False`",
            vocab_file,
        )


def check_vocabulary(vocab, config, vocab_file, do_lower_case=None, config_file=None):
    """Raise UserError if the sizes of the vocabulary and of the model's embeddings do not match.

    A slightly smaller vocabulary causes a warning, because embedding tables are sometimes rounded
    up. So does a `do_lower_case` that contradicts the pieces. `config_file` is for messages.
    """
    found, expected = max(vocab.values()) + 1, config.vocab_size
    where = f" in {config_file}" if config_file else ""
    if not expected / 2 <= found <= expected:
        raise UserError(
            f"`vocab_file`: found {found} entries in {vocab_file}, expected {expected} or slightly "
            f"fewer, the model's vocab_size{where}"
        )
    if found < expected:
        console.warning(
            f"{vocab_file} has {found} entries, but the model's vocab_size{where} is {expected}: "
            "check that the vocabulary belongs to this model"
        )
    if not any(piece.startswith("##") for piece in vocab):
        found = f"no piece of {vocab_file} starts with ##, so unknown words become [UNK]"
        console.warning(f"{found}: check that it is a WordPiece vocabulary")
    if do_lower_case is not None:
        validate_case_matches_vocabulary(do_lower_case, vocab, vocab_file)


def add_words(pieces, words, do_lower_case=True):
    """Put words into the `[unusedN]` slots; return the new list of pieces and the added words.

    Existing ids do not change, so checkpoints still fit. The embeddings of the new words are
    untrained.

    >>> bert_tf.tokenization.add_words(["[PAD]", "[unused0]", "the"], ["the", "bert"])
    (['[PAD]', 'bert', 'the'], ['bert'])

    Args:
      pieces: list of the vocabulary's pieces, in the order of their ids.
      words: the words to add, with a prefix "##" for the continuation of a word. Words in the
        vocabulary are skipped.
      do_lower_case: whether the model is uncased.

    Raises:
      UserError: if there are too few slots, or the tokenizer never finds a word because it
        normalizes it differently.
    """
    existing = set(pieces)
    new_words = [word for word in dict.fromkeys(words) if word not in existing]
    for word in new_words:
        plain = word.removeprefix("##")
        normalized = normalize(plain, do_lower_case).split()
        if word in SPECIAL_TOKENS or normalized != [plain]:
            raise UserError(
                f"the tokenizer never finds the word {word!r}, because it normalizes it to "
                f"{' '.join(normalized) or 'nothing'}"
            )
    slots = [index for index, piece in enumerate(pieces) if _UNUSED.fullmatch(piece)]
    if len(new_words) > len(slots):
        expected = f"at most {len(slots)}, the number of [unusedN] slots in the vocabulary"
        raise UserError(f"found {len(new_words)} new words, expected {expected}")
    new_pieces = list(pieces)
    for slot, word in zip(slots, new_words, strict=False):
        new_pieces[slot] = word
    return new_pieces, new_words


def count_words(paths, do_lower_case=True, max_words=MAX_WORDS):
    """Count the words of UTF-8 text files of any size, split as by `BasicTokenizer`.

    To limit memory, if there are more than `max_words` distinct words, the rarest ones are dropped,
    down to half of `max_words`. A dropped word that recurs is counted from 0. Single characters are
    never dropped. Raises UserError if the files contain no words.
    """
    words = Counter()
    progress = console.ProgressLog("reading", "lines")
    for path in paths:
        for line in files.read_lines(path):
            words.update(normalize(line, do_lower_case).split())
            if len(words) > max_words:
                console.notice("more than %d distinct words: rare ones are dropped", max_words)
                limit = sorted(words.values())[-(max_words // 2) - 1]
                for word in [x for x, count in words.items() if count <= limit and len(x) > 1]:
                    del words[word]
            progress.add()
    progress.done()
    if not words:
        raise UserError(f"{', '.join(paths)}: no words found")
    return words


def learn(words, vocab_size, min_count=2, num_unused=99):
    """Learn a WordPiece vocabulary from word counts; return the pieces in the order of their ids.

    This is byte-pair encoding (Sennrich, Haddow and Birch 2016, section 3.2), which starts from
    characters and repeatedly merges the most frequent pair of neighbors. The result is
    deterministic: [PAD], [unusedN], [UNK], [CLS], [SEP], [MASK], characters, merged pieces.

    >>> pieces = bert_tf.tokenization.vocabulary.learn({"low": 5, "lower": 2}, 20, num_unused=0)
    >>> pieces[-2:]
    ['##er', 'lower']

    Args:
      words: dict from word to count.
      vocab_size: maximum number of pieces.
      min_count: minimum number of occurrences of a character or merged piece.
      num_unused: number of `[unusedN]` slots. With 99, the special tokens have the same ids as in
        the published English models.

    Returns:
      List of the pieces in the order of their ids.

    Raises:
      UserError: if `vocab_size` is too small for all characters.
    """
    from tokenizers import Tokenizer, models, trainers

    if num_unused >= vocab_size:
        raise UserError(f"`vocab_size={vocab_size}`: expected more than `num_unused={num_unused}`")
    pieces = [PAD, *(f"[unused{index}]" for index in range(num_unused)), *SPECIAL_TOKENS[1:]]
    char_counts = Counter()
    for word, count in words.items():
        for char in word:
            char_counts[char] += count
    alphabet = {char for char, count in char_counts.items() if count >= min_count}
    words = {
        word: count
        for word, count in words.items()
        if len(word) <= MAX_CHARS_PER_WORD and alphabet.issuperset(word)
    }
    # Punctuation and ideographs are always whole words and need no "##" form.
    inner = set().union(*(word for word in words if len(word) > 1))
    pieces += sorted(alphabet) + sorted("##" + char for char in inner)
    if len(pieces) > vocab_size:
        raise UserError(
            f"`vocab_size={vocab_size}`: expected at least {len(pieces)}, the number of special "
            "tokens and characters; a larger `min_count` drops rare characters"
        )
    trainer = trainers.BpeTrainer(
        # The trainer allocates memory for this number. A word has fewer merges than characters.
        vocab_size=min(vocab_size, len(pieces) + sum(map(len, words))),
        min_frequency=min(min_count, 2**63),  # the trainer's number has 64 bits
        # Includes the characters, because their ids break ties and are random by default.
        special_tokens=pieces,
        continuing_subword_prefix="##",
        show_progress=False,  # it prints to standard output, where the vocabulary may go
    )
    tokenizer = Tokenizer(models.BPE())
    # Without a pre-tokenizer, each text is one word.
    texts = itertools.chain.from_iterable(itertools.starmap(itertools.repeat, words.items()))
    tokenizer.train_from_iterator(texts, trainer)
    vocab = tokenizer.get_vocab()
    if len(vocab) < vocab_size:
        console.warning(
            f"only {len(vocab)} pieces occur at least {min_count} times, fewer than "
            f"`vocab_size={vocab_size}`; use the actual size as vocab_size of the model's "
            "configuration"
        )
    return sorted(vocab, key=vocab.get)
