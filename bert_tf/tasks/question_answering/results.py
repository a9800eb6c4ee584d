"""The files that prediction ends in: predictions.json, nbest_predictions.json, null_odds.json."""

import contextlib
import json
import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.tasks.question_answering.scoring import Scorer

PREDICTIONS, N_BEST, NULL_ODDS = "predictions.json", "nbest_predictions.json", "null_odds.json"


class Results:
    """What is answered to each question, and the files of it.

    The lists of candidates are written as they come; answers and odds, which are short, are kept
    until a threshold may have been found from them.
    """

    def __init__(self, choice):
        """Takes an `decoding.DecodingConfig`."""
        self._choice = choice
        self._found, self._true, self._paths = {}, {}, {}

    @contextlib.contextmanager
    def writing(self, output_dir):
        """Within it the files are written; all take their places together, where it ends.

        `collect` within it writes the candidates, and `write` the rest.
        """
        names = [N_BEST, PREDICTIONS]
        if self._choice.version_2_with_negative:
            names.append(NULL_ODDS)
        with files.replacing(*(os.path.join(output_dir, name) for name in names)) as paths:
            self._paths = dict(zip(names, paths, strict=True))
            yield
        self._paths = {}
        console.info("%s has the answers to %d questions", output_dir, len(self._found))

    def collect(self, answers):
        """Goes through all answers, pairs as `task.AnswerExtractor.answers` yields them."""
        path = self._paths.get(N_BEST)
        with _writing(path) if path else contextlib.nullcontext() as write:
            for question, found in answers:
                if write:
                    write(question.id, found.n_best())
                # Without the candidates.
                self._found[question.id] = found._replace(candidates=found.candidates[:1])
                self._true[question.id] = question.answers or ()

    def settle(self, threshold=None):
        """Settles the answers, by that threshold of the null odds or by that of the flags.

        Returns:
          Dict from the ids of questions to texts.
        """
        return {name: found.answer(self._choice, threshold) for name, found in self._found.items()}

    def score(self, threshold=None):
        """A `Scorer` of all answers, as `settle` gives them."""
        scorer = Scorer(self._choice.version_2_with_negative)
        for name, given in self.settle(threshold).items():
            found = self._found[name]
            scorer.add(self._true[name], given, found.best, found.null_odds)
        return scorer

    def best_threshold(self):
        """The threshold with the best F1; it lies below all odds if no answer is the best one."""
        scorer = self.score()
        score, threshold = scorer.best_threshold("f1")
        if threshold is None:
            threshold = scorer.min_null_odds - 1.0
        console.info(
            "the best null_score_diff_threshold of this set is %r, with an F1 of %.2f",
            threshold, score,
        )  # fmt: skip
        return threshold

    def write(self, threshold=None):
        """Writes the answers, and the odds if there may be none; within `writing`."""
        with _writing(self._paths[PREDICTIONS]) as write:
            for name, text in self.settle(threshold).items():
                write(name, text)
        if NULL_ODDS in self._paths:
            with _writing(self._paths[NULL_ODDS]) as write:
                for name, found in self._found.items():
                    write(name, found.null_odds)


@contextlib.contextmanager
def _writing(path):
    """Yields a function that writes an entry of a JSON object, with the release's indents."""
    with tf.io.gfile.GFile(path, "w") as writer:
        before = "{\n"

        def write(name, value):
            nonlocal before
            entry = json.dumps({name: value}, indent=4)
            writer.write(before + entry[len("{\n") : -len("\n}")])
            before = ",\n"

        yield write
        writer.write("{}\n" if before == "{\n" else "\n}\n")
