"""Learning rates as functions of the step."""

import tensorflow as tf


def linear_warmup_decay(learning_rate, num_train_steps, num_warmup_steps=0):
    """Linear warm-up, then linear decay to 0 (BERT paper, appendix A.2; release's optimizer).

    The decay runs from step 0 over all steps, and the warm-up hides its beginning, so the rate
    drops a little where the warm-up ends, and the very first step has rate 0 if there is one.

    Args:
      learning_rate: the rate that both lines aim at.
      num_train_steps: where the decay reaches 0.
      num_warmup_steps: length of the warm-up, 0 for none.

    Returns:
      A function of an integer step tensor to the float32 rate.
    """

    def rate(step):
        step = tf.cast(step, tf.float32)
        decayed = learning_rate * (1.0 - tf.minimum(step / float(num_train_steps), 1.0))
        if not num_warmup_steps:
            return decayed
        warm = learning_rate * (step / float(num_warmup_steps))
        return tf.where(step < float(num_warmup_steps), warm, decayed)

    return rate
