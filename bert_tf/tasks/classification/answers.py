"""Answers of exported classification and regression models."""

from bert_tf.errors import UserError
from bert_tf.serving.answers import Answers, plain

# A multi-label answer lists the labels with at least this probability.
_LABEL_THRESHOLD = 0.5


class ClassificationAnswers(Answers):
    """The most probable label, and the probabilities of all labels."""

    outputs = ("probabilities",)
    tensors = ("label", "labels")

    @staticmethod
    def answer(outputs, metadata):
        labels, probabilities = labels_and_probabilities(outputs, metadata)
        best = labels[int(outputs["probabilities"].argmax())]
        return {"label": best, "probabilities": probabilities}

    @staticmethod
    def table_columns(answer, metadata):
        return {"prediction": answer["label"], "probabilities": answer["probabilities"]}


class MultiLabelAnswers(Answers):
    """The labels above the threshold, and the probabilities of all labels."""

    outputs = ("probabilities",)
    tensors = ("labels",)

    @staticmethod
    def answer(outputs, metadata):
        _, probabilities = labels_and_probabilities(outputs, metadata)
        likely = [label for label, p in probabilities.items() if p >= _LABEL_THRESHOLD]
        return {"labels": likely, "probabilities": probabilities}

    @staticmethod
    def table_columns(answer, metadata):
        return {"prediction": answer["labels"], "probabilities": answer["probabilities"]}


class RegressionAnswers(Answers):
    """All outputs of the model; tables get only the score."""

    @staticmethod
    def table_columns(answer, metadata):
        return {"prediction": answer["score"]}


def labels_and_probabilities(outputs, metadata):
    """Return the labels, from the metadata or the outputs, and a dict of their probabilities."""
    values, labels = outputs["probabilities"], metadata.get("labels", ())
    if not labels and "labels" in outputs:
        labels = plain(outputs["labels"])
    if len(labels) != len(values):
        raise UserError(
            f"the model has {len(values)} labels, expected {len(labels)} as in its model.json"
        )
    return labels, dict(zip(labels, plain(values), strict=True))
