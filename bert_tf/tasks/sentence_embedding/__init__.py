"""Sentence embeddings for similarity and search (Sentence-BERT, arXiv:1908.10084)."""

from bert_tf.lazy import lazy_names
from bert_tf.training.task_spec import TaskSpec

SPEC = TaskSpec(
    name="sentence_embedding",
    script="run_sentence_encoder.py",
    side_file="sentence_encoder.json",
    config_class=f"{__name__}.config:SentenceEmbeddingConfig",
    read=f"{__name__}.data:read",
    make_model=f"{__name__}.task:make_model",
    make_servable=f"{__name__}.servable:trained_servable",
    pretrained_servable=f"{__name__}.servable:pretrained_servable",
    pipeline=f"{__name__}.pipeline:SentenceEncoder",
    heads=("Model",),
)

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "config": ("SentenceEmbeddingConfig",),
        "data": ("read", "read_examples"),
        "evaluation": ("correlations", "search_scores"),
        "neighbors": (
            "Neighbor",
            "NearestNeighbors",
            "Reranker",
            "l2_normalize",
            "nearest_neighbors",
        ),
        "pipeline": ("SentenceEncoder",),
        "servable": (),
        "task": ("SentenceEmbeddingTask", "make_model"),
    },
)
