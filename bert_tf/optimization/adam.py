"""Adam with decoupled weight decay and clipping by the global norm, as the release has it."""

import functools
import math
import re

import tensorflow as tf

from bert_tf.optimization.layer_decay import rate_factors

# Elements of a weight from which on its update is worth compiling.
COMPILED_SIZE = 2**14

NO_DECAY = ("LayerNorm", "layer_norm", "bias")


class AdamWeightDecay:
    """Adam (arXiv:1412.6980) with decoupled weight decay (arXiv:1711.05101), as BERT was trained.

    It differs from Keras' AdamW: the moments are not corrected for their bias unless that is asked
    for, epsilon stands outside the root, and the decay is part of the same update.

    The order of a step is: reduce over replicas, clip, update. Reducing is the caller's (`apply`
    wants reduced gradients), so a clipped norm is that of the whole batch on any number of devices.
    """

    slot_names = ("adam_m", "adam_v")

    def __init__(
        self,
        learning_rate,
        weight_decay=0.01,
        beta_1=0.9,
        beta_2=0.999,
        epsilon=1e-6,
        clip_norm=1.0,
        exclude_from_weight_decay=NO_DECAY,
        bias_correction=False,
        layer_decay=1.0,
    ):
        """Takes the hyper-parameters; the defaults are the release's.

        Args:
          learning_rate: a function of the step, as in `schedules`.
          weight_decay: rate of the decay.
          beta_1: decay of the first moment.
          beta_2: decay of the second moment.
          epsilon: added to the root of the second moment.
          clip_norm: largest global norm of the gradients.
          exclude_from_weight_decay: patterns searched in the release's names of the weights.
          bias_correction: whether to divide the moments by 1 - beta**step (arXiv:1412.6980,
            section 3), which makes the first steps larger.
          layer_decay: rate of a layer as a share of that of the layer above, see `rate_factors`.
        """
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.clip_norm = clip_norm
        self.exclude_from_weight_decay = exclude_from_weight_decay
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay

    def build(self, weights):
        """Makes the step counter and the moments; call it in the strategy's scope.

        Args:
          weights: dict of the release's names to `tf.Variable`, those to be trained.
        """
        self.weights = weights
        self.rate_factors = rate_factors(weights, self.layer_decay)
        self.step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name="global_step",
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        self.slots = {
            f"{name}/{slot}": tf.Variable(tf.zeros_like(v), trainable=False, name=slot)
            for name, v in self.weights.items()
            for slot in self.slot_names
        }
        self._compiled = tf.function(self._compute_update, jit_compile=True, autograph=False)

    def apply(self, gradients, is_finite=None, skipped_steps=0):
        """Makes one step. Call it in replica context.

        Args:
          gradients: dict of the weights' names to dense tensors, summed over the replicas. A weight
            that is not in it, because the loss does not depend on it, stays as it is.
          is_finite: bool scalar; where it is False nothing but the step counter changes. None
            stands for True.
          skipped_steps: how many steps before were so, which the bias of the moments knows not of.

        Returns:
          The global norm of the gradients before clipping, a float32 scalar.
        """
        norm = tf.linalg.global_norm(list(gradients.values()))
        # 1 / max(norm, limit), not limit / norm, leaves small gradients untouched to the bit.
        scale = self.clip_norm / tf.maximum(norm, self.clip_norm)
        rate = self.learning_rate(self.step)
        tf.distribute.get_replica_context().merge_call(
            self._update_all, (gradients, scale, rate, is_finite, skipped_steps)
        )
        return norm

    def _update_all(self, strategy, gradients, scale, rate, is_finite, skipped_steps):
        corrections = self._bias_corrections(skipped_steps)
        for name, gradient in gradients.items():
            slots = [self.slots[f"{name}/{slot}"] for slot in self.slot_names]
            strategy.extended.update(
                self.weights[name],
                functools.partial(self._update, name),
                args=(gradient, scale, rate, is_finite, corrections, *slots),
                group=False,
            )
        self.step.assign_add(1)

    def _bias_corrections(self, skipped_steps):
        """1 - beta**step for both betas, None where there is no correction."""
        if not self.bias_correction:
            return None
        step = tf.cast(self.step + 1 - skipped_steps, tf.float32)
        # expm1, because 1 - 0.999 in float32 is off by 1e-5.
        return [-tf.math.expm1(step * math.log(beta)) for beta in (self.beta_1, self.beta_2)]

    def _update(self, name, weight, gradient, scale, rate, is_finite, corrections, m, v):
        # On a CPU the update is bound by memory: compiled, it goes through it once, not 15 times,
        # and takes a third of the time. Other devices have their own ways.
        is_compiled = "CPU" in weight.device and weight.shape.num_elements() >= COMPILED_SIZE
        following = self._compiled if is_compiled else self._compute_update
        values = [variable.read_value() for variable in (weight, m, v)]
        rate = rate * self.rate_factors[name]
        new_values = following(
            *values, gradient, scale, rate, is_finite, corrections, self._is_excluded(name)
        )
        for variable, value in zip((weight, m, v), new_values, strict=True):
            variable.assign(value)

    def _compute_update(
        self, weight, m, v, gradient, scale, rate, is_finite, corrections, is_excluded
    ):
        """The weight and its moments after a step."""
        # Not the fused kernel: it takes 1 - beta in float32, which is off by 1e-5 for beta_2.
        gradient = gradient * scale
        new_m, new_v = 1.0 - self.beta_1, 1.0 - self.beta_2
        if is_finite is not None:  # times 1 changes no bit, and times 0 nothing at all
            gradient = tf.where(is_finite, gradient, 0.0)
            keep = tf.cast(is_finite, tf.float32)
            new_m, new_v, rate = new_m * keep, new_v * keep, rate * keep
        m += (gradient - m) * new_m
        v += (tf.square(gradient) - v) * new_v
        first, second = m, v
        if corrections is not None:
            first, second = m / corrections[0], v / corrections[1]
        update = first / (tf.sqrt(second) + self.epsilon)
        if self.weight_decay and not is_excluded:
            update += self.weight_decay * weight
        return weight - self._rate(rate, weight, update, is_excluded) * update, m, v

    def _rate(self, rate, weight, update, is_excluded):
        """The learning rate of one weight in one step."""
        return rate

    def _is_excluded(self, name):
        return any(re.search(pattern, name) for pattern in self.exclude_from_weight_decay)
