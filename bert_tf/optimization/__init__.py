"""The release's optimizer and its learning-rate schedule."""

from bert_tf.optimization.adam import AdamWeightDecay
from bert_tf.optimization.schedules import linear_warmup_decay

__all__ = ["AdamWeightDecay", "linear_warmup_decay"]
