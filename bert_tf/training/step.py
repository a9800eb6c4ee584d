"""One training step on one replica: gradients, their sum over all replicas, the update."""

import tensorflow as tf

from bert_tf import modeling
from bert_tf.optimization import LossScale

_SUM = tf.distribute.ReduceOp.SUM


class TrainStep:
    """The step of a task with an optimizer; call `replica_step` in replica context.

    What it reports is in `names`: each loss, their sum, the norm of the gradients before clipping
    and, in float16, the scale of the loss and 1 for a step that was skipped.
    """

    def __init__(self, task, optimizer, options):
        """Makes the variables of the loss scale, if there is one: call it in the strategy's scope.

        Args:
          task: a `tasks.base.Task`.
          optimizer: one of `bert_tf.optimization`, built.
          options: `Options`.
        """
        self.task, self.optimizer, self.options = task, optimizer, options
        self.names = (*task.loss_names, "loss", "gradient_norm")
        self.loss_scale = None
        if task.model.compute_type == "float16":
            self.loss_scale = LossScale()
            self.names += ("loss_scale", "skipped_steps")
        self._gradients = tf.function(self._gradients_of, jit_compile=True if options.xla else None)

    def replica_step(self, batch):
        """Makes a step on this replica's share of a batch; returns a dict of float32 scalars."""
        replica = tf.distribute.get_replica_context()
        weights = _summed(replica, self.task.loss_weights(batch))
        gradients, losses = self._accumulated(batch, weights, replica.replica_id_in_sync_group)
        gradients, losses = _summed(replica, (gradients, losses))
        if self.loss_scale is None:
            return {**losses, "gradient_norm": self.optimizer.apply(gradients)}
        gradients, is_finite = self.loss_scale.unscale(gradients)
        norm = self.optimizer.apply(gradients, is_finite, self.loss_scale.skipped_steps)
        return {**losses, **self.loss_scale.update(is_finite, norm)}

    def _accumulated(self, batch, weights, salt):
        """Gradients and losses of this replica, part by part if there are several."""
        count = self.options.gradient_accumulation_steps
        if count == 1:
            return self._gradients(batch, weights, salt)

        def split(value):
            # At most the length of the sequences is not static.
            rest = (-1 if size is None else size for size in value.shape[1:])
            return tf.reshape(value, (count, value.shape[0] // count, *rest))

        parts = {name: split(value) for name, value in batch.items()}

        def part(i):
            return self._gradients({name: x[i] for name, x in parts.items()}, weights, salt)

        sums = part(0)
        for i in tf.range(1, count):
            sums = tf.nest.map_structure(tf.add, sums, part(i))
        return sums

    def _gradients_of(self, batch, weights, salt):
        """A part's share of gradients and losses: two dicts by name."""
        mode = modeling.training_mode(salt, self.options.recompute)
        with mode, tf.GradientTape() as tape:
            losses = self.task.losses(self.task.model(batch, training=True), batch, weights)
            losses["loss"] = tf.add_n(list(losses.values()))
            target = losses["loss"]
            if self.loss_scale is not None:
                target *= self.loss_scale.value
        gradients = tape.gradient(target, self.optimizer.weights)
        # Embeddings give sparse gradients with repeated rows; made dense, they are added up. What
        # the loss does not depend on (a tagger's pooler) has none, and stays as it is.
        return {
            name: tf.convert_to_tensor(gradient)
            for name, gradient in gradients.items()
            if gradient is not None
        }, losses


def _summed(replica, values):
    """Values added up over all replicas, in the structure that they have."""
    if replica.num_replicas_in_sync == 1:
        # TensorFlow keeps what `all_reduce` traces for as long as the process lives (it registers a
        # gradient for it), and with it the graph, weights and moments of each seed.
        return values
    return replica.all_reduce(_SUM, values)
