"""Exporting the encoder itself: vectors of the tokens and of the text."""

from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="encoder",
    pretrained_servable=f"{__name__}.servable:pretrained_servable",
    served={"encoder": ServedTask(f"{__name__}.answers:EncoderAnswers")},
)
