"""Vectors of sentences, for similarity and search."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import TaskSpec

SPEC = TaskSpec(
    name="sentence_embedding",
    pretrained_servable=f"{__name__}.servable:pretrained_servable",
    pipeline=f"{__name__}.pipeline:SentenceEncoder",
    heads=("Model",),
)

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "evaluation": ("correlations", "search_scores"),
        "neighbors": ("NearestNeighbors", "l2_normalize", "nearest_neighbors"),
        "pipeline": ("SentenceEncoder",),
        "servable": (),
    },
)
