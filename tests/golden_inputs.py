"""Inputs for the outputs in tests/golden, made from sample_text.txt; see golden/README.md."""

import pathlib
import random

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = ROOT / "sample_text.txt"

# Name -> whether the examples are pairs, and their length.
CLASSIFICATION = {"pairs": (True, 64), "pairs_short": (True, 24), "single": (False, 16)}
MORE_SENTENCES = [
    "Café Noël costs 12,50 € (in 1913: 3 F). Ça va?",
    "Das Straßenfest war schön; 北京 and ÅNGSTRÖM (sixty-two)!",
]


def documents():
    """Return the documents of the sample text as lists of lines."""
    return [block.split("\n") for block in TEXT.read_text(encoding="utf-8").strip().split("\n\n")]


def sentences():
    """Return the lines of the sample text."""
    return [line for document in documents() for line in document]


def classification_examples(is_pair):
    """Return (text_a, text_b, label) tuples; text_b has one to three sentences."""
    lines = sentences()
    examples = []
    for i, line in enumerate(lines):
        text_b = " ".join(lines[(7 * i + k) % len(lines)] for k in range(i % 3 + 1))
        examples.append((line, text_b if is_pair else None, str(i % 2)))
    return examples


def squad(version):
    """Return questions about the sample text in SQuAD's format; "v1" has no unanswerable ones.

    Different kinds of space separate the texts. Some answers begin or end within a word.
    """
    rng = random.Random(1)
    separators = [" ", " ", " ", "\n", "  ", "\u202f", "\t"]
    blocks, articles = documents(), []
    while blocks:
        count = rng.randint(2, 7)
        lines = [line for block in blocks[:count] for line in block] + [rng.choice(MORE_SENTENCES)]
        blocks = blocks[count:]
        context = "".join(line + rng.choice(separators) for line in lines)
        words = context.split(" ")
        questions = []
        for number in range(8):
            first = rng.randrange(len(words) - 6)
            start = len(" ".join([*words[:first], ""])) + rng.choice((0, 0, 0, 1))
            text = context[start : start + rng.randint(3, 30)].strip()
            start = context.index(text, start)
            asked = " ".join(rng.sample(words, rng.randint(2, 12)))
            is_impossible = version == "v2" and rng.random() < 0.3
            question = {"id": f"{len(articles)}-{number}", "question": f"Who said {asked}?"}
            answer = {"text": text, "answer_start": start}
            question["answers"] = [] if is_impossible else [answer]
            if version == "v2":
                question["is_impossible"] = is_impossible
            questions.append(question)
        articles.append({"title": "x", "paragraphs": [{"context": context, "qas": questions}]})
    return {"version": version, "data": articles}


def made_up_logits(num_features, length):
    """Return start and end logits, each float32 of shape (num_features, length)."""
    draw = np.random.RandomState(num_features).standard_normal  # NumPy guarantees these numbers
    return np.round(3 * draw((2, num_features, length)), 3).astype(np.float32)
