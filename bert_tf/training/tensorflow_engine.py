"""`TensorFlowEngine`: training steps and predictions on the devices of a `tf.distribute.Strategy`.

A step computes gradients on each replica, sums them over all replicas, and updates the weights.
"""

import dataclasses
import functools

import tensorflow as tf

from bert_tf import console
from bert_tf.modeling import cpu_graph, token_layout
from bert_tf.modeling.objective_model import compute_gradients, sum_over_replicas
from bert_tf.training import checkpointing, strategy
from bert_tf.training.engine import Engine

INITIAL_SCALE = 2.0**15
MIN_SCALE = 1.0
GROWTH_STEPS = 2000

# Below this number of steps, a GPU does not use XLA by default, because compilation takes about a
# minute for each of up to four sequence lengths. An estimate, not measured on a GPU.
MIN_XLA_STEPS = 2000

_NORM = "gradient_norm"


class TensorFlowEngine(Engine):
    """Runs steps and predictions on the replicas of `strategy`, a `tf.distribute.Strategy`."""

    has_any_batch_size = True
    _collective_errors = (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
    )

    def __init__(self, strategy):
        self.strategy, self.num_devices = strategy, strategy.num_replicas_in_sync
        self.is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.is_chief = strategy.extended.should_checkpoint

    @classmethod
    def make(cls, device=None):
        return cls(strategy.make_strategy(device))

    @classmethod
    def default(cls):
        """Return an engine for the strategy in scope, by default for all devices.

        On a single device it has Keras' own strategy, with which Keras accepts optimizers that were
        created outside a scope.
        """
        made = None if tf.distribute.has_strategy() else strategy.make_strategy()
        if made is None or isinstance(made, tf.distribute.OneDeviceStrategy):
            made = tf.distribute.get_strategy()
        return cls(made)

    @classmethod
    def of(cls, model):
        return cls(model.distribute_strategy or tf.distribute.get_strategy())

    @property
    def _is_tpu(self):
        return isinstance(self.strategy, tf.distribute.TPUStrategy)

    def scope(self):
        return self.strategy.scope()

    def compiles(self, xla=None, num_train_steps=None):
        if self._is_tpu:  # TensorFlow compiles for it without being asked
            return False
        if xla is None:  # on a CPU, it is slower
            is_short = num_train_steps is not None and num_train_steps < MIN_XLA_STEPS
            return cpu_graph.has_gpu() and not is_short
        return xla

    def length_multiple(self, max_seq_length, is_compiled, num_train_steps=None):
        # A TPU compiles the step for a single length.
        return None if self._is_tpu else super().length_multiple(max_seq_length, is_compiled)

    def can_skip_padding(self, is_compiled=False, reads_padding=False):
        return token_layout.can_skip_padding(self.strategy, is_compiled, reads_padding)

    def check(self, config):
        if config.xla is not None and self._is_tpu:
            console.warning("`xla` has no effect on a TPU, which always compiles with it")

    def prepare(self, objective, optimizer, config, num_train_steps):
        model = objective.model
        xla = self.compiles(config.xla, num_train_steps)
        model.skip_padding &= self.can_skip_padding(xla)
        with self.scope():
            optimizer.build(checkpointing.trainable_weights(model))
            loss_scale = LossScale.of(model)
            optimizer.allows_xla = config.xla is not False or not cpu_graph.has_gpu()
            config = dataclasses.replace(config, xla=xla)
            step = make_train_step(objective, optimizer, config, loss_scale)
        self._step = make_run_steps(step, objective, self.strategy, loss_scale)
        self.state = checkpointing.run_state(model, optimizer, loss_scale)

    def batches(self, train_input, first_step):
        dataset = self.strategy.distribute_datasets_from_function(
            lambda context: train_input.batches(first_step, context)
        )
        return iter(dataset)

    def run_steps(self, batches, count):
        sums, first_bad = self._step(batches, tf.constant(count))
        return {name: float(value) for name, value in sums.items()}, int(first_bad)

    def predict_step(self, objective):
        def replica_step(batch):
            predictions = objective.predictions(objective.model(batch, training=False), batch)
            return {**predictions, "is_real_example": batch["is_real_example"]}

        return _on_all_replicas(replica_step, self.strategy)

    def predict(self, step, eval_input):
        batches = self.strategy.distribute_datasets_from_function(eval_input.batches)
        if not self._is_tpu:
            # Trace once for all shapes; the first batch alone would be traced with its own.
            step.get_concrete_function(batches.element_spec)
        for batch in batches:
            yield {name: x.numpy() for name, x in step(batch).items()}

    def compute_steps(self, function, model, spec):
        def run_replica(skip_padding, batch):
            # Every replica receives the whole batch.
            if self.num_devices > 1:
                replica = tf.distribute.get_replica_context().replica_id_in_sync_group
                batch = {
                    name: tf.gather(tf.stack(tf.split(values, self.num_devices)), replica)
                    for name, values in batch.items()
                }
            return function(model(batch, training=False, skip_padding=skip_padding), batch)

        # For a single row, skipping padding takes more time.
        return [
            _on_all_replicas(functools.partial(run_replica, skip_padding), self.strategy, spec)
            for skip_padding in (self.can_skip_padding(), False)
        ]

    def _mean_over_workers(self, value):
        replicas = self.strategy.run(lambda: tf.constant(value, tf.float64))
        return self.strategy.reduce(tf.distribute.ReduceOp.MEAN, replicas, axis=None).numpy()


