"""One training step: gradients on each replica, their sum over all replicas, the update."""

import tensorflow as tf

from bert_tf.optimization import LossScale
from bert_tf.optimization.replicas import sum_over_replicas


class TrainStep:
    """A training step of a `tasks.base.Task`; `replica_step` is called in replica context.

    `names` lists its results: each loss, their sum, the norm of the gradients before clipping and,
    in float16, the loss scale and 1 for a step that was skipped.
    """

    def __init__(self, task, optimizer, options):
        """Create the variables of the loss scale, if any; must be called in the strategy's scope.

        The `optimizer` is already built; `options` is a `TrainConfig`.
        """
        self.task, self.optimizer, self.options = task, optimizer, options
        self.names = (*task.loss_names, "loss", "gradient_norm")
        self.loss_scale = None
        if task.model.compute_type == "float16":
            self.loss_scale = LossScale()
            self.names += ("loss_scale", "skipped_steps")
        self._gradients = tf.function(
            self._compute_gradients, autograph=False, jit_compile=True if options.xla else None
        )

    @tf.autograph.experimental.do_not_convert  # AutoGraph would double the time of tracing
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
        """Return this replica's gradients and losses, summed over its micro-batches."""
        count = self.options.gradient_accumulation_steps
        if count == 1:
            return self._gradients(batch, weights, replica_id)

        def split(value):
            # Only the sequence length may be unknown.
            sizes = (-1 if size is None else size for size in value.shape[1:])
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
        """Return the gradients and losses of a micro-batch: two dicts by name."""
        with tf.GradientTape() as tape:
            outputs = self.task.model(
                batch, training=True, replica_id=replica_id, recompute=self.options.recompute
            )
            losses = self.task.losses(outputs, batch, weights)
            losses["loss"] = tf.add_n(list(losses.values()))
            target = losses["loss"]
            if self.loss_scale is not None:
                target *= self.loss_scale.value
        gradients = tape.gradient(target, self.optimizer.weights)
        # Embeddings have sparse gradients with repeated rows, which the conversion adds up. Weights
        # on which the loss does not depend, such as the pooler of a token classifier, have no
        # gradient and do not change.
        return {
            name: tf.convert_to_tensor(gradient)
            for name, gradient in gradients.items()
            if gradient is not None
        }, losses
