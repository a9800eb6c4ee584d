"""Strategies of `tf.distribute`, worker processes, and the devices of this machine."""

import contextlib
import signal
import threading

import keras
import numpy as np
import tensorflow as tf

from bert_tf import console
from bert_tf.configs.train import DeviceConfig
from bert_tf.errors import Stopped, UserError, counted, reason
from bert_tf.training import cluster

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class Workers:
    """The worker processes of a strategy, as seen by one of them."""

    def __init__(self, strategy):
        self._strategy = strategy
        self.is_multi_worker = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.is_chief = strategy.extended.should_checkpoint

    def mean(self, *values):
        """Return the mean of each number over all workers, which must call it together."""
        if not self.is_multi_worker:
            return values
        with self.watched():
            replicas = self._strategy.run(lambda: tf.constant(values, tf.float64))
            mean = self._strategy.reduce(tf.distribute.ReduceOp.MEAN, replicas, axis=None)
        return tuple(map(float, mean.numpy()))

    @contextlib.contextmanager
    def watched(self):
        """Raise `Stopped` instead of collective errors when another worker is lost."""
        try:
            yield
        except _LOST as error:
            if not self.is_multi_worker:
                raise
            raise Stopped(
                f"another worker was lost ({reason(error)}); unless its own output shows an error, "
                "restart all workers, and the run resumes from its newest checkpoint",
                Stopped.RESUME_ME,
            ) from error

    def chief_first(self, write):
        """Call `write` on the chief and return its result; other workers wait until it is done."""
        result = write() if self.is_chief else None
        self.mean(0.0)
        return result


def make_strategy(device: DeviceConfig | None = None) -> tf.distribute.Strategy:
    """Make a `tf.distribute.Strategy` for the devices of a `DeviceConfig`, by default all.

    >>> strategy = bert_tf.training.make_strategy()
    >>> with strategy.scope():
    ...     model = bert_tf.BertClassifier.from_preset("uncased_L-4_H-256_A-4", num_labels=2)

    Raises:
      UserError: if the device is not available.
    """
    device = device or DeviceConfig()
    distribution = device.distribution_strategy
    if device.use_tpu:
        if distribution != "auto":
            raise UserError(f"`distribution_strategy={distribution}`: `use_tpu` has its own")
        return _make_tpu_strategy(device)
    for name in ("tpu_name", "tpu_zone", "gcp_project", "master"):
        if value := getattr(device, name):
            console.warning("`%s=%s` has no effect without `use_tpu`", name, value)
    workers, own = cluster.read_tf_config()
    if distribution == "multi_worker" or (distribution == "auto" and len(workers) > 1):
        return _make_multi_worker_strategy(workers, own)
    if len(workers) > 1:
        console.warning(
            f"TF_CONFIG has {len(workers)} workers, but with "
            f"`distribution_strategy={distribution}` each trains alone"
        )
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    names = [device.name for device in devices]
    if distribution == "mirrored" or (distribution == "auto" and len(gpus) > 1):
        if not gpus:
            console.warning("`distribution_strategy=mirrored`, but TensorFlow sees no GPU")
        # Collectives between logical CPU devices collide if a process has several strategies.
        # Reduction to one device does not, and costs nothing on a CPU.
        cross_device_ops = None if gpus else tf.distribute.ReductionToOneDevice()
        strategy = tf.distribute.MirroredStrategy(names, cross_device_ops)
    else:
        strategy = tf.distribute.OneDeviceStrategy(names[0])
    if tf.__version__.startswith("2.20."):  # logs the first compilation
        with console.without_tensorflow_messages(), tf.device("CPU"):
            tf.function(lambda: tf.constant(0), jit_compile=True)()
    count = strategy.num_replicas_in_sync
    kind = "GPU" if gpus else "CPU"
    console.info("devices: %d x %s, %s", count, kind, type(strategy).__name__)
    return strategy


def default_strategy():
    """Return a strategy for all devices, or Keras' own strategy for a single device.

    With its own strategy, Keras accepts optimizers that were created outside a scope.
    """
    if keras.backend.backend() == "jax":
        use_all_devices()
        return tf.distribute.get_strategy()
    strategy = make_strategy()
    is_single = isinstance(strategy, tf.distribute.OneDeviceStrategy)
    return tf.distribute.get_strategy() if is_single else strategy


def model_strategy(model):
    """Return the strategy of a Keras model; on other backends, TensorFlow's default strategy."""
    return getattr(model, "distribute_strategy", None) or tf.distribute.get_strategy()


def _make_multi_worker_strategy(workers, own):
    """Make the strategy of TF_CONFIG; must precede TensorFlow's first operation."""
    if len(workers) < 2:
        raise UserError(
            "`distribution_strategy=multi_worker` requires at least two workers in TF_CONFIG"
        )
    try:
        cluster.wait_for_workers(workers, own)
        handler = signal.getsignal(signal.SIGTERM)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
        # TensorFlow has replaced the handler. Only the main thread can restore it.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler or signal.SIG_DFL)
    except (tf.errors.OpError, ValueError, RuntimeError, OSError, OverflowError) as error:
        raise UserError(f"TF_CONFIG: cannot connect to other workers ({reason(error)})") from error
    count = strategy.num_replicas_in_sync
    console.info("devices: %d in %d workers, this is %s", count, len(workers), own)
    return strategy


