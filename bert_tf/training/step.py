"""One training step: gradients on each replica, their sum over all replicas, the update."""

import tensorflow as tf

from bert_tf.modeling.task_model import compute_gradients, sum_over_replicas

INITIAL_SCALE = 2.0**15
MIN_SCALE = 1.0
GROWTH_STEPS = 2000


class LossScale:
    """The dynamic loss scale of Micikevicius et al., arXiv:1710.03740, section 3.2.

    A step whose float16 gradients are not finite is skipped and halves the scale; `GROWTH_STEPS`
    finite steps in a row double it. A skipped step counts as a step, and its batch is not used
    again. A checkpoint must contain `variables`, a dict by name.
    """

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
        return {
            "gradient_norm": tf.where(is_scale_too_large, 0.0, norm),
            "loss_scale": scale,
            "skipped_steps": tf.cast(is_scale_too_large, tf.float32),
        }


class TrainStep:
    """A training step of a `training.Task`; `names` are the names of its results."""

    def __init__(self, task, optimizer, config):
        """Create the loss scale, if any, in the strategy's scope; the `optimizer` must be built."""
        self.task, self.optimizer, self.config = task, optimizer, config
        self.names = (*task.loss_names, "loss", "gradient_norm")
        self.loss_scale = None
        if task.model.compute_type == "float16":
            self.loss_scale = LossScale()
            self.names += ("loss_scale", "skipped_steps")
        self._gradients = self._compute_gradients
        # Inside a separate tf.function, replicas of a mirrored strategy cannot exchange outputs.
        if not task.compares_replicas or tf.distribute.get_strategy().num_replicas_in_sync == 1:
            self._gradients = tf.function(
                self._gradients, autograph=False, jit_compile=True if config.xla else None
            )

    @tf.autograph.experimental.do_not_convert  # AutoGraph doubles the time of tracing
    def replica_step(self, batch):
        """Train on this replica's share of a batch. Return a dict of float32 scalars."""
        replica = tf.distribute.get_replica_context()
        weights = sum_over_replicas(self.task.loss_weights(batch))
        gradients, losses = self._accumulate(batch, weights, replica.replica_id_in_sync_group)
        gradients, losses = sum_over_replicas((gradients, losses))
        if self.loss_scale is None:
            return {**losses, "gradient_norm": self.optimizer.apply_reduced(gradients)}
        gradients, is_finite = self.loss_scale.unscale(gradients)
        norm = self.optimizer.apply_reduced(gradients, is_finite, self.loss_scale.skipped_steps)
        return {**losses, **self.loss_scale.update(is_finite, norm)}

    def _accumulate(self, batch, weights, replica_id):
        count = self.config.gradient_accumulation_steps
        if count == 1:
            return self._gradients(batch, weights, replica_id)

        def split(value):
            # The sequence length and the number of windows may be unknown.
            shape = tf.shape(value)
            sizes = (shape[i] if n is None else n for i, n in enumerate(value.shape[1:], 1))
            return tf.reshape(value, (count, value.shape[0] // count, *sizes))

        micro_batches = {name: split(value) for name, value in batch.items()}

        def gradients(i):
            micro_batch = {name: value[i] for name, value in micro_batches.items()}
            return self._gradients(micro_batch, weights, replica_id)

        def add(i, sums):
            return i + 1, tf.nest.map_structure(tf.add, sums, gradients(i))

        return tf.while_loop(
            lambda i, _: i < count,
            add,
            (tf.constant(1), gradients(0)),
            maximum_iterations=count - 1,
        )[1]

    def _compute_gradients(self, batch, weights, replica_id):
        def scale_loss(loss):
            return loss if self.loss_scale is None else loss * self.loss_scale.value

        gradients, losses, _ = compute_gradients(
            self.task.model, self.task, self.optimizer.weights, batch, weights, scale_loss,
            replica_id=replica_id, recompute=self.config.recompute,
        )  # fmt: skip
        return gradients, losses
