"""Predicting masked words (BERT paper, section 3.1, task 1)."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(__name__, {"pipeline": ("FillMask", "perplexity")})
