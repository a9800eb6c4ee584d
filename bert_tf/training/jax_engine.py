"""`JaxEngine`: training steps and predictions on all devices of JAX.

A batch is divided over the devices, and XLA inserts the sums over them. The state of a run is in
the Keras variables of the model and the optimizer between two calls of `run_steps`.
"""

import contextlib
import itertools

import jax
import jax.numpy as jnp
import keras
import numpy as np
from jax.interpreters import partial_eval
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bert_tf import console
from bert_tf.configs.train import DeviceConfig
from bert_tf.data import input_pipeline
from bert_tf.errors import UserError
from bert_tf.training import checkpointing, cluster

_TENSORFLOW = "requires the TensorFlow backend of Keras"


class JaxEngine:
    """Runs steps and predictions on the devices of JAX, in a single process.

    Attributes:
      num_devices: the number of devices, which divide each batch.
      row_multiple: the batches of Keras' `fit` must be a multiple of it.
    """

    is_multi_worker = False
    is_chief = True
    # Each number of rows is compiled.
    has_any_batch_size = False

    def __init__(self):
        distribution = keras.distribution.distribution()
        mesh = Mesh(jax.devices()[:1], "batch")
        if distribution is not None:
            mesh = distribution.device_mesh.backend_mesh
        self.num_devices = self.row_multiple = mesh.devices.shape[0]
        self._replicated = NamedSharding(mesh, PartitionSpec())
        self._rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
        self._parts = NamedSharding(mesh, PartitionSpec(None, mesh.axis_names[0]))
        self.release()

    @classmethod
    def make(cls, device=None):
        """Return an engine for all devices; UserError for options of other backends."""
        device = device or DeviceConfig()
        if device.distribution_strategy != "auto":
            raise UserError(f"`distribution_strategy={device.distribution_strategy}` {_TENSORFLOW}")
        if len(cluster.read_tf_config()[0]) > 1:
            raise UserError(f"TF_CONFIG lists several workers, which {_TENSORFLOW}")
        for name in ("tpu_name", "tpu_zone", "gcp_project", "master", "num_tpu_cores"):
            if device.is_given(name):
                console.warning("`%s` has no effect on JAX, which finds TPUs itself", name)
        if device.use_tpu and (found := jax.default_backend()) != "tpu":
            raise UserError(f"`use_tpu`: JAX finds no TPU, only {found}; see docs/devices.md")
        return cls.default()

    @classmethod
    def default(cls):
        """Return an engine for all devices, unless a `keras.distribution` is set."""
        _hide_gpus_from_tensorflow()
        devices = keras.distribution.list_devices()
        if keras.distribution.distribution() is None and len(devices) > 1:
            keras.distribution.set_distribution(keras.distribution.DataParallel())
        engine = cls()
        console.info("devices: %d x %s, JAX", engine.num_devices, devices[0].partition(":")[0])
        return engine

    @classmethod
    def of(cls, model):
        """Return an engine for the devices of a Keras model."""
        return cls()

    def scope(self):
        """Return the context in which models and optimizers are created."""
        return contextlib.nullcontext()

    def compiles(self, xla=None, num_train_steps=None):
        """Return whether training steps are compiled for each length."""
        return True

    def length_multiple(self, max_seq_length, is_compiled):
        """Return the multiple to pad batches to."""
        return input_pipeline.length_multiple(max_seq_length, is_compiled)

    def can_skip_padding(self, is_compiled=False, reads_padding=False):
        """Return False: the number of tokens is not static."""
        return False

    def fill_batches(self, dataset):
        """Return a dataset of dicts whose batches divide over the devices, with the same losses.

        The last row is repeated with `is_real_example` 0.
        """
        import tensorflow as tf  # `dataset` is one of its datasets

        count = self.num_devices
        if count == 1:
            return dataset

        def fill(batch):
            size = tf.shape(batch["input_ids"])[0]
            rows = tf.range(-(-size // count) * count)
            is_real = tf.cast(rows < size, tf.int32)
            batch = {name: tf.gather(x, tf.minimum(rows, size - 1)) for name, x in batch.items()}
            return {**batch, "is_real_example": is_real}

        return dataset.map(fill)

    def check(self, config):
        """Raise UserError for options of a `TrainConfig` that the steps do not support."""
        if config.xla is False:
            raise UserError(f"`xla=False` {_TENSORFLOW}; JAX always compiles")
        if config.dtype == "float16":
            raise UserError(f"`dtype=float16` {_TENSORFLOW}, which scales the loss; use bfloat16")

    def prepare(self, objective, optimizer, config, num_train_steps):
        """Build the optimizer and the function that makes steps; see `TensorFlowEngine`."""
        model = objective.model
        weights = checkpointing.weights(model, trainable_only=True)
        optimizer.build(weights)
        self._checkpoint = checkpointing.run_state(model, optimizer)
        is_weight, is_trained = ({id(x) for x in y} for y in (model.weights, weights.values()))
        seeds = [x for x in model.variables if id(x) not in is_weight]
        self._state = {"weights": weights, "seeds": seeds, "optimizer": optimizer.variables}
        self._fixed = [x for x in model.weights if id(x) not in is_trained]
        step = self._make_step(objective, optimizer, config)
        self._step = jax.jit(step, donate_argnums=(0, 1), out_shardings=self._replicated)
        self._names = (*objective.loss_names, "loss", "gradient_norm")

    def release(self):
        """Free what `prepare` made."""
        self._checkpoint = self._state = self._fixed = self._step = None

    def state(self):
        """Return the variables of a checkpoint, by name."""
        return self._checkpoint

    def _make_step(self, objective, optimizer, config):
        """Return the function of one training step.

        It maps the state, the totals over the steps so far, the weights that are not trained, and a
        batch (B, ...) to the new state and totals.
        """
        variables, fixed_variables = self._state, self._fixed
        num_parts = config.gradient_accumulation_steps

        def compute_loss(weights, seeds, fixed, batch, denominators):
            used = variables["weights"], variables["seeds"], fixed_variables
            with _with_values(used, (weights, seeds, fixed)) as scope:
                outputs = objective.model(batch, training=True, recompute=config.recompute)
                losses = objective.losses(outputs, batch, denominators)
            losses["loss"] = sum(losses.values())
            return losses["loss"], (losses, _read(scope, variables["seeds"]))

        def compute_gradients(weights, *arguments):
            # JAX has gradients of 0 for weights that do not affect the loss. They must not decay.
            used = _used(lambda x: compute_loss(x, *arguments)[0], weights)

            def function(used):
                return compute_loss({**weights, **used}, *arguments)

            gradients, (losses, seeds) = jax.grad(function, has_aux=True)(used)
            return (gradients, losses), seeds

        def accumulate(weights, seeds, fixed, batch, denominators):
            def compute(seeds, part):
                return compute_gradients(weights, seeds, fixed, part, denominators)

            def add(carry, part):
                sums, seeds = carry
                values, seeds = compute(seeds, part)
                return (jax.tree.map(jnp.add, sums, values), seeds), None

            parts = jax.tree.map(lambda x: self._split(x, num_parts), batch)
            first = jax.tree.map(lambda x: x[0], parts)
            shapes, _ = jax.eval_shape(compute, seeds, first)
            zeros = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
            return jax.lax.scan(add, (zeros, seeds), parts)[0]

        def step(state, totals, fixed, batch):
            weights, seeds = state["weights"], state["seeds"]
            function = compute_gradients if num_parts == 1 else accumulate
            (gradients, losses), seeds = function(
                weights, seeds, fixed, batch, objective.loss_weights(batch)
            )
            with _with_values(variables, state) as scope:
                norm = optimizer.apply_reduced(gradients)
            results = {**losses, "gradient_norm": norm}
            is_finite = jnp.isfinite(jnp.stack(list(results.values()))).all()
            is_first_bad = ~is_finite & (totals["first_bad"] < 0)
            return {**_read(scope, variables), "seeds": seeds}, {
                "sums": {name: x + results[name] for name, x in totals["sums"].items()},
                "first_bad": jnp.where(is_first_bad, totals["step"], totals["first_bad"]),
                "step": totals["step"] + 1,
            }

        return step

    def _split(self, x, num_parts):
        """Divide rows (B, ...) into parts (P, B / P, ...), which have rows of all devices."""
        x = x.reshape(self.num_devices, num_parts, -1, *x.shape[1:]).swapaxes(0, 1)
        x = x.reshape(num_parts, -1, *x.shape[3:])
        return jax.lax.with_sharding_constraint(x, self._parts)

    def batches(self, data, first_step):
        """Return an iterator over the batches of a `TrainingInput` from `first_step` on."""
        return data.batches(first_step).as_numpy_iterator()

    def run_steps(self, batches, count):
        """Make `count` steps with the next batches; see `TensorFlowEngine`.

        The host does not wait for the devices until it reads the results.
        """
        state, fixed = jax.device_put(_read(None, (self._state, self._fixed)), self._replicated)
        sums = dict.fromkeys(self._names, np.float32(0))
        totals = {"sums": sums, "first_bad": np.int32(-1), "step": np.int32(0)}
        totals = jax.device_put(totals, self._replicated)
        try:
            for batch in itertools.islice(batches, count):
                state, totals = self._step(state, totals, fixed, jax.device_put(batch, self._rows))
        finally:
            # The steps have consumed the arrays that the variables had.
            jax.tree.map(lambda variable, x: variable.assign(x), self._state, state)
        sums = {name: float(totals["sums"][name]) for name in self._names}
        return sums, int(totals["first_bad"])

    def predict_step(self, objective):
        """Return the function for `predict`, which makes the predictions of an objective."""
        model = objective.model

        @jax.jit
        def predict(values, batch):
            with _with_values(model.variables, values):
                return objective.predictions(model(batch, training=False), batch)

        def step(batch):
            values = jax.device_put([x.value for x in model.variables], self._replicated)
            return predict(values, jax.device_put(batch, self._rows))

        return step

    def predict(self, step, data):
        """Yield the predictions of all rows of each batch of an `EvaluationInput`, as arrays."""

        def compute(batch):
            batch, size = self._fill(batch)
            real = {"is_real_example": batch["is_real_example"]}
            return {**step(batch), **real}, size

        running = map(compute, data.batches().as_numpy_iterator())
        # Copy the previous predictions to the host while the devices compute.
        for (values, size), _ in itertools.pairwise(itertools.chain(running, [None])):
            yield {name: np.asarray(x)[:size] for name, x in values.items()}

    def compute_steps(self, function, model, spec):
        """Return two functions from a batch in memory to outputs; see `TensorFlowEngine`."""

        def compute(batch):
            return function(self.predict_on_batch(model, batch), batch)

        return compute, compute

    def predict_on_batch(self, model, inputs):
        """Return a model's outputs as arrays; `inputs` is a dict of arrays (B, ...), any B."""
        inputs, size = self._fill({name: np.asarray(x) for name, x in inputs.items()})
        outputs = model.predict_on_batch(inputs)
        return keras.tree.map_structure(lambda x: keras.ops.convert_to_numpy(x)[:size], outputs)

    def _fill(self, batch):
        """Repeat the last row of a dict of arrays until the devices divide it; return its size."""
        size = len(next(iter(batch.values())))
        if missing := -size % self.num_devices:
            rows = [*range(size), *[size - 1] * missing]
            batch = {name: x[rows] for name, x in batch.items()}
        return batch, size

    def mean(self, *values):
        """Return the mean of each number over all workers, of which there is one."""
        return values

    def watched(self):
        """Return a context without effect, because there are no other workers."""
        return contextlib.nullcontext()

    def chief_first(self, write):
        """Call `write` and return its result."""
        return write()


def _with_values(variables, values):
    """Return the scope in which Keras variables have the values of the same structure."""
    return keras.StatelessScope(zip(*map(jax.tree.leaves, (variables, values)), strict=True))


def _read(scope, variables):
    """Return the values of a structure of variables, the new ones in a scope, if any."""
    return jax.tree.map(scope.get_current_value if scope else lambda x: x.value, variables)


def _used(function, weights):
    """Return the weights, a dict, that affect the result of a function."""
    jaxpr = jax.make_jaxpr(function)(weights).jaxpr
    _, is_used = partial_eval.dce_jaxpr(jaxpr, [True])
    # The arguments of the program are in the order of the leaves.
    names = sorted(weights)
    return {name: weights[name] for name, x in zip(names, is_used, strict=True) if x}


def _hide_gpus_from_tensorflow():
    """TensorFlow only prepares the data on the host, but would reserve all GPU memory."""
    import tensorflow as tf

    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        console.warning("TensorFlow keeps GPU memory that JAX cannot use: %s", error)
