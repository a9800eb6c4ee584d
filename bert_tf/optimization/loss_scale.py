"""Loss scaling, without which float16 loses small gradients to 0 and large ones to infinity."""

import tensorflow as tf

FIRST = 2.0**15
LEAST = 1.0
# Steps without an infinity after which the scale is doubled.
GROWTH_STEPS = 2000


class LossScale:
    """The dynamic scale of Micikevicius et al., arXiv:1710.03740, section 3.2.

    Gradients are those of the loss times `value`, and divided by it before they are used. A step
    whose gradients are not finite is skipped and halves the scale; after `GROWTH_STEPS` steps that
    were not, it is doubled. A skipped step is a step: it is counted, and its batch is not seen
    again.
    """

    def __init__(self):
        """Makes the variables; call it in the strategy's scope."""

        def variable(value, dtype, name):
            return tf.Variable(
                value,
                trainable=False,
                dtype=dtype,
                name=name,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

        self.value = variable(FIRST, tf.float32, "loss_scale")
        self.good_steps = variable(0, tf.int64, "good_steps")
        self.skipped_steps = variable(0, tf.int64, "skipped_steps")

    @property
    def variables(self):
        """What a checkpoint must keep of it, by name."""
        return {
            "loss_scale": self.value,
            "good_steps": self.good_steps,
            "skipped_steps": self.skipped_steps,
        }

    def unscale(self, gradients):
        """Takes the scale off reduced gradients.

        Returns:
          (dict of the gradients, bool scalar: whether all are finite)
        """
        gradients = {name: gradient / self.value for name, gradient in gradients.items()}
        return gradients, tf.math.is_finite(tf.linalg.global_norm(list(gradients.values())))

    def update(self, is_finite, norm):
        """Adapts the scale to a step, in replica context.

        Returns:
          What to report: `loss_scale`, `skipped_steps`, and `gradient_norm`, which is 0 for a
          skipped step unless the scale is at its least: then it is not to blame.
        """
        scale, good = self.value.read_value(), self.good_steps.read_value() + 1
        is_blamed = ~is_finite & (scale > LEAST)
        grown = good >= GROWTH_STEPS
        halved = tf.maximum(scale / 2.0, LEAST)
        self.value.assign(tf.where(is_finite, tf.where(grown, scale * 2.0, scale), halved))
        self.good_steps.assign(tf.where(is_finite & ~grown, good, 0))
        self.skipped_steps.assign_add(tf.cast(~is_finite, tf.int64))
        return {
            "gradient_norm": tf.where(is_blamed, 0.0, norm),
            "loss_scale": scale,
            "skipped_steps": tf.cast(is_blamed, tf.float32),
        }
