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
from jax.experimental import multihost_utils
from jax.interpreters import partial_eval
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from bert_tf import console
from bert_tf.configs.train import DeviceConfig
from bert_tf.data import input_pipeline
from bert_tf.errors import Stopped, UserError, reason
from bert_tf.training import checkpointing, cluster

# With fewer steps, batches have one length, except on a CPU. On an H100, three more compilations of
# BERT-Base take 100 s, and half of a step 5 ms.
MIN_BUCKETED_STEPS = 20_000

_TENSORFLOW = "requires the TensorFlow backend of Keras"


class JaxEngine:
    """Runs steps and predictions on the devices of JAX.

    Attributes:
      num_devices: the number of devices of all processes, which divide each batch.
      row_multiple: the batches of Keras' `fit` must be a multiple of it.
      is_multi_worker: whether several processes work together.
      is_chief: whether this process writes the files of a run.
    """

    # Each number of rows is compiled.
    has_any_batch_size = False

    def __init__(self, mesh=None):
        """Create an engine for a mesh, by default of a `keras.distribution` or the first device."""
        distribution = keras.distribution.distribution()
        if mesh is None and distribution is not None:
            mesh = distribution.device_mesh.backend_mesh
        mesh = mesh or Mesh(jax.local_devices()[:1], "batch")
        self._local = NamedSharding(mesh, PartitionSpec())
        self.num_local_devices = self.row_multiple = mesh.devices.shape[0]
        self.is_multi_worker = jax.process_count() > 1
        self.is_chief = jax.process_index() == 0
        if self.is_multi_worker:
            # Each process reads consecutive rows of a batch.
            mesh = Mesh(sorted(jax.devices(), key=lambda x: (x.process_index, x.id)), "batch")
        self.num_devices = mesh.devices.shape[0]
        self._replicated = NamedSharding(mesh, PartitionSpec())
        self._rows = NamedSharding(mesh, PartitionSpec(mesh.axis_names[0]))
        self._parts = NamedSharding(mesh, PartitionSpec(None, mesh.axis_names[0]))
        self.release()

    @classmethod
    def make(cls, device=None):
        """Return an engine for all devices; raise UserError if an option is of another backend."""
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
        """Return an engine for all devices, unless a `keras.distribution` is set."""
        _connect()
        _hide_gpus_from_tensorflow()
        devices = [f"{x.platform}:{x.id}" for x in jax.local_devices()]
        if keras.distribution.distribution() is None and len(devices) > 1:
            local = keras.distribution.DataParallel(devices=devices)
            keras.distribution.set_distribution(local)
        engine = cls()
        kind, number = devices[0].partition(":")[0], jax.process_index()
        workers = f" in {jax.process_count()} workers, this is worker {number}"
        workers = workers if engine.is_multi_worker else ""
        console.info("devices: %d x %s, JAX%s", engine.num_devices, kind, workers)
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

    def length_multiple(self, max_seq_length, is_compiled, num_train_steps=None):
        """Return the multiple to pad batches to; None for `max_seq_length`.

        Batches must have the same length on all workers, which do not see each other's rows.
        """
        is_short = num_train_steps is not None and num_train_steps < MIN_BUCKETED_STEPS
        if self.is_multi_worker or (is_short and jax.default_backend() != "cpu"):
            return None
        return input_pipeline.length_multiple(max_seq_length, is_compiled)

    def can_skip_padding(self, is_compiled=False, reads_padding=False):
        """Return False: the number of tokens is not static."""
        return False

    def fill_batches(self, dataset):
        """Return a dataset of dicts whose batches divide over the devices, with the same losses.

        The last row is repeated with `is_real_example` 0.
        """
        import tensorflow as tf  # `dataset` is one of its datasets

        count = self.num_local_devices
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
        """Raise UserError if the steps do not support an option of a `TrainConfig`."""
        if config.xla is False:
            raise UserError(f"`xla=False` {_TENSORFLOW}; JAX always compiles")
        if config.dtype == "float16":
            raise UserError(f"`dtype=float16` {_TENSORFLOW}, which scales the loss; use bfloat16")

    def prepare(self, objective, optimizer, config, num_train_steps):
        """Build the optimizer and the function that makes steps; see `TensorFlowEngine`."""
        model = objective.model
        weights = checkpointing.trainable_weights(model)
        optimizer.build(weights)
        if self.is_multi_worker:  # random weights may differ
            values = multihost_utils.broadcast_one_to_all(_read(None, model.variables))
            jax.tree.map(lambda variable, x: variable.assign(x), model.variables, values)
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

    def lower(self, batch):
        """Return the program of a step, which JAX can compile, for the shapes of a batch.

        `batch` is a dict of `jax.ShapeDtypeStruct`. The devices of the mesh need not be there.
        """

        def shapes(values, sharding):
            return jax.tree.map(
                lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding), values
            )

        state, totals, fixed = _read(None, self._state), self._totals(), _read(None, self._fixed)
        same = (shapes(x, self._replicated) for x in (state, totals, fixed))
        return self._step.lower(*same, shapes(batch, self._rows))

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
                weights, seeds, fixed, batch, objective.denominators(batch)
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
        return data.batches(first_step, self._input_context()).as_numpy_iterator()

    def _input_context(self):
        """Return the share of this process in the batches, None for whole batches."""
        import tensorflow as tf  # its datasets read the batches

        count = jax.process_count()
        share = tf.distribute.InputContext(count, jax.process_index(), count)
        return share if self.is_multi_worker else None

    def _on_all_devices(self, values):
        """Return arrays on all devices from arrays that are equal in all processes."""
        return jax.tree.map(
            lambda x: _with_sharding(x, self._replicated), jax.device_put(values, self._local)
        )

    def _divided(self, batch):
        """Return arrays of whole batches from the rows of this process."""
        if not self.is_multi_worker:
            return jax.device_put(batch, self._rows)
        return jax.make_array_from_process_local_data(self._rows, batch)

    def run_steps(self, batches, count):
        """Make `count` steps with the next batches; see `TensorFlowEngine`.

        The host does not wait for the devices until it reads the results.
        """
        state, fixed = self._on_all_devices(_read(None, (self._state, self._fixed)))
        totals = self._on_all_devices(self._totals())
        try:
            for batch in itertools.islice(batches, count):
                state, totals = self._step(state, totals, fixed, self._divided(batch))
        finally:
            # The steps have consumed the arrays that the variables had.
            jax.tree.map(
                lambda variable, x: variable.assign(_with_sharding(x, self._local)),
                self._state,
                state,
            )
        sums = {name: float(totals["sums"][name]) for name in self._names}
        return sums, int(totals["first_bad"])

    def _totals(self):
        sums = dict.fromkeys(self._names, np.float32(0))
        return {"sums": sums, "first_bad": np.int32(-1), "step": np.int32(0)}

    def predict_step(self, objective):
        """Return the model and the function for `predict`, which makes its predictions."""
        model = objective.model

        @functools.partial(jax.jit, out_shardings=self._replicated)
        def predict(values, batch):
            with _with_values(model.variables, values):
                predictions = objective.predictions(model(batch, training=False), batch)
            return {**predictions, "is_real_example": batch["is_real_example"]}

        return model, predict

    def predict(self, step, data):
        """Yield the predictions of all rows of each batch of an `EvaluationInput`, as arrays."""
        model, function = step
        values = self._on_all_devices([x.value for x in model.variables])

        def compute(batch):
            batch, size = self._fill(batch)
            is_real = batch["is_real_example"] * (np.arange(len(batch["input_ids"])) < size)
            batch["is_real_example"] = is_real.astype("int32")
            return function(values, self._divided(batch))

        running = map(compute, data.batches(self._input_context()).as_numpy_iterator())
        # Copy the previous predictions to the host while the devices compute.
        for outputs, _ in itertools.pairwise(itertools.chain(running, [None])):
            yield {name: np.asarray(x) for name, x in outputs.items()}

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
        if missing := -size % self.num_local_devices:
            rows = [*range(size), *[size - 1] * missing]
            batch = {name: x[rows] for name, x in batch.items()}
        return batch, size

    def mean(self, *values):
        """Return the mean of each number over all workers, which must call it together."""
        if not self.is_multi_worker:
            return values
        with self.watched():
            # JAX has no float64, in which the keys of files are exact.
            words = np.array(values, np.float64).view(np.uint32)
            words = multihost_utils.process_allgather(words)
        return tuple(words.view(np.float64).mean(0).tolist())

    @contextlib.contextmanager
    def watched(self):
        """Raise `Stopped` instead of the errors of collectives when another worker is lost."""
        try:
            yield
        except jax.errors.JaxRuntimeError as error:
            if not self.is_multi_worker or "RESOURCE_EXHAUSTED" in str(error):
                raise
            atexit.register(_exit_alone)
            raise cluster.lost_worker(error) from error

    def chief_first(self, write):
        """Call `write` on the chief and return its result; other workers wait until it is done."""
        result = write() if self.is_chief else None
        self.mean(0.0)
        return result


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
    try:
        if is_listed:
            cluster.wait_for_workers(workers, own)
            address, number = workers[0].split()[1], workers.index(own)
            options = {"cluster_detection_method": "deactivate"}
            with cluster.keeping_handler():
                jax.distributed.initialize(address, len(workers), number, **options)
        else:
            # ValueError: a single host that is not in a cloud
            with cluster.keeping_handler(), contextlib.suppress(ValueError):
                jax.distributed.initialize()
    except (RuntimeError, ValueError, OSError, OverflowError) as error:
        name = "TF_CONFIG" if is_listed else "`use_tpu`"
        raise UserError(f"{name}: cannot connect to other workers ({reason(error)})") from error


def _with_sharding(x, sharding):
    """Return an array with equal values on all devices as one of some of them, or of more."""
    shards = [shard.data for shard in x.addressable_shards]
    return jax.make_array_from_single_device_arrays(x.shape, sharding, shards)


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
