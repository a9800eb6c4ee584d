"""The training step of an `Objective`, for the loop and for Keras' `fit` (`ObjectiveModel`)."""

import contextlib
import functools
import types
from collections.abc import Mapping

import keras
import numpy as np

from bert_tf.errors import UserError
from bert_tf.modeling import cpu_graph
from bert_tf.modeling.keras_losses import for_logits
from bert_tf.modeling.token_layout import can_skip_padding

_IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _IS_TENSORFLOW:
    import tensorflow as tf

RATE_CALLBACKS = keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau


def _replica_context():
    return tf.distribute.get_replica_context() if _IS_TENSORFLOW else None


def _num_replicas():
    replica = _replica_context()
    return 1 if replica is None else replica.num_replicas_in_sync


def sum_over_replicas(values):
    """Sum a structure of tensors over all replicas, in replica context; unchanged elsewhere."""
    replica = _replica_context()
    if _num_replicas() == 1:
        return values
    if isinstance(replica.strategy, tf.distribute.TPUStrategy):
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)

    # Elsewhere `all_reduce` registers a gradient for each traced call, which keeps the graph with
    # its weights and moments alive until the process ends.
    def reduce(strategy, *flat):
        pairs = [(value, value) for value in flat]
        return strategy.extended.batch_reduce_to(tf.distribute.ReduceOp.SUM, pairs)

    flat = replica.merge_call(reduce, args=list(map(tf.convert_to_tensor, tf.nest.flatten(values))))
    return tf.nest.pack_sequence_as(values, flat)


def compute_gradients(model, objective, variables, batch, denominators, scale_loss, **options):
    """Return this replica's share of the gradients and losses (dicts), and the model's outputs.

    Args:
      model: the model of the `objective`.
      objective: a `training.Objective`.
      variables: dict of variables. The gradients have the same keys, except for weights that do not
        affect the loss, such as the pooler of a token classifier.
      batch: dict of tensors of this replica.
      denominators: the sums of `objective.denominators` over the global batch.
      scale_loss: function that multiplies the loss to differentiate by a loss scale.
      **options: arguments of the model's call.
    """
    with tf.GradientTape() as tape:
        outputs = model(batch, training=True, **options)
        losses = objective.losses(outputs, batch, denominators)
        losses["loss"] = tf.add_n(list(losses.values()))
        scaled = scale_loss(losses["loss"])
    gradients = tape.gradient(scaled, variables)
    # Embedding gradients are sparse with repeated rows, which the conversion sums.
    dense = {k: tf.convert_to_tensor(x) for k, x in gradients.items() if x is not None}
    return dense, losses, outputs


def _arrays(inputs):
    """Return a mapping, such as a `BatchEncoding` of transformers, as a dict that Keras accepts.

    The items of a tuple, such as validation data, are converted, too.
    """
    if isinstance(inputs, tuple):
        return tuple(map(_arrays, inputs))
    if not isinstance(inputs, Mapping):
        return inputs
    return {name: np.array(x) if isinstance(x, list) else x for name, x in inputs.items()}


class _LossMean(keras.metrics.Mean):
    """The mean over the examples, also if the replicas have different numbers of them."""

    def update_state(self, values, sample_weight=None):
        if sample_weight is not None:
            total = sum_over_replicas(keras.ops.cast(sample_weight, "float32"))
            sample_weight = total / _num_replicas()
        super().update_state(values, sample_weight)


