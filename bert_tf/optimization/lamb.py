"""LAMB, for large batches."""

import tensorflow as tf

from bert_tf.optimization.adam import AdamWeightDecay


class Lamb(AdamWeightDecay):
    """LAMB (You et al., arXiv:1904.00962, algorithm 2), with the identity for its function phi.

    The update of Adam with bias correction and weight decay, scaled for each weight to the length
    of the weight itself. As in the authors' code, what is excluded from the decay (biases and layer
    norms) is not scaled, nor is a weight or an update that is all zeros; and the gradients are
    clipped, as in `AdamWeightDecay`.
    """

    def __init__(self, learning_rate, **options):
        """Takes the hyper-parameters of `AdamWeightDecay`; the bias is always corrected."""
        super().__init__(learning_rate, bias_correction=True, **options)

    def _rate(self, rate, weight, update, is_excluded):
        if is_excluded:
            return rate
        length, update_length = tf.norm(weight), tf.norm(update)
        is_scaled = (length > 0.0) & (update_length > 0.0)
        return tf.where(is_scaled, rate * length / update_length, rate)
