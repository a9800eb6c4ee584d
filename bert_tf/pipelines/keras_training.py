"""Train the Keras model of a pipeline with `fit`: optimizer, loss, batches and checks."""

import contextlib
import itertools
import re
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf.configs.train import BatchConfig, FitConfig, OptimizerConfig
from bert_tf.data.input_pipeline import group_size, length_multiple
from bert_tf.errors import UserError, not_finite
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.optimization import make_optimizer
from bert_tf.training.jax_devices import divide_batches, num_devices
from bert_tf.training.strategy import model_strategy, use_xla

# Defaults of the scripts.
LEARNING_RATE = 5e-5
EPOCHS = FitConfig.epochs
BATCH_SIZE = FitConfig.batch_size

# Losses that Keras computes from probabilities instead of logits if they are given by name.
_CROSSENTROPIES = (
    "binary_crossentropy", "categorical_crossentropy", "sparse_categorical_crossentropy"
)  # fmt: skip


class _CheckLoss(keras.callbacks.Callback):
    """Stops training with a UserError when the loss is not finite."""

    async_safe = True  # lets Keras run without waiting for each step

    def __init__(self):
        super().__init__()
        self._num_steps = 0

    def on_train_batch_end(self, batch, logs=None):
        self._num_steps += 1
        loss = float((logs or {}).get("loss", 0.0))  # the mean over the epoch so far
        if not np.isfinite(loss):
            hint = "; load the model again, because its weights are damaged"
            raise not_finite("loss", loss, self._num_steps, hint)


class AddScores(keras.callbacks.Callback):
    """Adds scores to the logs of each epoch. Must come before callbacks that read them."""

    def __init__(self, compute):
        """Create the callback from a function that returns a dict; names get the prefix "val_"."""
        super().__init__()
        self._compute = compute

    def on_epoch_end(self, epoch, logs=None):
        logs.update({f"val_{name}": value for name, value in self._compute().items()})


