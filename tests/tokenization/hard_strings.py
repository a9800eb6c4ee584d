"""Random strings that are hard to tokenize, and vocabularies for them.

Hypothesis is not used, because the graph tokenizer takes thousands of strings per call, and most
must combine marks, sigmas, long words and invalid bytes.
"""

import hashlib
import sys

from bert_tf.tokenization import normalization

# Blocks of letters of many scripts, and of symbols.
BLOCKS = """
0020-007e 00a0-00ff 0100-017f 0180-024f 0250-02af 02b0-02ff 0370-03ff 0400-04ff 0531-058f 0590-05ff
0600-06ff 0700-074f 0900-097f 0980-09ff 0a00-0a7f 0a80-0aff 0b00-0b7f 0b80-0bff 0c00-0c7f 0c80-0cff
0d00-0d7f 0d80-0dff 0e00-0e7f 0e80-0eff 0f00-0fff 1000-109f 10a0-10ff 1100-11ff 1200-137f 13a0-13ff
1700-171f 1780-17ff 1800-18af 1b00-1b7f 1c90-1cbf 1d00-1dbf 1e00-1eff 1f00-1fff 2000-206f 2070-209f
2100-214f 2190-21ff 2200-22ff 2c00-2c5f 2c80-2cff 3000-303f 3040-309f 30a0-30ff 3400-3480 4e00-5000
9f00-9fff a640-a69f a720-a7ff a960-a97f a9c0-a9df aa00-aa5f ab70-abbf ac00-ad00 d700-d7ff e000-e00f
f900-fa6f fb00-fb4f fb50-fc00 fe00-fe6f ff00-ffef 10330-1034f 10400-1044f 104b0-104ff 11100-1114f
118a0-118df 16fe0-16fff 1d100-1d1ff 1d400-1d4ff 1e900-1e95f 1f300-1f64f 20000-20080 2f800-2f880
e0000-e007f f0000-f0010 10fff0-10ffff
"""
RANGES = [tuple(int(end, 16) for end in block.split("-")) for block in BLOCKS.split()]

MARKS = "\u0300\u0301\u0308\u0327\u0345\u034f\u05b0\u093c\u094d\u0e38\u1715\u1dc0\u20d0\u3099"
MARKS += "".join(map(chr, normalization.MUSICAL_NOTES)) + "".join(
    map(chr, normalization.SORTED_MARKS)
)
SIGMA = "ΣΣΣσςΑα1.'’:-\u00ad\u02b0\u0345\u0301\u200d\u1d2c ,Я\u0000中İ"
CONTROL = "\0\t\n\v\f\r\x1c\x1f\x7f\x85\u00a0\u00ad\u200b\u200d\u2028\u2029\u202e\u3000\ufeff\ufffd"
# fmt: off
WORDS = [
    "the", "of", "un", "want", "Want", "ing", "running", "ΟΔΟΣ", "İstanbul", "ISTANBUL", "naïve",
    "한국어", "中文", "ﬁne", "ŉ", "ǆ", "straße", "[MASK]", "[SEP]", "[UNK]", "[MASK", "MASK]", "##",
]
INVALID = [
    b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x82", b"\xf0\x9f\x98",
    b"\x80",
]
# fmt: on


def string(rng):
    """Return a random bytes object, mostly UTF-8."""
    return b"".join(_part(rng) for _ in range(rng.randint(1, 4)))


def _part(rng):
    kind = rng.randrange(10)
    if kind == 0:
        alphabet = SIGMA
    elif kind == 1:
        alphabet = MARKS + "aé가𝅘𝅥 "
    elif kind == 2:
        alphabet = CONTROL + "ab é"
    elif kind == 3:
        char = chr(
            rng.choice((0x61, 0x41, 0xE9, 0xC9, 0x3A3, 0x5D0, 0xAC01, 0x1D400, 0x4E00, 0x10400))
        )
        return (rng.choice(("", " ", "x")) + char * rng.randint(195, 206)).encode()
    elif kind == 4:
        text = _letters(rng, rng.randint(1, 12)).encode()
        place = rng.randint(0, len(text))
        return text[:place] + rng.choice(INVALID) + text[place + rng.randint(0, 1) :]
    elif kind == 5:
        return bytes(rng.choices(range(256), k=rng.randint(1, 12)))
    elif kind == 6:
        return rng.choice(("", " ", "")).join(rng.choices(WORDS, k=rng.randint(1, 5))).encode()
    elif kind == 7:
        codes = [rng.randrange(sys.maxunicode + 1) for _ in range(rng.randint(1, 8))]
        return "".join(chr(code) for code in codes if not 0xD800 <= code < 0xE000).encode()
    else:
        return _letters(rng, rng.randint(1, 25)).encode()
    return "".join(rng.choices(alphabet, k=rng.randint(1, 14))).encode()


def _letters(rng, count):
    first, last = rng.choice(RANGES)
    text = "".join(chr(rng.randint(first, last)) for _ in range(count))
    if rng.random() < 0.3:
        text += "".join(rng.choices(MARKS + " \u3000,", k=3))
    return text


def vocabulary(do_lower_case, rng):
    """Return pieces in the order of their ids that cover most strings of `string`.

    The list has flaws of real vocabularies: an empty line, a repeated piece, a piece with a NUL.
    """
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "", "##", "twice", "a\0b", "x" * 201]
    parts = set()
    for _ in range(4000):
        text = string(rng).decode("utf-8", "ignore")
        for word in normalization.normalize(text, do_lower_case).split():
            parts.update(word[:8])
            start = rng.randrange(len(word))
            parts.add(word[start : start + rng.randint(2, 5)])
    for part in sorted(parts - set(pieces)):
        kind = rng.randrange(10)
        pieces += [part] * (kind < 7) + ["##" + part] * (kind > 2)
    return [*pieces, "twice"]


def digest(encode_batch, pieces, context):
    """Return the sha256 of the tokens of every code point in a context, one line each.

    Args:
      encode_batch: function from texts to their ids.
      pieces: dict from id to piece; "zulu" is one of them.
      context: the text around the code point, "the{}of".
    """
    before, after = context.split("{}")
    between = f"{after}\nzulu\n{before}"
    texts = [
        before + between.join(map(chr, range(first, first + 2048))) + after
        for first in range(0, sys.maxunicode + 1, 2048)
        if not 0xD800 <= first < 0xE000
    ]
    sha256 = hashlib.sha256()
    for first in range(0, len(texts), 64):
        for ids in encode_batch(texts[first : first + 64]):
            lines = " ".join([pieces[index] for index in ids]).replace(" zulu ", "\n")
            sha256.update((lines + "\n").encode())
    return sha256.hexdigest()