def _on_all_replicas(function, strategy, spec=None):
    """Make a `tf.function` that maps a batch to the results of all replicas, in order.

    `function` maps the batch of a replica to a dict of tensors (B, ...). `spec` has the
    `tf.TensorSpec`s of a batch that is not distributed, to trace only once.
    """

    @tf.function(input_signature=[spec] if spec else None, autograph=False)
    def step(batch):
        values = strategy.run(function, args=(batch,))
        return {name: strategy.gather(value, axis=0) for name, value in values.items()}

    return step


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

    def compute(batch, denominators, replica_id):
        model, weights = objective.model, optimizer.weights
        options = {"replica_id": replica_id, "recompute": config.recompute}
        return compute_gradients(
            model, objective, weights, batch, denominators, scale_loss, **options
        )[:2]

    # Inside a separate tf.function, replicas of a mirrored strategy cannot exchange outputs.
    if not objective.compares_replicas or tf.distribute.get_strategy().num_replicas_in_sync == 1:
        compute = tf.function(compute, autograph=False, jit_compile=True if config.xla else None)

    @tf.autograph.experimental.do_not_convert  # AutoGraph doubles the time of tracing
    def train_step(batch):
        replica_id = tf.distribute.get_replica_context().replica_id_in_sync_group
        denominators = sum_over_replicas(objective.denominators(batch))
        function = functools.partial(compute, denominators=denominators, replica_id=replica_id)
        sums = _sum_over_parts(function, batch, config.gradient_accumulation_steps)
        gradients, losses = sum_over_replicas(sums)
        if loss_scale is None:
            return {**losses, _NORM: optimizer.apply_reduced(gradients)}
        scale = loss_scale.value.read_value()
        norm = optimizer.apply_reduced(gradients, scale, loss_scale.skipped_steps)
        return {**losses, **loss_scale.update(norm)}

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
            values = {k: strategy.experimental_local_results(x)[0] for k, x in values.items()}
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
        scale, zero = tf.constant(INITIAL_SCALE), tf.constant(0, tf.int64)
        initial = {"loss_scale": scale, "good_steps": zero, "skipped_steps": zero}
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

    def update(self, norm):
        """Adapt the scale to a step's `norm`, in replica context; return a dict of results.

        The norm of a skipped step is reported as 0, because a lower scale may fix it. At the lowest
        scale, the cause is elsewhere, so `skipped_steps` is 0 and the norm is unchanged.
        """
        scale, good_steps = self.value.read_value(), self.good_steps.read_value() + 1
        is_finite = tf.math.is_finite(norm)
        is_scale_too_large = ~is_finite & (scale > MIN_SCALE)
        is_grown = good_steps >= GROWTH_STEPS
        halved = tf.maximum(scale / 2.0, MIN_SCALE)
        self.value.assign(tf.where(is_finite, tf.where(is_grown, scale * 2.0, scale), halved))
        self.good_steps.assign(tf.where(is_finite & ~is_grown, good_steps, 0))
        self.skipped_steps.assign_add(tf.cast(~is_finite, tf.int64))
        norm = tf.where(is_scale_too_large, 0.0, norm)
        results = (norm, scale, tf.cast(is_scale_too_large, tf.float32))
        return dict(zip(self.result_names, results, strict=True))