def _make_tpu_strategy(device):
    address = device.tpu_name or device.master
    if not address:
        raise UserError("`use_tpu` requires `tpu_name`: a name, grpc://host:port, or local")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address, zone=device.tpu_zone, project=device.gcp_project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # the resolver raises errors of many kinds
        why = f"cannot reach the TPU ({reason(error)})"
        if "No OpKernel was registered" in str(error):
            why = "TensorFlow finds no TPU; on a TPU VM, install tensorflow-tpu (docs/devices.md)"
        raise UserError(f"`tpu_name={address}`: {why}") from error
    strategy = tf.distribute.TPUStrategy(resolver)
    count = strategy.num_replicas_in_sync
    if count != device.num_tpu_cores:
        console.warning(
            f"`num_tpu_cores={device.num_tpu_cores}`: found {count} cores at {address}; using all"
        )
    console.info("devices: %d TPU cores at %s", count, address)
    return strategy


def on_all_replicas(function, strategy, spec=None):
    """Make a `tf.function` that maps a batch to the results of all replicas, in order.

    `function` maps the batch of a replica to a dict of tensors (B, ...). `spec` has the
    `tf.TensorSpec`s of a batch that is not distributed, to trace only once.
    """

    @tf.function(input_signature=[spec] if spec else None, autograph=False)
    def step(batch):
        values = strategy.run(function, args=(batch,))
        return {name: strategy.gather(value, axis=0) for name, value in values.items()}

    return step


def check_batch_size(batch_size, strategy, argument, parts):
    """Raise UserError if a training batch does not divide over the replicas and into `parts`."""
    replicas = strategy.num_replicas_in_sync
    unit = replicas * parts
    if batch_size % unit:
        below = batch_size // unit * unit
        nearest = f"{below} or {below + unit}" if below else f"{unit}"
        accumulation = f" with `gradient_accumulation_steps={parts}`" if parts > 1 else ""
        raise UserError(
            f"`{argument}={batch_size}`: expected a multiple of {unit} for "
            f"{counted(replicas, 'replica')}{accumulation}; use {nearest}"
        )


# Below this number of steps, a GPU does not use XLA by default, because compilation takes about a
# minute for each of up to four sequence lengths. An estimate, not measured on a GPU.
MIN_XLA_STEPS = 2000


def use_xla(xla, strategy, num_train_steps=None):
    """Return whether to compile training steps with XLA; `xla=None` means a GPU with many steps.

    XLA is slower on a CPU. On a TPU, which always compiles, the result is False.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return False
    if xla is None:
        is_short = num_train_steps is not None and num_train_steps < MIN_XLA_STEPS
        return bool(tf.config.list_logical_devices("GPU")) and not is_short
    return xla


def use_all_devices():
    """On JAX, distribute batches over all devices from now on, unless a distribution is set."""
    if keras.backend.backend() != "jax":
        return
    # TensorFlow only prepares the data on the host, but would reserve all GPU memory.
    try:
        tf.config.set_visible_devices([], "GPU")
    except RuntimeError as error:
        console.warning("TensorFlow keeps GPU memory that JAX cannot use: %s", error)
    if keras.distribution.distribution() is not None:
        return
    devices = keras.distribution.list_devices()
    if len(devices) > 1:
        keras.distribution.set_distribution(keras.distribution.DataParallel())
        console.info("devices: %d x %s, DataParallel", len(devices), devices[0].partition(":")[0])


def num_devices():
    """Return the number of JAX devices that a batch is divided over, 1 on other backends."""
    distribution = keras.distribution.distribution()
    return 1 if distribution is None else distribution.device_mesh.shape[0]


def fill_batches(dataset):
    """Return a dataset of dicts whose batches divide over the devices, with the same losses.

    The last row is repeated with `is_real_example` 0.
    """
    count = num_devices()
    if count == 1:
        return dataset

    def fill(batch):
        size = tf.shape(batch["input_ids"])[0]
        rows = tf.range(-(-size // count) * count)
        is_real = tf.cast(rows < size, tf.int32)
        batch = {name: tf.gather(x, tf.minimum(rows, size - 1)) for name, x in batch.items()}
        return {**batch, "is_real_example": is_real}

    return dataset.map(fill)


def predict_on_batch(model, inputs):
    """Return a model's outputs as arrays; `inputs` is a dict of arrays with any number of rows."""
    inputs = {name: np.asarray(x) for name, x in inputs.items()}
    size = len(next(iter(inputs.values())))
    # With several TensorFlow devices, Keras returns the output of each one for the whole batch.
    missing = -size % num_devices()
    if missing:
        inputs = {name: x[[*range(size), *[size - 1] * missing]] for name, x in inputs.items()}
    outputs = model.predict_on_batch(inputs)
    return keras.tree.map_structure(lambda x: keras.ops.convert_to_numpy(x)[:size], outputs)
