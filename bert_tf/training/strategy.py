"""Flags to a `tf.distribute.Strategy`. A new kind of machine is one more branch here."""

import keras
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError, reason
from bert_tf.training.workers import tf_config


def make_strategy(
    use_tpu=False,
    tpu_name=None,
    tpu_zone=None,
    gcp_project=None,
    master=None,
    num_tpu_cores=8,
    distribution_strategy="auto",
):
    """Makes the strategy that the device flags ask for, and says which it is.

    Args:
      use_tpu: whether to run on a Cloud TPU.
      tpu_name: its name, address or "local".
      tpu_zone: its zone.
      gcp_project: its project.
      master: its address, the release's older flag.
      num_tpu_cores: how many cores are expected.
      distribution_strategy: "auto", "one_device", "mirrored" or "multi_worker", without a TPU.

    Returns:
      A `tf.distribute.Strategy`.

    Raises:
      UserError: if there is no such device.
    """
    if use_tpu:
        if distribution_strategy != "auto":
            raise UserError(
                f"`distribution_strategy={distribution_strategy}` and `use_tpu` exclude each other"
            )
        return _tpu(tpu_name or master, tpu_zone, gcp_project, num_tpu_cores)
    unused = {
        "tpu_name": tpu_name,
        "tpu_zone": tpu_zone,
        "gcp_project": gcp_project,
        "master": master,
    }
    for flag, value in unused.items():
        if value:
            console.warning("`%s=%s` has no effect without `use_tpu`", flag, value)
    workers = tf_config()
    if distribution_strategy == "multi_worker" or (distribution_strategy == "auto" and workers > 1):
        return _multi_worker(workers)
    if workers > 1:
        console.warning(
            "TF_CONFIG names %d workers, but with `distribution_strategy=%s` each trains alone",
            workers, distribution_strategy,
        )  # fmt: skip
    gpus = tf.config.list_logical_devices("GPU")
    devices = gpus or tf.config.list_logical_devices("CPU")
    names = [device.name for device in devices]
    if distribution_strategy == "mirrored" or (distribution_strategy == "auto" and len(gpus) > 1):
        if not gpus:
            console.warning("`distribution_strategy=mirrored`, but there is no GPU to be seen")
        strategy = tf.distribute.MirroredStrategy(names, cross_device_ops=_reduction(gpus))
    else:
        strategy = tf.distribute.OneDeviceStrategy(names[0])
    count = strategy.num_replicas_in_sync
    kind = "GPU" if gpus else "CPU"
    console.info("devices: %d x %s, %s", count, kind, type(strategy).__name__)
    return strategy


def _reduction(gpus):
    # Collectives between logical CPU devices of one process collide when there is more than one
    # strategy in it; adding up on one device does not, and costs nothing there.
    return None if gpus else tf.distribute.ReductionToOneDevice()


def _multi_worker(workers):
    """The strategy of TF_CONFIG. TensorFlow wants it made before the first operation."""
    if workers < 2:
        raise UserError(
            "`distribution_strategy=multi_worker` wants the environment variable TF_CONFIG to name "
            "two or more workers"
        )
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    except (tf.errors.OpError, ValueError, RuntimeError) as error:
        raise UserError(f"TF_CONFIG: the workers do not find together ({reason(error)})") from error
    resolver = strategy.cluster_resolver
    console.info(
        "devices: %d in %d workers, this is %s %d",
        strategy.num_replicas_in_sync, workers, resolver.task_type, resolver.task_id,
    )  # fmt: skip
    return strategy


def _tpu(address, zone, project, num_tpu_cores):
    if not address:
        raise UserError("`use_tpu` wants `tpu_name`: a name, grpc://host:port, or local")
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=address, zone=zone, project=project
        )
        tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except Exception as error:  # the resolver lets the errors of many layers through
        raise UserError(
            f"`tpu_name={address}`: no such TPU could be reached ({reason(error)})"
        ) from error
    strategy = tf.distribute.TPUStrategy(resolver)
    found = strategy.num_replicas_in_sync
    if found != num_tpu_cores:
        console.warning("`num_tpu_cores=%d`, but %s has %d", num_tpu_cores, address, found)
    console.info("devices: %d TPU cores at %s", found, address)
    return strategy


def on_all_replicas(function, strategy, spec=None):
    """Makes a `tf.function` from a batch to what all replicas make of it, in their order.

    Args:
      function: from the batch of a replica to a dict of tensors (B, ...).
      strategy: a `tf.distribute.Strategy`.
      spec: the batch's `tf.TensorSpec`s if it is not a distributed one; it is then traced once.
        Without them it is traced once, and once more if a second shape comes; a TPU, which wants
        static shapes, has it traced for each.
    """
    is_tpu = isinstance(strategy, tf.distribute.TPUStrategy)

    @tf.function(input_signature=[spec] if spec else None, reduce_retracing=not is_tpu)
    def step(batch):
        values = strategy.run(function, args=(batch,))
        return {name: strategy.gather(value, axis=0) for name, value in values.items()}

    return step


def set_seed(seed):
    """Makes initial weights and dropout a function of `seed`."""
    keras.utils.set_random_seed(seed)


def length_multiple(strategy, xla, max_seq_length):
    """What to round the lengths of batches up to, None where all must have `max_seq_length`.

    A TPU compiles the step for one length only. On a GPU, XLA compiles it for each length that
    comes, so there are but four; elsewhere 8 is what the kernels like.
    """
    if isinstance(strategy, tf.distribute.TPUStrategy):
        return None
    return max(8, -(-max_seq_length // 32) * 8) if xla else 8
