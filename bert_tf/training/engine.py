"""`Engine`: the devices of Keras' backend, which make the steps and predictions of a run."""

import abc
import contextlib
import re
from typing import Any

import keras

from bert_tf.configs.train import DeviceConfig
from bert_tf.data import input_pipeline
from bert_tf.errors import Stopped, reason


def _class_of_backend() -> type["Engine"]:
    if keras.backend.backend() == "jax":
        from bert_tf.training.jax_engine import JaxEngine  # JAX may not be installed

        return JaxEngine
    from bert_tf.training.tensorflow_engine import TensorFlowEngine

    return TensorFlowEngine


class Engine(abc.ABC):
    """Runs steps and predictions; `make`, `default` and `of` return the engine of the backend.

    An engine has the state of one run at a time. With several workers, all of them must call
    `prepare`, `run_steps`, `predict`, `mean`, `all_equal` and `chief_first` together.

    Attributes:
      num_devices: the number of devices of all workers, which divide each batch.
      is_multi_worker: whether several processes work together.
      is_chief: whether this process writes the files of a run.
      row_multiple: batches of Keras' `fit` must be a multiple of it.
      has_any_batch_size: whether predictions may have batches of any size without compilation.
      state: the variables of a checkpoint by name, between `prepare` and `release`.
    """

    num_devices: int
    is_multi_worker: bool
    is_chief: bool
    row_multiple = 1
    has_any_batch_size = False

    state: Any = None
    # The function that makes steps.
    _step: Any = None
    # The errors of collectives, and a pattern of their messages if another worker is lost.
    _collective_errors: tuple[type[Exception], ...] = ()
    _lost_messages = ""

    @classmethod
    def make(cls, device: DeviceConfig | None = None) -> "Engine":
        """Return an engine for the devices of a `DeviceConfig`, by default all.

        Raises:
          UserError: if a device is not available, or an option is for another backend.
        """
        return _class_of_backend().make(device)

    @classmethod
    def default(cls) -> "Engine":
        """Return an engine for the devices that Keras is set to use, by default all."""
        return _class_of_backend().default()

    @classmethod
    def of(cls, model: Any) -> "Engine":
        """Return an engine for the devices of a Keras model."""
        return _class_of_backend().of(model)

    def scope(self):
        """Return the context in which models and optimizers are created."""
        return contextlib.nullcontext()

    def compiles(self, xla=None, num_train_steps=None):
        """Return whether training steps are compiled for each length."""
        return True

    def length_multiple(self, max_seq_length, is_compiled, num_train_steps=None):
        """Return the multiple of tokens to pad batches to; None for `max_seq_length`."""
        return input_pipeline.length_multiple(max_seq_length, is_compiled)

    def can_skip_padding(self, is_compiled=False, reads_padding=False):
        """Return whether a model should skip padding, which makes the number of tokens dynamic."""
        return False

    def fill_batches(self, dataset):
        """Return a dataset of dicts whose batches Keras' `fit` can divide over the devices."""
        return dataset

    @abc.abstractmethod
    def check(self, config):
        """Warn about options of a `TrainConfig` without effect.

        Raises:
          UserError: if the steps do not support an option.
        """

    @abc.abstractmethod
    def prepare(self, objective, optimizer, config, num_train_steps):
        """Build the optimizer and the function that makes steps.

        Args:
          objective: a `training.Objective`.
          optimizer: a new optimizer of `bert_tf.optimization`.
          config: a `TrainConfig`.
          num_train_steps: the number of steps of the run.
        """

    def release(self):
        """Free what `prepare` made: the moments need twice the memory of the weights."""
        self.state = self._step = None

    @abc.abstractmethod
    def batches(self, train_input, first_step):
        """Return an iterator over the batches of a `TrainingInput` from `first_step` on."""

    @abc.abstractmethod
    def run_steps(self, batches, count):
        """Make `count` steps with the next batches.

        Returns:
          The sums of the results by name, and the index of the first step whose results are not
          finite, or -1.
        """

    @abc.abstractmethod
    def predict_step(self, objective):
        """Return the `step` for `predict`, which makes the predictions of an objective."""

    @abc.abstractmethod
    def predict(self, step, eval_input):
        """Yield the predictions of all rows of each batch of an `EvaluationInput`.

        They are dicts of arrays (B, ...), with `is_real_example` for rows that fill a batch.
        """

    @abc.abstractmethod
    def compute_steps(self, function, model, spec):
        """Return two functions from a batch in memory to outputs, the second one for a single row.

        Args:
          function: function from (outputs of the model, batch) to a dict of tensors (B, ...).
          model: a Keras model, or a function with the same arguments.
          spec: dict of the `tf.TensorSpec`s of all batches, None to trace each shape.
        """

    def predict_on_batch(self, model, inputs):
        """Return a model's outputs as arrays; `inputs` is a dict of arrays (B, ...), any B."""
        return model.predict_on_batch(inputs)

    def mean(self, value):
        """Return the mean of a number, or of a bool as 0 or 1, over all workers."""
        if not self.is_multi_worker:
            return float(value)
        with self.watched():
            return float(self._mean_over_workers(float(value)))

    def all_equal(self, value):
        """Return, in all workers, whether a number is the same in all of them."""
        return self.mean(self.mean(value) == value) == 1

    @abc.abstractmethod
    def _mean_over_workers(self, value):
        """Return the mean of a float, in float64."""

    @contextlib.contextmanager
    def watched(self):
        """Raise `Stopped` instead of the errors of collectives when another worker is lost."""
        try:
            yield
        except self._collective_errors as error:
            if not (self.is_multi_worker and re.search(self._lost_messages, str(error))):
                raise
            self._prepare_exit()
            raise Stopped(
                f"another worker was lost ({reason(error)}); unless its own output shows an error, "
                "restart all workers, and the run resumes from its newest checkpoint",
                Stopped.RESUME_ME,
            ) from error

    def _prepare_exit(self):  # noqa: B027 (optional)
        """Let this process exit although a worker is lost."""

    def chief_first(self, write):
        """Call `write` on the chief and return its result; other workers wait until it is done."""
        result = write() if self.is_chief else None
        self.mean(0.0)
        return result
