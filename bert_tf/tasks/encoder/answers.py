"""Answers of exported encoders."""

import numpy as np

from bert_tf.serving.answers import Answers


class EncoderAnswers(Answers):
    """The outputs without the padding of texts shorter than others in the batch."""

    outputs = ("tokens", "sequence_output")
    tensors = ("tokens",)

    @staticmethod
    def answer(outputs, metadata):
        size = int(np.flatnonzero(outputs["tokens"])[-1]) + 1
        cut = {name: outputs[name][:size] for name in EncoderAnswers.outputs}
        return Answers.answer({**outputs, **cut}, metadata)
