"""The processes of a strategy: which of them writes, and what all of them agree on."""

import contextlib
import json
import os

import tensorflow as tf

from bert_tf.errors import Stopped, UserError, reason

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


def tf_config():
    """Reads the environment variable TF_CONFIG.

    Returns:
      The number of workers that it names, the chief among them; 1 without it.

    Raises:
      UserError: if it is not what TensorFlow documents, or names a task that has no work here.
    """
    text = os.environ.get("TF_CONFIG", "")
    if not text.strip():
        return 1
    try:
        values = json.loads(text)
        cluster = values.get("cluster", {})
        count = len(cluster.get("chief", ())) + len(cluster.get("worker", ()))
        if count < 2:
            return 1
        kind, index = values["task"]["type"], int(values["task"]["index"])
        known = len(cluster.get(kind, ()))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UserError(
            'TF_CONFIG: {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
            f'"index": 0}}}} was expected, found {text!r}'
        ) from None
    if kind not in ("chief", "worker"):
        raise UserError(
            f"TF_CONFIG: a task of type {kind!r} has nothing to do here, all are chief or worker; "
            "they evaluate too"
        )
    if index not in range(known):
        raise UserError(f"TF_CONFIG: task {kind} {index}, but the cluster has {known} of them")
    return count


class Workers:
    """The processes that run one strategy, as one of them sees them."""

    def __init__(self, strategy):
        self._strategy = strategy
        self.is_several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
        self.is_chief = True
        if self.is_several:
            resolver = strategy.cluster_resolver
            has_chief = "chief" in resolver.cluster_spec().jobs
            first = resolver.task_type == "worker" and resolver.task_id == 0
            self.is_chief = resolver.task_type == "chief" or (first and not has_chief)
            self._mean = tf.function(self._mean_of)

    def mean(self, *values):
        """The mean of each number over all workers; all of them must call it together."""
        if not self.is_several:
            return values
        with self.watched():
            means = self._mean(tf.constant(values, tf.float64)).numpy()
        return tuple(map(float, means))

    @contextlib.contextmanager
    def watched(self):
        """Turns what the collectives raise when another worker is gone into `Stopped`."""
        try:
            yield
        except _LOST as error:
            if not self.is_several:
                raise
            raise Stopped(
                f"another worker is lost or gave up ({reason(error)}); unless its own output names "
                "a mistake, start all of them again: the run goes on from its newest checkpoint",
                Stopped.RESUME_ME,
            ) from error

    def wait(self):
        """Returns when all workers have come here."""
        self.mean(0.0)

    def chief_first(self, write):
        """Has the chief do what one process is enough for; the others go on when it is done."""
        if self.is_chief:
            write()
        self.wait()

    def _mean_of(self, values):
        def reduce():
            replica = tf.distribute.get_replica_context()
            # A copy, because only what a replica has made has a device to be reduced on.
            return replica.all_reduce(tf.distribute.ReduceOp.MEAN, tf.identity(values))

        return self._strategy.experimental_local_results(self._strategy.run(reduce))[0]
