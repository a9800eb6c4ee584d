"""`JaxEngine`: training steps and predictions on all devices of JAX.

A batch is divided over the devices of all processes, and XLA inserts the sums over them. The state
of a run is in the Keras variables of the model and the optimizer between two calls of `run_steps`.
Each process has its own copy there, so that only steps, predictions and `mean` need all processes.
"""

import atexit
import contextlib
import functools
import itertools
import os
import sys
import time

import jax
import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf
from jax.experimental import multihost_utils
from jax.interpreters import partial_eval
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from bert_tf import console
from bert_tf.configs.train import DeviceConfig
from bert_tf.errors import Stopped, UserError
from bert_tf.training import checkpointing, cluster
from bert_tf.training.engine import Engine

# In runs with fewer steps times `max_seq_length`, batches have one length, except on a CPU. On an
# H100, three more compilations of BERT-Base cost 100 s, and shorter batches save half of a step,
# 5 ms for 128 tokens.
MIN_BUCKETED_TOKENS = 20_000 * 128

_TENSORFLOW = "requires the TensorFlow backend of Keras"


class JaxEngine(Engine):
    """Runs steps and predictions on the devices of JAX, which compiles each number of rows."""

    # Small programs raise ValueError. Compilers and full memory raise the same classes.
    _collective_errors = (jax.errors.JaxRuntimeError, ValueError)
    _lost_messages = (
        "Gloo|NCCL|[Cc]oordination|[Hh]eartbeat|[Cc]onnection|UNAVAILABLE|DEADLINE_EXCEEDED|"
        "ABORTED|CANCELLED"
    )

    def __init__(self, mesh=None):
        """Create an engine for a mesh, by default of a `keras.distribution` or the first device."""
        distribution = keras.distribution.distribution()
        if mesh is None and distribution is not None:
            mesh = distribution.device_mesh.backend_mesh
        mesh = mesh or Mesh(jax.local_devices()[:1], "batch")
        self.row_multiple = mesh.devices.shape[0]
        count, number = jax.process_count(), jax.process_index()
        self.is_multi_worker, self.is_chief = count > 1, number == 0
        # The share of this process in the batches: consecutive rows.
        self._share = tf.distribute.InputContext(count, number, count)
        if self.is_multi_worker:
            mesh = Mesh(sorted(jax.devices(), key=lambda x: (x.process_index, x.id)), "batch")
        self._mesh, self.num_devices = mesh, mesh.devices.shape[0]
        self._replicated = NamedSharding(mesh, P())
        self._rows = NamedSharding(mesh, P(mesh.axis_names[0]))
        self._parts = NamedSharding(mesh, P(None, mesh.axis_names[0]))

    @classmethod
    def make(cls, device=None):
        device = device or DeviceConfig()
        if device.distribution_strategy != "auto":
            raise UserError(f"`distribution_strategy={device.distribution_strategy}` {_TENSORFLOW}")
        for name in ("tpu_name", "tpu_zone", "gcp_project", "master", "num_tpu_cores"):
            if device.is_given(name):
                console.warning("`%s` has no effect on JAX, which finds TPUs itself", name)
        _connect(device.use_tpu)
        if device.use_tpu and (found := jax.default_backend()) != "tpu":
            raise UserError(f"`use_tpu`: JAX finds no TPU, only {found}; see docs/devices.md")
        return cls.default()

    @classmethod
    def default(cls):
        _connect()
        try:  # TensorFlow only prepares the data on the host, but would reserve all GPU memory
            tf.config.set_visible_devices([], "GPU")
        except RuntimeError as error:
            console.warning("TensorFlow keeps GPU memory that JAX cannot use: %s", error)
        devices = [f"{x.platform}:{x.id}" for x in jax.local_devices()]
        if keras.distribution.distribution() is None and len(devices) > 1:
            keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices))
        engine = cls()
        workers = f" in {jax.process_count()} workers, this is worker {jax.process_index()}"
        workers = workers if engine.is_multi_worker else ""
        console.info(f"devices: {engine.num_devices} x {jax.default_backend()}, JAX{workers}")
        return engine

    @classmethod
    def of(cls, model):
        return cls()

    def length_multiple(self, max_seq_length, is_compiled, num_train_steps=None):
        tokens = None if num_train_steps is None else num_train_steps * max_seq_length
        is_short = tokens is not None and tokens < MIN_BUCKETED_TOKENS
        # Workers do not see the lengths of each other's rows.
        if self.is_multi_worker or (is_short and jax.default_backend() != "cpu"):
            return None
        return super().length_multiple(max_seq_length, is_compiled)

    def fill_batches(self, dataset):
        """Repeat the last row with `is_real_example` 0, which does not change the losses."""
        count = self.row_multiple
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
        if config.xla is False:
            raise UserError(f"`xla=False` {_TENSORFLOW}; JAX always compiles")
        if config.dtype == "float16":
            raise UserError(f"`dtype=float16` {_TENSORFLOW}, which scales the loss; use bfloat16")

    def prepare(self, objective, optimizer, config, num_train_steps):
        model = objective.model
        weights = checkpointing.trainable_weights(model)
        optimizer.build(weights)
        if self.is_multi_worker:  # random weights may differ
            values = multihost_utils.broadcast_one_to_all(_read(None, model.variables))
            jax.tree.map(lambda variable, x: variable.assign(x), model.variables, values)
        self.state = checkpointing.run_state(model, optimizer)
        seeds, is_trained = checkpointing.dropout_seeds(model), {id(x) for x in weights.values()}
        updated = {"weights": weights, "seeds": seeds, "optimizer": optimizer.variables}
        fixed = [x for x in model.weights if id(x) not in is_trained]
        step = self._make_step(objective, optimizer, config, updated, fixed)
        step = jax.jit(step, donate_argnums=(0, 1), out_shardings=self._replicated)
        self._step = step, updated, fixed
        self._names = (*objective.loss_names, "loss", "gradient_norm")

    def lower(self, batch):
        """Return the program of a step, which JAX can compile, for the shapes of a batch.

        `batch` is a dict of `jax.ShapeDtypeStruct`. The devices of the mesh need not be there.
        """

        def shape(sharding, x):
            return jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding)

        step, updated, fixed = self._step
        values = _read(None, updated), self._totals(), _read(None, fixed)
        same = jax.tree.map(functools.partial(shape, self._replicated), values)
        return step.lower(*same, jax.tree.map(functools.partial(shape, self._rows), batch))

    def _make_step(self, objective, optimizer, config, variables, fixed_variables):
        """Return the function of one training step.

        It maps the state, the totals over the steps so far, the weights that are not trained, and a
        batch (B, ...) to the new state and totals.
        """
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
            denominators = objective.denominators(batch)
            (gradients, losses), seeds = function(weights, seeds, fixed, batch, denominators)
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

    def batches(self, train_input, first_step):
        return train_input.batches(first_step, self._share).as_numpy_iterator()

    def _to_devices(self, values, spec):
        """Return arrays of all processes from the rows, or the equal arrays, of each process."""
        return multihost_utils.host_local_array_to_global_array(values, self._mesh, spec)

    def run_steps(self, batches, count):
        """Make steps; the host does not wait for the devices until it reads the results."""
        step, updated, fixed = self._step
        values = _read(None, updated), self._totals(), _read(None, fixed)
        state, totals, fixed = self._to_devices(values, P())
        try:
            for batch in itertools.islice(batches, count):
                batch = self._to_devices(batch, self._rows.spec)
                state, totals = step(state, totals, fixed, batch)
        finally:
            # The steps have consumed the arrays that the variables had.
            values = multihost_utils.global_array_to_host_local_array(state, self._mesh, P())
            jax.tree.map(lambda variable, x: variable.assign(x), updated, values)
        sums = {name: float(totals["sums"][name]) for name in self._names}
        return sums, int(totals["first_bad"])

    def _totals(self):
        sums = dict.fromkeys(self._names, np.float32(0))
        return {"sums": sums, "first_bad": np.int32(-1), "step": np.int32(0)}

    def predict_step(self, objective):
        model = objective.model

        @functools.partial(jax.jit, out_shardings=self._replicated)
        def predict(values, batch):
            with _with_values(model.variables, values):
                predictions = objective.predictions(model(batch, training=False), batch)
            return {**predictions, "is_real_example": batch["is_real_example"]}

        return model, predict

    def predict(self, step, eval_input):
        model, function = step
        values = self._to_devices(_read(None, model.variables), P())

        def compute(batch):
            batch, size = self._fill(batch)
            is_real = batch["is_real_example"] * (np.arange(len(batch["input_ids"])) < size)
            batch["is_real_example"] = is_real.astype("int32")
            return function(values, self._to_devices(batch, self._rows.spec))

        running = map(compute, eval_input.batches(self._share).as_numpy_iterator())
        # Copy the previous predictions to the host while the devices compute.
        for outputs, _ in itertools.pairwise(itertools.chain(running, [None])):
            yield {name: np.asarray(x) for name, x in outputs.items()}

    def compute_steps(self, function, model, spec):
        def compute(batch):
            return function(self.predict_on_batch(model, batch), batch)

        return compute, compute

    def predict_on_batch(self, model, inputs):
        inputs, size = self._fill({name: np.asarray(x) for name, x in inputs.items()})
        outputs = model.predict_on_batch(inputs)
        return keras.tree.map_structure(lambda x: keras.ops.convert_to_numpy(x)[:size], outputs)

    def _fill(self, batch):
        """Repeat the last row of a dict of arrays until the devices divide it; return its size."""
        size = len(next(iter(batch.values())))
        if missing := -size % self.row_multiple:
            rows = [*range(size), *[size - 1] * missing]
            batch = {name: x[rows] for name, x in batch.items()}
        return batch, size

    def _mean_over_workers(self, value):
        # JAX has no float64, in which the keys of files are exact.
        words = multihost_utils.process_allgather(np.array([value], np.float64).view(np.uint32))
        return words.view(np.float64).mean()

    def _prepare_exit(self):
        atexit.register(_exit_alone)