class KerasTraining:
    """Base class of trainable pipelines; trains `_trained_model` with `keras.Model.fit`."""

    model: keras.Model
    # Whether the loss of an example depends on the other examples in its batch.
    _compares_examples = False
    # Whether the loss depends on outputs at padding.
    _reads_padding = False
    # Pattern of the weights without gradients, to silence Keras' warning about them. It has no
    # effect on tasks that train the pooler.
    _untrained = r"\['pooler/"
    # The arguments of `compile`, and the optimizer unless one was given.
    _compile_arguments: dict[str, Any] = {}  # noqa: RUF012
    _default_optimizer = None
    # Settings that the compiled training step with the default optimizer depends on.
    _fit_key: tuple = ()

    @property
    def _trained_model(self):
        return self.model

    def compile(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Set your own optimizer, loss or metrics for `fit`; calling it is optional.

        Args:
          optimizer: a Keras optimizer; None for the release's, with 10 % warm-up and linear decay
            over the steps of each `fit`.
          loss: a Keras loss of logits; None, or the name of the task's cross entropy, for the loss
            of the task.
          metrics: Keras metrics of logits; None for the metrics of the task.
          **options: other arguments of `keras.Model.compile`, such as `jit_compile`.

        Raises:
          UserError: if the loss does not take logits.
        """
        given = {"loss": self._logits_loss(loss), "metrics": metrics, **options}
        self._compile_arguments = {name: x for name, x in given.items() if x is not None}
        self._default_optimizer, self._fit_key = None, ()
        if optimizer is None:
            optimizer = self._default_optimizer = keras.optimizers.SGD()  # until `fit` is called
        self._compile(optimizer)

    def _logits_loss(self, loss):
        """Return a loss that takes logits; None if it is the name of the task's default loss."""
        resolved = keras.losses.get(loss) if isinstance(loss, str) else loss
        name = getattr(resolved, "__name__", None)
        if name in _CROSSENTROPIES:
            default = keras.tree.flatten(self._default_compile_arguments()["loss"])[0]
            expected = getattr(default, "name", default)
            if name not in (expected, expected.removeprefix("sparse_")):
                raise UserError(f"`loss={name}`: expected {expected} for this task")
            return None
        if getattr(resolved, "from_logits", None) is False:
            raise UserError(
                "`loss`: found a loss of probabilities, expected a loss of logits; use "
                f"{type(resolved).__name__}(from_logits=True)"
            )
        return loss

    def _compile(self, optimizer):
        with model_strategy(self._trained_model).scope():
            arguments = self._default_compile_arguments()
            if "loss" in self._compile_arguments:
                arguments.pop("loss_weights", None)
            given = dict(self._compile_arguments)
            metrics, defaults = given.get("metrics"), arguments.get("metrics")
            if isinstance(metrics, (list, tuple)) and isinstance(defaults, list):
                # Given names such as "accuracy", Keras would treat the logits as probabilities.
                named = {getattr(metric, "name", metric): metric for metric in defaults}
                given["metrics"] = [named.get(x, x) if isinstance(x, str) else x for x in metrics]
            arguments |= given
            if num_devices() > 1 and "weighted_metrics" not in arguments:  # see `divide_batches`
                arguments["weighted_metrics"] = arguments.pop("metrics", None)
            self._trained_model.compile(optimizer, **arguments)

    def _default_compile_arguments(self):
        """Return the arguments of `keras.Model.compile` for the loss and metrics of the task."""
        raise NotImplementedError

    @staticmethod
    def _check_fit(options, **arguments):
        """Return a valid `FitConfig`; removes `steps_per_epoch` from Keras' `options`."""
        steps_per_epoch = options.pop("steps_per_epoch", None)
        return FitConfig(steps_per_epoch=steps_per_epoch, **arguments).validate()

    def _fit(self, dataset, validation, config, callbacks, options):
        """Train on batches of inputs, targets and optionally weights; `config` is a `FitConfig`."""
        rate = config.learning_rate
        optimizer = self._trained_model.optimizer if self._trained_model.compiled else None
        # With float16, Keras has wrapped the optimizer.
        if getattr(optimizer, "inner_optimizer", optimizer) is self._default_optimizer:
            num_steps = config.steps_per_epoch or dataset.cardinality().numpy()
            if num_steps <= 0:
                raise UserError(
                    "the number of batches in the dataset is unknown, but the learning rate decays "
                    "over all of them; set `steps_per_epoch`, or an optimizer with `compile`"
                )
            rate = LEARNING_RATE if rate is None else rate
            self._restart_default_optimizer(optimizer, rate, int(num_steps) * config.epochs)
        elif config.learning_rate is not None:
            raise UserError("`learning_rate` cannot be combined with an optimizer set by `compile`")
        with self._running_keras(), warnings.catch_warnings():
            pattern = f"Gradients do not exist for variables {self._untrained}"
            warnings.filterwarnings("ignore", pattern)
            can_repeat = not self._compares_examples
            validation = divide_batches(validation, can_repeat)
            history = self._trained_model.fit(
                divide_batches(dataset, can_repeat),
                epochs=config.epochs,
                steps_per_epoch=config.steps_per_epoch,
                validation_data=validation,
                shuffle=False,
                callbacks=[*keras.tree.flatten(callbacks or []), _CheckLoss()],
                **options,
            )
        self._is_random = False
        return history

    def _restart_default_optimizer(self, optimizer, rate, num_steps):
        """Compile the model for a run of `num_steps`, or reuse the compiled training step."""
        variables = tuple(map(id, self._trained_model.trainable_variables))
        key = (rate, num_steps, self._trained_model.skip_padding, variables)
        if key == self._fit_key and optimizer is self._default_optimizer:
            for variable in optimizer.variables:
                variable.assign(keras.ops.zeros_like(variable))
            return
        with model_strategy(self._trained_model).scope():
            self._default_optimizer = make_optimizer(OptimizerConfig(learning_rate=rate), num_steps)
        self._compile(self._default_optimizer)
        self._fit_key = key

    def _evaluate(self, dataset, options):
        if not self._trained_model.compiled:
            self.compile()
        with self._running_keras():
            dataset = divide_batches(dataset, not self._compares_examples)
            return self._trained_model.evaluate(dataset, **{"return_dict": True, **options})

    @contextlib.contextmanager
    def _running_keras(self):
        """Skip padding in functions that Keras compiles here; convert label errors to UserError."""
        model = self._trained_model
        previous = model.skip_padding
        model.skip_padding = can_skip_padding(
            model_strategy(model), model.jit_compile, self._reads_padding, previous
        )
        try:
            yield
        except tf.errors.InvalidArgumentError as error:
            match = re.search(r"`\w+`: the dataset has [^\]\n']*", str(error))
            if match is None:
                raise
            raise UserError(match[0]) from None
        finally:
            model.skip_padding = previous

    @tf.autograph.experimental.do_not_convert
    def _batches(self, columns, encode, batch_size, shuffle=False, lengths=None):
        """Return a dataset of encoded batches; `lengths`, int32 (N,), groups similar lengths."""
        batch_size = BatchConfig(batch_size).validate().batch_size
        count = tf.nest.flatten(columns)[-1].shape[0]
        indices = tf.data.Dataset.range(count)
        if shuffle:
            indices = indices.shuffle(count)
        size = 1 if lengths is None else group_size(count, batch_size)
        if size > 1:

            def sort(group):
                return tf.gather(group, tf.argsort(tf.gather(lengths, group), stable=True))

            indices = indices.batch(size * batch_size).map(sort).unbatch()
            indices = indices.apply(tf.data.experimental.assert_cardinality(count))
        batches = indices.batch(batch_size)
        if size > 1:
            batches = batches.shuffle(size)

        def gather(indices):
            return encode(*tf.nest.map_structure(lambda x: tf.gather(x, indices), columns))

        return self._encode_batches(batches, gather)

    @staticmethod
    @tf.autograph.experimental.do_not_convert
    def _encode_batches(batches, encode):
        return batches.map(encode, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def pad_batch(batch, strategy, limit):
    """Pad the tensors (B, S) of a dict with 0 to one of a few lengths S, at most `limit`."""
    is_compiled = use_xla(None, strategy) or keras.backend.backend() == "jax"
    multiple = length_multiple(strategy, is_compiled, limit) or limit
    size = tf.shape(batch["input_ids"])[1]
    padding = tf.minimum(-size % multiple, tf.maximum(limit - size, 0))
    return {name: tf.pad(x, [[0, 0], [0, padding]]) for name, x in batch.items()}


def ragged(rows):
    """Convert lists of integers to int32 (N, None), faster than `tf.ragged.constant`."""
    values = np.fromiter(itertools.chain.from_iterable(rows), "int32")
    return tf.RaggedTensor.from_row_lengths(values, list(map(len, rows)))
