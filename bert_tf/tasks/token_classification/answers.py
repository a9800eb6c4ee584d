"""Answers of exported token classifiers."""

from bert_tf.serving.answers import Answers, plain


class TokenClassificationAnswers(Answers):
    """The entities of a text, as dicts."""

    outputs = ("entity", "label", "start", "end", "score")
    tensors = ("entity",)

    @staticmethod
    def answer(outputs, metadata):
        names = TokenClassificationAnswers.outputs
        columns = (plain(outputs[name]) for name in names)
        entities = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        return {"entities": [entity for entity in entities if entity["start"] >= 0]}
