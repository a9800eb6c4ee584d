"""Small SQuAD files and the release's golden cases, for the tests of several packages."""

import json
import lzma
from typing import NamedTuple

import numpy as np

from bert_tf.configs.base import hints_of
from bert_tf.tasks.question_answering import decoding
from bert_tf.tasks.question_answering.options import QuestionAnsweringConfig
from tests import golden_inputs

# The data files of the release's outputs in the folder `shared`.
SHARED_DATA = {"v1": "data/xquad/dev.json", "v2": "golden/squad/v2_dev.json"}

CONTEXTS = ("a C b d", "D a b C", "b C a d", "c f D, a b", "f g h i a b d f c j b a")


def question(question_id, text, context, answer=None, **more):
    """Return an entry of "qas"; without an answer the question is unanswerable."""
    answers = [] if answer is None else [{"text": answer, "answer_start": context.index(answer)}]
    return {"id": question_id, "question": text, "answers": answers, **more}


def dataset(path, paragraphs, **more):
    """Write a SQuAD file of (context, questions) pairs; return its path."""
    paragraphs = [{"context": context, "qas": qas} for context, qas in paragraphs]
    data = [{"title": "x", "paragraphs": [paragraph]} for paragraph in paragraphs]
    path.write_text(json.dumps({"version": "1.1", "data": data, **more}))
    return path


def letters(path, has_negative=False):
    """Write questions "c" and "d" answered by that letter; optionally "e", unanswerable."""
    paragraphs = []
    for i, context in enumerate(CONTEXTS):
        qas = []
        for letter in "cd":
            answer = context[context.lower().index(letter)]
            qas.append(question(f"{i}{letter}", letter, context, answer))
        if has_negative:
            qas += [question(f"{i}e", "e", context)]
            qas = [{**entry, "is_impossible": not entry["answers"]} for entry in qas]
        paragraphs.append((context, qas))
    return dataset(path, paragraphs)


class Recording(NamedTuple):
    """The release's outputs for a SQuAD file: digests of windows, and answers to logits."""

    vocab: str
    data: str  # path of the file
    settings: dict  # contains the digests
    logits: tuple  # start and end logits of each window
    answers: dict  # predictions, nbest_predictions and null_odds by name

    @property
    def config(self):
        names = hints_of(QuestionAnsweringConfig).keys() & self.settings.keys()
        return QuestionAnsweringConfig(**{name: self.settings[name] for name in names})


def project_recording(version, golden, manifest, tmp_path):
    """Return the `Recording` in tests/golden, about questions on the project's text."""
    path = tmp_path / f"{version}.json"
    path.write_text(json.dumps(golden_inputs.squad(version)), encoding="utf-8")
    settings = manifest["squad"][version]
    size = settings["eval_features"], settings["max_seq_length"]
    answers = json.loads(lzma.decompress((golden / f"squad_{version}.json.xz").read_bytes()))
    logits = golden_inputs.made_up_logits(*size)
    return Recording(str(golden / "vocab.txt"), str(path), settings, logits, answers)


def shared_recording(version, shared, vocab):
    """Return the `Recording` in the folder `shared`, about questions of XQuAD."""
    folder = shared / "golden" / "squad" / version

    def read(name):
        path = folder / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else None

    names = ("predictions", "nbest_predictions", "null_odds")
    with np.load(folder / "logits.npz") as logits:
        logits = logits["start_logits"], logits["end_logits"]
    answers = {name: read(name) for name in names}
    return Recording(vocab, str(shared / SHARED_DATA[version]), read("manifest"), logits, answers)


def window_logits(start_logits, end_logits, size):
    """Return the `WindowLogits` of a window, as made by the prediction step."""

    def best_first(logits):
        order = np.argsort(-logits, kind="stable")[:size]
        return order.tolist(), logits[order].tolist()

    return decoding.WindowLogits(
        *best_first(start_logits),
        *best_first(end_logits),
        float(start_logits[0]),
        float(end_logits[0]),
    )


def record_values(window, vocab, max_seq_length, unique_id):
    """Return the expected values of a window's record."""
    first = [vocab["[CLS]"], *window.query, vocab["[SEP]"]]
    ids = window.context.ids[window.first : window.first + window.length]
    second = [*ids, vocab["[SEP]"]]
    padding = [0] * (max_seq_length - len(first) - len(second))
    values = {
        "unique_ids": unique_id,
        "input_ids": first + second + padding,
        "input_mask": [1] * (len(first) + len(second)) + padding,
        "segment_ids": [0] * len(first) + [1] * len(second) + padding,
    }
    if window.start_position is not None:
        values["start_positions"] = window.start_position
        values["end_positions"] = window.end_position
        values["is_impossible"] = int(window.is_impossible)
    return values
