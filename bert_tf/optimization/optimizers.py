"""The release's optimizer and schedule, LAMB, and learning rates by layer.

Weights are addressed by their names in the release, such as "bert/pooler/dense/bias".
"""

import functools
import math
import re

import tensorflow as tf

# Compiling the update pays for weights of at least this many elements.
COMPILED_SIZE = 2**14

NO_DECAY = ("LayerNorm", "layer_norm", "bias")

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")


def linear_warmup_decay(learning_rate, num_train_steps, num_warmup_steps=0):
    """Linear warm-up, then linear decay to 0 (BERT paper, appendix A.2; release's optimizer).

    The decay runs from step 0 over all steps and the warm-up replaces its beginning. So the rate
    drops a little where the warm-up ends, and with a warm-up the rate of the first step is 0.

    Args:
      learning_rate: the peak rate.
      num_train_steps: the step where the decay reaches 0.
      num_warmup_steps: length of the warm-up, 0 for none.

    Returns:
      A function from an integer step tensor to the float32 rate.
    """

    def rate(step):
        step = tf.cast(step, tf.float32)
        decayed = learning_rate * (1.0 - tf.minimum(step / float(num_train_steps), 1.0))
        if not num_warmup_steps:
            return decayed
        warm = learning_rate * (step / float(num_warmup_steps))
        return tf.where(step < float(num_warmup_steps), warm, decayed)

    return rate


def _depth(name):
    """Return 0 for the embeddings, i + 1 for layer i, and None for the pooler and heads."""
    if name.startswith("bert/embeddings/"):
        return 0
    match = _LAYER.match(name)
    return int(match[1]) + 1 if match else None


def rate_factors(names, layer_decay):
    """Return the factor of each weight's learning rate, a dict by name.

    It is 1 for the pooler, the heads and the last layer. Each layer below has `layer_decay` times
    the rate of the layer above, down to the embeddings (Sun et al., arXiv:1905.05583, layer-wise
    decreasing learning rate).
    """
    depths = {name: _depth(name) for name in names}
    top = max((d for d in depths.values() if d is not None), default=0)
    return {name: layer_decay ** (top - d) if d is not None else 1.0 for name, d in depths.items()}


def trainable_weights(weights, num_frozen_layers):
    """Return the weights, a dict by name, that are trained if the lowest layers are frozen.

    The embeddings are frozen with them; with `num_frozen_layers=0` everything is trained.
    """
    if not num_frozen_layers:
        return weights
    depths = {name: _depth(name) for name in weights}
    return {
        name: weight
        for name, weight in weights.items()
        if depths[name] is None or depths[name] > num_frozen_layers
    }


class AdamWeightDecay:
    """Adam (arXiv:1412.6980) with decoupled weight decay (arXiv:1711.05101), as in the release.

    Unlike Keras' AdamW, it corrects the bias of the moments only on request, adds epsilon outside
    the root, and applies the decay in the same update.

    A step reduces gradients over the replicas, clips them and updates the weights. The caller
    reduces, so the norm that is clipped is that of the whole batch for any number of devices.
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
        """Store the hyperparameters, by default those of the release.

        Args:
          learning_rate: a function of the step, such as `linear_warmup_decay` returns.
          weight_decay: factor of the decay.
          beta_1: decay of the first moment.
          beta_2: decay of the second moment.
          epsilon: added to the root of the second moment.
          clip_norm: largest global norm of the gradients.
          exclude_from_weight_decay: regular expressions searched for in the names of the weights.
          bias_correction: whether to divide the moments by 1 - beta**step (arXiv:1412.6980,
            section 3), which makes the first steps larger.
          layer_decay: rate of a layer as a fraction of that of the layer above, see
            `rate_factors`.
        """
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.clip_norm = clip_norm
        self.exclude_from_weight_decay = exclude_from_weight_decay
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay

    def build(self, weights):
        """Create step counter and moments for a dict of variables, in the strategy's scope."""
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
        """Make one step. To be called in replica context.

        Args:
          gradients: dict of names to dense tensors, summed over the replicas. Weights without a
            gradient, because the loss does not depend on them, do not change.
          is_finite: bool scalar; if False, only the step counter changes. None stands for True.
          skipped_steps: number of earlier steps with `is_finite=False`, which the bias correction
            does not count.

        Returns:
          The global norm of the gradients before clipping, a float32 scalar.
        """
        norm = tf.linalg.global_norm(list(gradients.values()))
        # limit / max(norm, limit) is exactly 1 for small gradients, which stay bit-identical.
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
        """Return 1 - beta**step for both betas; None without bias correction."""
        if not self.bias_correction:
            return None
        step = tf.cast(self.step + 1 - skipped_steps, tf.float32)
        # expm1, because 1 - 0.999 in float32 is off by 1e-5.
        return [-tf.math.expm1(step * math.log(beta)) for beta in (self.beta_1, self.beta_2)]

    def _update(self, name, weight, gradient, scale, rate, is_finite, corrections, m, v):
        # Memory bandwidth limits the update on a CPU: compiled, it reads the weight once instead of
        # 15 times and takes a third of the time. It is not compiled on other devices.
        is_compiled = "CPU" in weight.device and weight.shape.num_elements() >= COMPILED_SIZE
        compute_update = self._compiled if is_compiled else self._compute_update
        values = [variable.read_value() for variable in (weight, m, v)]
        rate = rate * self.rate_factors[name]
        new_values = compute_update(
            *values, gradient, scale, rate, is_finite, corrections, self._is_excluded(name)
        )
        for variable, value in zip((weight, m, v), new_values, strict=True):
            variable.assign(value)

    def _compute_update(
        self, weight, m, v, gradient, scale, rate, is_finite, corrections, is_excluded
    ):
        """Return the weight and its moments after a step."""
        # Not the fused kernel: it takes 1 - beta in float32, which is off by 1e-5 for beta_2.
        gradient = gradient * scale
        new_m, new_v = 1.0 - self.beta_1, 1.0 - self.beta_2
        if is_finite is not None:  # A factor of 1 changes no bit, and a factor of 0 skips the step.
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
        """Return the learning rate of one weight in one step."""
        return rate

    def _is_excluded(self, name):
        return any(re.search(pattern, name) for pattern in self.exclude_from_weight_decay)


class Lamb(AdamWeightDecay):
    """LAMB (You et al., arXiv:1904.00962, algorithm 2) with the identity for its function phi.

    The update of Adam with bias correction and weight decay, scaled for each weight to the norm of
    the weight itself. As in the authors' code, weights that are excluded from the decay (biases and
    layer norms) are not scaled, nor are weights or updates that are all zeros; and the gradients
    are clipped as in `AdamWeightDecay`.
    """

    def __init__(self, learning_rate, **options):
        """Store the hyperparameters of `AdamWeightDecay`, with bias correction."""
        super().__init__(learning_rate, bias_correction=True, **options)

    def _rate(self, rate, weight, update, is_excluded):
        if is_excluded:
            return rate
        weight_norm, update_norm = tf.norm(weight), tf.norm(update)
        is_scaled = (weight_norm > 0.0) & (update_norm > 0.0)
        return tf.where(is_scaled, rate * weight_norm / update_norm, rate)