class ObjectiveModel:
    """Trains and evaluates a Keras model with the losses and metrics of a `training.Objective`.

    With `objective`, and without a loss in `compile`, `fit` and `evaluate` take datasets or dicts
    of batches with inputs and labels. A step equals the step of the training loop: the gradients do
    not depend on how the batch is divided among devices. In `fit`, "loss" is the mean over the
    batches; in `evaluate`, it is the mean over the examples (words, masks).

    A loss or metrics in `compile` replace the losses and metrics of the objective. They get targets
    and weights from `Objective.keras_targets`.
    """

    # The name of the function from logits to probabilities; None for the one of the outputs.
    logits_activation = None
    _objective = None
    _is_training = True

    @property
    def objective(self):
        return self._objective

    @objective.setter
    def objective(self, objective):
        names = ("loss", *objective.fit_metric_names) if objective else ()
        with self.distribute_strategy.scope() if _IS_TENSORFLOW else contextlib.nullcontext():
            means = {name: keras.metrics.Mean(name) for name in names}
        # In a namespace, because Keras saves the metrics in a dict with the model.
        self._objective, self._means = objective, types.SimpleNamespace(**means)

    def is_compiled_with(self, *names):
        """Return whether `compile` got any of these arguments."""
        # Keras keeps the loss and the metrics of a previous `compile` without these arguments.
        return any(self._compile_options.get(name) is not None for name in names)

    @property
    def _compile_options(self):
        return self._compile_config.config if self.compiled else {}

    @property
    def _uses_objective(self):
        return self.objective is not None and not self.is_compiled_with("loss")

    @property
    def _has_own_metrics(self):
        return self.is_compiled_with("metrics", "weighted_metrics")

    @property
    def metrics(self):
        if not self._uses_objective:
            return super().metrics
        loss, *means = vars(self._means).values()
        return [loss, self._compile_metrics] if self._has_own_metrics else [loss, *means]

    @functools.wraps(keras.Model.compile)
    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        **options,
    ):
        arguments = {"loss": loss, "metrics": metrics, "weighted_metrics": weighted_metrics}
        converted = for_logits(self, **arguments)
        super().compile(optimizer, loss_weights=loss_weights, **converted, **options)
        # Assigned without Keras' tracking, because the model may be locked.
        object.__setattr__(self, "_loss_tracker", _LossMean("loss"))
        # Saved with the model. Keras itself would save False for "auto".
        arguments |= {"jit_compile": options.get("jit_compile", "auto")}
        self._compile_config.config.update(arguments, logits_activation=self.logits_activation)

    def compile_from_config(self, config):
        # Keras' method requires its own `compile`.
        config = keras.saving.deserialize_keras_object(config)
        self.logits_activation = config.pop("logits_activation")
        self.compile(**config)
        if self.built:
            self.optimizer.build(self.trainable_variables)

    @functools.wraps(keras.Model.fit)
    def fit(self, x=None, *arguments, **options):
        optimizer = getattr(self, "optimizer", None)  # missing before `compile`
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        callbacks = keras.tree.flatten(options.get("callbacks"))
        names = [type(x).__name__ for x in callbacks if isinstance(x, RATE_CALLBACKS)]
        if names and callable(getattr(optimizer, "_learning_rate", None)):
            raise UserError(
                f"`callbacks`: {names[0]} cannot set the learning rate, because the optimizer has "
                "a schedule; compile the model with a constant rate, such as "
                "bert_tf.AdamWeightDecay(2e-5)"
            )
        if "validation_data" in options:
            options["validation_data"] = _arrays(options["validation_data"])
        with self._tracing():
            return super().fit(_arrays(x), *arguments, **options)

    @functools.wraps(keras.Model.evaluate)
    def evaluate(self, x=None, *arguments, **options):
        with self._tracing():
            return super().evaluate(_arrays(x), *arguments, **options)

    @functools.wraps(keras.Model.predict)
    def predict(self, x, *arguments, **options):
        return super().predict(_arrays(x), *arguments, **options)

    @functools.wraps(keras.Model.train_on_batch)
    def train_on_batch(self, x, *arguments, **options):
        with self._tracing():
            return super().train_on_batch(_arrays(x), *arguments, **options)

    @functools.wraps(keras.Model.test_on_batch)
    def test_on_batch(self, x, *arguments, **options):
        return super().test_on_batch(_arrays(x), *arguments, **options)

    @contextlib.contextmanager
    def _tracing(self):
        """Skip padding in functions that Keras traces here, and compile them as `compile` says."""
        previous = self.skip_padding
        options = self._compile_options
        is_uncompiled = options.get("jit_compile") is False or bool(options.get("run_eagerly"))
        token = cpu_graph.set_uncompiled(is_uncompiled)
        if self.objective is not None and _IS_TENSORFLOW:
            self.skip_padding = can_skip_padding(
                self.distribute_strategy, self.jit_compile, self.objective.reads_padding, previous
            )
        try:
            yield
        finally:
            self.skip_padding = previous
            cpu_graph.reset_uncompiled(token)

    if _IS_TENSORFLOW:

        def _maybe_symbolic_build(self, iterator=None, data_batch=None):
            # Keras would average the first batch over the replicas, which fails for uneven shares.
            if self._distribute_strategy is not None:
                if iterator is not None:
                    data_batch = iterator.data_adapter.get_tf_dataset().element_spec
                super()._maybe_symbolic_build(data_batch=data_batch)

        @tf.autograph.experimental.do_not_convert
        def train_step(self, data):
            """Make the step of `training.make_train_step`, with any Keras optimizer."""
            if not self._uses_objective:
                return super().train_step(data)
            batch, _, _ = keras.utils.unpack_x_y_sample_weight(data)
            denominators = sum_over_replicas(self.objective.denominators(batch))
            variables = dict(enumerate(self.trainable_variables))
            scale_loss = self.optimizer.scale_loss
            replica = _replica_context().replica_id_in_sync_group
            gradients, losses, outputs = compute_gradients(
                self, self.objective, variables, batch, denominators, scale_loss, replica_id=replica
            )
            # The optimizer sums over the replicas.
            self.optimizer.apply(list(gradients.values()), [variables[i] for i in gradients])
            return self._update_means(batch, outputs, denominators, losses["loss"], training=True)

    # The steps of evaluation, and of training on JAX, call the following two methods.

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        self._is_training = training
        if self._uses_objective:
            return self._compute_loss_of(x, y_pred)[0]
        if y is None and self.objective is not None:
            y, sample_weight = self._targets(x, training)
        return super().compute_loss(x, y, y_pred, sample_weight, training)

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._uses_objective:
            loss, denominators = self._compute_loss_of(x, y_pred)
            return self._update_means(x, y_pred, denominators, loss, self._is_training)
        if y is None and self.objective is not None:
            y, sample_weight = self._targets(x, self._is_training, for_loss=False)
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def _compute_loss_of(self, batch, outputs):
        denominators = sum_over_replicas(self.objective.denominators(batch))
        losses = self.objective.losses(outputs, batch, denominators, self._is_training)
        return sum(losses.values()), denominators

    def _update_means(self, batch, outputs, denominators, loss, training):
        """Update the metrics; `loss` is this replica's share. Return the logs."""
        count = _num_replicas()
        means = vars(self._means)
        weight = 1.0 if training else next(iter(denominators.values()))
        means["loss"].update_state(loss * count, weight / count)
        if self._has_own_metrics:
            targets, sample_weight = self._targets(batch, training, for_loss=False)
            self._compile_metrics.update_state(targets, outputs, sample_weight)
        else:
            for name, values in self.objective.fit_metrics(outputs, batch).items():
                means[name].update_state(*values)
        return self.get_metrics_result()

    def _targets(self, batch, training, for_loss=True):
        """Return the targets, and the weights for Keras' metrics or losses.

        Losses divide by this replica's size and the number of replicas.
        """
        denominators = sum_over_replicas(self.objective.denominators(batch))
        targets, factors = self.objective.keras_targets(batch, denominators)

        def scale(x):
            x = x * self.objective.class_factors(batch) if training else x
            size = keras.ops.cast(keras.ops.size(x), "float32")
            return x * (size * _num_replicas() if for_loss else sum_over_replicas(size))

        return targets, keras.tree.map_structure(scale, factors)
