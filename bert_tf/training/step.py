"""One training step: gradients on each replica, their sum over all replicas, the update."""

import tensorflow as tf

from bert_tf.modeling.objective_model import compute_gradients, sum_over_replicas

INITIAL_SCALE = 2.0**15
MIN_SCALE = 1.0
GROWTH_STEPS = 2000

_NORM = "gradient_norm"


def make_train_step(objective, optimizer, config, loss_scale=None):
    """Return the function of one training step, in the strategy's scope.

    It trains on a replica's share of a batch, in replica context, and returns float32 scalars: the
    losses, their sum "loss", the "gradient_norm" and the results of the `loss_scale`.

    Args:
      objective: a `training.Objective`.
      optimizer: a built optimizer of `bert_tf.optimization`.
      config: a `TrainConfig`.
      loss_scale: the `LossScale` of a model in float16.
    """

    def scale_loss(loss):
        return loss * loss_scale.value if loss_scale else loss

    def compute(batch, weights, replica_id):
        options = {"replica_id": replica_id, "recompute": config.recompute}
        gradients, losses, _ = compute_gradients(
            objective.model, objective, optimizer.weights, batch, weights, scale_loss, **options
        )
        return gradients, losses

    # Inside a separate tf.function, replicas of a mirrored strategy cannot exchange outputs.
    if not objective.compares_replicas or tf.distribute.get_strategy().num_replicas_in_sync == 1:
        compute = tf.function(compute, autograph=False, jit_compile=True if config.xla else None)

    @tf.autograph.experimental.do_not_convert  # AutoGraph doubles the time of tracing
    def train_step(batch):
        replica_id = tf.distribute.get_replica_context().replica_id_in_sync_group
        weights = sum_over_replicas(objective.loss_weights(batch))
        sums = _sum_over_parts(
            lambda part: compute(part, weights, replica_id),
            batch,
            config.gradient_accumulation_steps,
        )
        gradients, losses = sum_over_replicas(sums)
        if loss_scale is None:
            return {**losses, _NORM: optimizer.apply_reduced(gradients)}
        gradients, is_finite = loss_scale.unscale(gradients)
        norm = optimizer.apply_reduced(gradients, is_finite, loss_scale.skipped_steps)
        return {**losses, **loss_scale.update(is_finite, norm)}

    return train_step


def _sum_over_parts(function, batch, count):
    """Return the sum of the results of a function for each of `count` parts of a batch."""
    if count == 1:
        return function(batch)

    def split(value):
        # The sequence length and the number of windows may be unknown.
        shape = tf.shape(value)
        sizes = (shape[i] if n is None else n for i, n in enumerate(value.shape[1:], 1))
        return tf.reshape(value, (count, value.shape[0] // count, *sizes))

    parts = {name: split(value) for name, value in batch.items()}

    def call(i):
        return function({name: value[i] for name, value in parts.items()})

    def add(i, sums):
        return i + 1, tf.nest.map_structure(tf.add, sums, call(i))

    start = tf.constant(1), call(0)
    return tf.while_loop(lambda i, _: i < count, add, start, maximum_iterations=count - 1)[1]


def make_run_steps(train_step, objective, strategy, loss_scale=None):
    """Return a `tf.function` that makes a number of steps on all replicas.

    It maps an iterator of distributed batches and the number to the sums of the results, and the
    index of the first step whose results are not finite, or -1.
    """
    names = [*objective.loss_names, "loss", *(loss_scale.result_names if loss_scale else [_NORM])]

    @tf.function
    def run_steps(batches, steps):
        sums = dict.fromkeys(names, tf.constant(0.0))
        first_bad = tf.constant(-1)
        for i in tf.range(steps):
            values = strategy.run(train_step, args=(next(batches),))
            # All replicas have the same values after the reduction: take the first.
            values = {
                name: strategy.experimental_local_results(value)[0]
                for name, value in values.items()
            }
            sums = {name: sums[name] + values[name] for name in sums}
            is_finite = tf.reduce_all(tf.math.is_finite(list(values.values())))
            first_bad = tf.where(is_finite | (first_bad >= 0), first_bad, i)
        return sums, first_bad

    return run_steps


class LossScale:
    """The dynamic loss scale of Micikevicius et al., arXiv:1710.03740, section 3.2.

    A step whose float16 gradients are not finite is skipped and halves the scale; `GROWTH_STEPS`
    finite steps in a row double it. A skipped step counts as a step, and its batch is not used
    again. A checkpoint must contain `variables`, a dict by name.
    """

    # The results of `update`.
    result_names = (_NORM, "loss_scale", "skipped_steps")

    def __init__(self):
        """Create the variables in the strategy's scope."""
        initial = {
            "loss_scale": tf.constant(INITIAL_SCALE),
            "good_steps": tf.constant(0, tf.int64),
            "skipped_steps": tf.constant(0, tf.int64),
        }
        only_first = tf.VariableAggregation.ONLY_FIRST_REPLICA
        self.variables = {
            name: tf.Variable(value, trainable=False, name=name, aggregation=only_first)
            for name, value in initial.items()
        }
        self.value, self.good_steps, self.skipped_steps = self.variables.values()

    @classmethod
    def of(cls, model):
        """Return the loss scale of a Keras model, None if it does not compute in float16."""
        return cls() if model.compute_dtype == "float16" else None

    def unscale(self, gradients):
        """Divide reduced gradients by the scale; also return whether all are finite."""
        gradients = {name: gradient / self.value for name, gradient in gradients.items()}
        return gradients, tf.math.is_finite(tf.linalg.global_norm(list(gradients.values())))

    def update(self, is_finite, norm):
        """Adapt the scale after a step, in replica context; return a dict of results.

        The norm of a skipped step is reported as 0, because a lower scale may fix it. At the lowest
        scale, the cause is elsewhere, so `skipped_steps` is 0 and the norm is unchanged.
        """
        scale, good_steps = self.value.read_value(), self.good_steps.read_value() + 1
        is_scale_too_large = ~is_finite & (scale > MIN_SCALE)
        is_grown = good_steps >= GROWTH_STEPS
        halved = tf.maximum(scale / 2.0, MIN_SCALE)
        self.value.assign(tf.where(is_finite, tf.where(is_grown, scale * 2.0, scale), halved))
        self.good_steps.assign(tf.where(is_finite & ~is_grown, good_steps, 0))
        self.skipped_steps.assign_add(tf.cast(~is_finite, tf.int64))
        norm = tf.where(is_scale_too_large, 0.0, norm)
        results = (norm, scale, tf.cast(is_scale_too_large, tf.float32))
        return dict(zip(self.result_names, results, strict=True))
