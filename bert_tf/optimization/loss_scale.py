"""Loss scaling, which keeps small gradients in float16 from becoming 0 and large ones infinite."""

import tensorflow as tf

INITIAL_SCALE = 2.0**15
MIN_SCALE = 1.0
# Number of finite steps in a row after which the scale is doubled.
GROWTH_STEPS = 2000


class LossScale:
    """The dynamic loss scale of Micikevicius et al., arXiv:1710.03740, section 3.2.

    The loss is multiplied by `value` and its gradients are divided by it. A step whose gradients
    are not finite is skipped and halves the scale; `GROWTH_STEPS` finite steps in a row double it.
    A skipped step is counted as a step, and its batch is not used again.
    """

    def __init__(self):
        """Create the variables. To be called in the strategy's scope."""

        def variable(value, dtype, name):
            return tf.Variable(
                value,
                trainable=False,
                dtype=dtype,
                name=name,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            )

        self.value = variable(INITIAL_SCALE, tf.float32, "loss_scale")
        self.good_steps = variable(0, tf.int64, "good_steps")
        self.skipped_steps = variable(0, tf.int64, "skipped_steps")

    @property
    def variables(self):
        """The variables that a checkpoint must contain, by name."""
        return {
            "loss_scale": self.value,
            "good_steps": self.good_steps,
            "skipped_steps": self.skipped_steps,
        }

    def unscale(self, gradients):
        """Divide reduced gradients by the scale.

        Returns:
          (dict of the gradients, bool scalar: whether all are finite)
        """
        gradients = {name: gradient / self.value for name, gradient in gradients.items()}
        return gradients, tf.math.is_finite(tf.linalg.global_norm(list(gradients.values())))

    def update(self, is_finite, norm):
        """Adapt the scale after a step, in replica context.

        Args:
          is_finite: bool scalar, whether the gradients were finite.
          norm: their global norm.

        Returns:
          What to report: `loss_scale`, `skipped_steps`, and `gradient_norm`. Steps that are skipped
          because of a large scale are reported with a norm of 0, because the scale will adapt. At
          the smallest scale the scale is not the cause: `skipped_steps` is 0 and the norm as it is.
        """
        scale, good_steps = self.value.read_value(), self.good_steps.read_value() + 1
        is_scale_too_large = ~is_finite & (scale > MIN_SCALE)
        is_grown = good_steps >= GROWTH_STEPS
        halved = tf.maximum(scale / 2.0, MIN_SCALE)
        self.value.assign(tf.where(is_finite, tf.where(is_grown, scale * 2.0, scale), halved))
        self.good_steps.assign(tf.where(is_finite & ~is_grown, good_steps, 0))
        self.skipped_steps.assign_add(tf.cast(~is_finite, tf.int64))
        return {
            "gradient_norm": tf.where(is_scale_too_large, 0.0, norm),
            "loss_scale": scale,
            "skipped_steps": tf.cast(is_scale_too_large, tf.float32),
        }
