"""Answers of exported multiple choice models."""

from bert_tf.serving.answers import Answers, plain


class MultipleChoiceAnswers(Answers):
    """The index of the most probable ending, and the probability of each ending."""

    outputs = ("probabilities",)
    tensors = ("endings",)

    @staticmethod
    def answer(outputs, metadata):
        values = outputs["probabilities"]
        return {"choice": int(values.argmax()), "probabilities": plain(values)}
