"""Prediction of masked words (BERT paper, section 3.1, task 1)."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import ServedTask, TaskSpec

SPEC = TaskSpec(
    name="fill_mask",
    pretrained_servable=f"{__name__}.servable:pretrained_servable",
    pipeline=f"{__name__}.pipeline:FillMask",
    served={
        "fill_mask": ServedTask(f"{__name__}.servable:FillMaskAnswers", options=("num_best",)),
    },
    heads=("ForMaskedLM", "ForPreTraining"),
)

__getattr__, __all__ = lazy_names(
    __name__, {"pipeline": ("FillMask", "MaskPredictions"), "servable": ()}
)
