"""Answers of exported models that predict masked words."""

from bert_tf.serving.answers import Answers


class FillMaskAnswers(Answers):
    """The outputs without the padding that other rows of the batch caused."""

    outputs = ("words", "probabilities")
    tensors = ("words",)

    @staticmethod
    def answer(outputs, metadata):
        # Over REST, a batch without masks has no third axis.
        size = sum(bool(best[0] != 0) for best in outputs["probabilities"])
        return Answers.answer({name: value[:size] for name, value in outputs.items()}, metadata)