def _exit_alone():
    """Exit without JAX, which would wait for the lost worker and then abort the process."""
    sys.stdout.flush()
    sys.stderr.flush()
    if jax.process_index() == 0:
        time.sleep(10)  # JAX aborts workers that lose worker 0 before they notice the lost one
    os._exit(Stopped.RESUME_ME)


@functools.cache  # JAX knows whether it is connected, but not that it has no hosts to find
def _connect(use_tpu=False):
    """Join the workers of TF_CONFIG, or of a TPU; must precede the first operation of JAX."""
    workers, own = cluster.read_tf_config()
    is_listed = len(workers) > 1
    if jax.distributed.is_initialized() or not (is_listed or use_tpu):
        return
    name = "TF_CONFIG" if is_listed else "`use_tpu`"
    with cluster.connecting(name):
        if is_listed:
            cluster.wait_for_workers(workers, own)
            address, number = workers[0].split()[1], workers.index(own)
            options = {"cluster_detection_method": "deactivate"}
            jax.distributed.initialize(address, len(workers), number, **options)
        else:
            # ValueError: a single host that is not in a cloud
            with contextlib.suppress(ValueError):
                jax.distributed.initialize()
    if is_listed:
        with cluster.connecting(name):
            # Connects all processes now. Later, one that reads data for 30 seconds more than the
            # others would be taken for lost.
            multihost_utils.process_allgather(np.zeros(1, np.uint32))


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
