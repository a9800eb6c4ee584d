"""Answers of exported models that predict masked words."""

from bert_tf.serving.answers import Answers


class FillMaskAnswers(Answers):
    """The outputs without the padding of texts with fewer masks than others in the batch."""

    outputs = ("words", "probabilities")
    tensors = ("words",)

    @staticmethod
    def answer(outputs, metadata):
        # REST drops the last axis if no text of the batch has a mask.
        size = sum(bool(best[0] != 0) for best in outputs["probabilities"])
        return Answers.answer({name: value[:size] for name, value in outputs.items()}, metadata)
