"""Export of the encoder without a head: vectors of a text and its tokens."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="encoder",
    pretrained_servable=f"{__name__}.servable:pretrained_servable",
    served={"encoder": ServedTask(f"{__name__}.servable:EncoderAnswers")},
)

__getattr__, __all__ = lazy_names(__name__, {"servable": ()})
