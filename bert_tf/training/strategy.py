"""Strategies of `tf.distribute` for the devices of this machine, workers or a TPU."""

import tensorflow as tf

from bert_tf import console
from bert_tf.configs.train import DeviceConfig
from bert_tf.errors import UserError, reason
from bert_tf.training import cluster


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
    names = [x.name for x in gpus or tf.config.list_logical_devices("CPU")]
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
    kind = f"{'GPU' if gpus else 'CPU'}, {type(strategy).__name__}"
    console.info("devices: %d x %s", strategy.num_replicas_in_sync, kind)
    return strategy


def _make_multi_worker_strategy(workers, own):
    """Make the strategy of TF_CONFIG; must precede TensorFlow's first operation."""
    if len(workers) < 2:
        raise UserError(
            "`distribution_strategy=multi_worker` requires at least two workers in TF_CONFIG"
        )
    with cluster.connecting():
        cluster.wait_for_workers(workers, own)
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
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
    count, expected = strategy.num_replicas_in_sync, device.num_tpu_cores
    if count != expected:
        console.warning(f"`num_tpu_cores={expected}`: found {count} cores at {address}; using all")
    console.info("devices: %d TPU cores at %s", count, address)
    return strategy
