"""The release's Adam and LAMB, as Keras optimizers and for the loop of `bert_tf.training`."""

import contextlib
import functools
import json
import math
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import keras
from keras import ops

from bert_tf.errors import UserError
from bert_tf.modeling.cpu_graph import float32, may_compile

_IS_TENSORFLOW = keras.backend.backend() == "tensorflow"
if _IS_TENSORFLOW:
    import tensorflow as tf

    from bert_tf.modeling.objective_model import sum_over_replicas

# Compiling the update pays for models with a weight of at least this many elements. In the norm,
# smaller gradients are summed as a single tensor.
COMPILED_SIZE = 2**14

# "_norm" for the paths of Keras variables, such as "layer_0/attention_norm/gamma".
NO_DECAY = ("LayerNorm", "_norm", "bias")

# Names are the release's or the paths of Keras variables; both write the layer number in the same
# form. `embeddings_project` is ELECTRA's projection to the hidden size.
_LAYER = re.compile(r"(?:^|/)(?:embeddings(?:_project)?|layer_(\d+))/")


@keras.saving.register_keras_serializable("bert_tf")
class AdamWeightDecay(keras.optimizers.Optimizer):
    """Adam (arXiv:1412.6980) with decoupled weight decay (arXiv:1711.05101), as in the release.

    Unlike Keras' AdamW, it

    - corrects the bias of the moments only on request;
    - adds epsilon outside the root and applies the decay in the same update;
    - sums the gradients of a word that occurs several times in a batch;
    - clips the sum of the gradients over the replicas, so the result does not depend on the number
      of devices;
    - with `gradient_accumulation_steps`, advances the schedule by updates instead of batches;
    - does not decay weights that do not affect the loss, which on JAX are weights whose gradients
      have all been zero;
    - on several replicas, skips a step whose summed gradients are not finite. In float16, Keras
      checks only the gradients of the first replica.

    >>> rate = bert_tf.LinearWarmupDecay(5e-5, num_train_steps=1000, num_warmup_steps=100)
    >>> optimizer = bert_tf.AdamWeightDecay(rate)
    >>> model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
    >>> model.compile(optimizer, "mse")
    """

    slot_names = ("adam_m", "adam_v")

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | Callable,
        weight_decay: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        global_clipnorm: float | None = 1.0,
        exclude_from_weight_decay: str | Sequence[str] = NO_DECAY,
        bias_correction: bool = False,
        layer_decay: float = 1.0,
        name: str | None = None,
        **options: Any,
    ):
        """Store the hyperparameters. The defaults are the release's.

        Args:
          learning_rate: a number, a Keras schedule such as `LinearWarmupDecay`, or a function
            without arguments.
          weight_decay: factor of the decay.
          beta_1: decay of the first moment.
          beta_2: decay of the second moment.
          epsilon: added to the root of the second moment.
          global_clipnorm: maximum global norm of the gradients; None disables clipping.
          exclude_from_weight_decay: regular expressions, or a single one, searched in the weight
            names: variable paths or, in the loop of `bert_tf.training`, the release's names.
          bias_correction: whether to divide the moments by 1 - beta**step (arXiv:1412.6980,
            section 3), which makes the first steps larger.
          layer_decay: learning rate of each layer as a fraction of the rate of the layer above;
            see `rate_factors`.
          name: as in `keras.optimizers.Optimizer`.
          **options: `use_ema`, `ema_momentum`, `ema_overwrite_frequency`, `loss_scale_factor` and
            `gradient_accumulation_steps` of `keras.optimizers.Optimizer`.

        Raises:
          UserError: for `clipnorm` and `clipvalue`.
        """
        for clip in ("clipnorm", "clipvalue"):
            if options.get(clip) is not None:
                raise UserError(
                    f"`{clip}` is not supported by {type(self).__name__}, which clips gradients by "
                    "their global norm, after the sum over replicas; use `global_clipnorm`"
                )
        options |= {"weight_decay": weight_decay, "global_clipnorm": global_clipnorm}
        super().__init__(learning_rate, name=name, **options)
        self.beta_1, self.beta_2, self.epsilon = beta_1, beta_2, epsilon
        self.bias_correction = bias_correction
        self.layer_decay = layer_decay
        self.allows_xla = True
        if isinstance(exclude_from_weight_decay, str):
            exclude_from_weight_decay = (exclude_from_weight_decay,)
        # Keras has a method `exclude_from_weight_decay`.
        self.no_decay_patterns = tuple(exclude_from_weight_decay)

    @property
    def hyperparameters(self):
        """The arguments that define the update, except the learning rate."""
        names = "weight_decay beta_1 beta_2 epsilon global_clipnorm bias_correction layer_decay"
        values = {name: getattr(self, name) for name in names.split()}
        return {**values, "exclude_from_weight_decay": list(self.no_decay_patterns)}

    def get_config(self):
        """Return the constructor's arguments."""
        return {**super().get_config(), **self.hyperparameters}

    @property
    def rate_config(self):
        """The learning rate as a dict of JSON values."""
        rate = self._learning_rate
        if not callable(rate):
            return {"learning_rate": super().get_config()["learning_rate"]}
        if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
            # `default=float` converts NumPy numbers. Some schedules cannot be serialized.
            with contextlib.suppress(NotImplementedError, TypeError, ValueError):
                return json.loads(json.dumps(rate.get_config(), default=float))
        return {"name": getattr(rate, "__qualname__", type(rate).__name__)}

    def build(self, variables):
        """Create the moments, in the strategy's scope.

        `variables` is a dict by name, or a list of variables that are named by their paths.
        """
        if self.built:
            return
        if isinstance(variables, dict):
            names, variables = list(variables), list(variables.values())
        else:
            names = [getattr(variable, "path", variable.name) for variable in variables]
        super().build(variables)
        self._names = tuple(names)
        self._slots = self.add_optimizer_variables(variables, self.slot_names)
        factors = rate_factors(names, self.layer_decay)
        self._rate_factors = tuple(factors[name] for name in names)
        self._is_excluded = tuple(
            any(re.search(pattern, name) for pattern in self.no_decay_patterns)
            or not self._use_weight_decay(variable)
            for name, variable in zip(names, variables, strict=True)
        )

    @property
    def weights(self):
        """The trained weights by name: a dict of variables (`tf.Variable` on TensorFlow)."""
        return dict(zip(self._names, map(_native, self._trainable_variables), strict=True))

    @property
    def slots(self):
        """The moments: a dict from "NAME/adam_m" and "NAME/adam_v" to variables, as `weights`."""
        return {
            f"{name}/{slot}": _native(variable)
            for slot, variables in zip(self.slot_names, self._slots, strict=True)
            for name, variable in zip(self._names, variables, strict=True)
        }

    @property
    def step(self):
        """The step counter, a variable as in `weights`."""
        return _native(self._iterations)

    def learning_rate_at(self, step):
        """Return the learning rate of a step, a float32 scalar."""
        if isinstance(self._learning_rate, keras.optimizers.schedules.LearningRateSchedule):
            return self._learning_rate(step)
        return _as_tensor(super()._get_current_learning_rate())

    def apply(self, grads, trainable_variables=None):
        """Make one step with the gradients of this replica; called by Keras."""
        if _IS_TENSORFLOW:
            if self.gradient_accumulation_steps and tf.distribute.has_strategy():
                raise UserError(
                    "`gradient_accumulation_steps` of a Keras optimizer cannot be used with a "
                    "`tf.distribute` strategy; the training scripts can accumulate there"
                )
            # Embedding gradients are sparse with repeated rows, which the conversion sums.
            grads = [g if g is None else tf.convert_to_tensor(g) for g in grads]
        super().apply(grads, trainable_variables)

    def apply_reduced(self, gradients, loss_scale=None, skipped_steps=0):
        """Make one step with the gradients of all replicas, in replica context.

        Args:
          gradients: dict from names to dense tensors, summed over the replicas. Weights without a
            gradient do not change.
          loss_scale: the factor of the gradients, a float32 scalar. With it, only the step counter
            changes if the norm is not finite.
          skipped_steps: number of earlier steps without a finite norm, which the bias correction
            does not count.

        Returns:
          The global norm of the gradients without `loss_scale`, before clipping, a float32 scalar.
        """
        index = {name: i for i, name in enumerate(self._names)}
        gradients = {index[name]: gradient for name, gradient in gradients.items()}
        norm = self._update_all(gradients, self.learning_rate, loss_scale, skipped_steps)
        self._iterations.assign_add(1)
        return norm

    def _get_current_learning_rate(self):
        return self.learning_rate_at(self.iterations)

    # Keras calls these two before the sum over replicas; `_update_all` does both after it.

    def _clip_gradients(self, grads):
        return grads

    def _apply_weight_decay(self, variables):
        pass

    def _backend_update_step(self, grads, trainable_variables, learning_rate):
        grads = sum_over_replicas(list(grads)) if _IS_TENSORFLOW else grads
        indices = map(self._get_variable_index, trainable_variables)
        gradients = dict(zip(indices, grads, strict=True))
        has_replicas = _IS_TENSORFLOW and tf.distribute.get_strategy().num_replicas_in_sync > 1
        self._update_all(gradients, learning_rate, skip_nonfinite=has_replicas)

    def _update_all(self, gradients, rate, loss_scale=None, skipped_steps=0, skip_nonfinite=False):
        """Clip the reduced gradients (dict by index) and update the weights; return the norm."""
        gradients = {i: float32(gradient) for i, gradient in gradients.items()}
        norm = _global_norm(list(gradients.values()))
        scale, is_finite = 1.0, None
        if loss_scale is not None:  # a power of 2, so that dividing later changes no bit
            norm, scale = norm / loss_scale, 1.0 / loss_scale
        if skip_nonfinite or loss_scale is not None:
            is_finite = ops.isfinite(norm)
        if self.global_clipnorm:
            # limit / max(norm, limit) is exactly 1 for small gradients, which stay bit-identical.
            scale = scale * (self.global_clipnorm / ops.maximum(norm, self.global_clipnorm))
        rate = _as_tensor(rate)
        shared = (scale, rate, is_finite, self._bias_corrections(skipped_steps))
        if _IS_TENSORFLOW:
            replica = tf.distribute.get_replica_context()
            replica.merge_call(self._update_replicas, (gradients, *shared))
        else:
            variables = {i: self._weight_and_slots(i) for i in gradients}
            self._update(operator.attrgetter("value"), self.assign, variables, gradients, *shared)
        return norm

    def _update_replicas(self, strategy, gradients, *shared):
        variables = {i: list(map(_native, self._weight_and_slots(i))) for i in gradients}
        if not variables:  # no trained weight affects the loss
            return
        # A single call for all weights; the first argument only names the devices.
        weight, *_ = next(iter(variables.values()))
        arguments = variables, gradients, *shared
        strategy.extended.update(weight, self._update_replica, arguments, group=False)

    def _weight_and_slots(self, i):
        return self._trainable_variables[i], *(slots[i] for slots in self._slots)

    def _bias_corrections(self, skipped_steps):
        """Return 1 - beta**step for both betas; None without bias correction."""
        if not self.bias_correction:
            return None
        step = ops.cast(self.iterations + 1 - skipped_steps, "float32")
        # expm1, because 1 - 0.999 in float32 is off by 1e-5.
        return [-ops.expm1(step * math.log(beta)) for beta in (self.beta_1, self.beta_2)]

    def _update_replica(self, weight, variables, *arguments):
        # Compiled, the update is a single operation, whose launch takes less time on a GPU than
        # thousands. On a CPU, it reads each weight once instead of 15 times and writes in place.
        sizes = [group[0].shape.num_elements() for group in variables.values()]
        is_large = max(sizes) >= COMPILED_SIZE
        if is_large and self.allows_xla and "TPU" not in weight.device and may_compile():
            # Handles: in the scope of a MirroredStrategy, a trace that takes variables always
            # updates the variables of its first call.
            handles = {i: [(x.handle, x.dtype) for x in xs] for i, xs in variables.items()}
            self._compiled(handles, *arguments)
        else:
            self._update(operator.methodcaller("read_value"), self.assign, variables, *arguments)

    # TensorFlow would save an ordinary attribute with the optimizer.
    @functools.cached_property
    def _compiled(self):
        def read(variable):
            handle, dtype = variable
            return tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)

        def assign(variable, value):
            handle, dtype = variable
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.cast(value, dtype))

        update = functools.partial(self._update, read, assign)
        return tf.function(update, jit_compile=True, autograph=False)

    def _update(self, read, assign, variables, gradients, *shared):
        """Update weights and their moments; `variables` and `gradients` are dicts by index."""
        for i, gradient in gradients.items():
            new_values = self._compute_update(i, *map(read, variables[i]), gradient, *shared)
            for variable, value in zip(variables[i], new_values, strict=True):
                assign(variable, value)

    def _compute_update(self, i, weight, m, v, gradient, scale, rate, is_finite, corrections):
        is_excluded = self._is_excluded[i]
        # The fused kernel computes 1 - beta in float32, which is off by 1e-5 for beta_2.
        weight, m, v = (float32(x) for x in (weight, m, v))
        # `scale` and `rate` are float32, and weights may be float64.
        rate = rate * self._rate_factors[i]
        scale, rate = (ops.cast(x, weight.dtype) for x in (scale, rate))
        gradient = gradient * scale
        new_m, new_v = 1.0 - self.beta_1, 1.0 - self.beta_2
        if is_finite is not None:  # a factor of 1 changes no bit, and a factor of 0 skips the step
            gradient = ops.where(is_finite, gradient, 0.0)
            keep = ops.cast(is_finite, weight.dtype)
            new_m, new_v, rate = new_m * keep, new_v * keep, rate * keep
        m = m + (gradient - m) * new_m
        v = v + (ops.square(gradient) - v) * new_v
        first, second = m, v
        if corrections is not None:
            corrections = [ops.cast(x, weight.dtype) for x in corrections]
            first, second = m / corrections[0], v / corrections[1]
        update = first / (ops.sqrt(second) + self.epsilon)
        if self.weight_decay and not is_excluded:
            # JAX has zero gradients, not None, for weights that do not affect the loss.
            affects_loss = 1.0 if _IS_TENSORFLOW else ops.cast(ops.any(v > 0.0), weight.dtype)
            update = update + self.weight_decay * affects_loss * weight
        return weight - self._rate(rate, weight, update, is_excluded) * update, m, v

    def _rate(self, rate, weight, update, is_excluded):
        return rate


@keras.saving.register_keras_serializable("bert_tf")
class LAMB(AdamWeightDecay):
    """LAMB (You et al., arXiv:1904.00962, algorithm 2, with phi(z) = z).

    The Adam update with bias correction and weight decay is scaled to the norm of each weight,
    except, as in the authors' code, for weights that are excluded from the decay (biases and layer
    norms), or if the weight or its update is all zeros.

    >>> optimizer = bert_tf.LAMB(bert_tf.LinearWarmupDecay(1e-3, 1000, 100))
    """

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule | Callable,
        *,
        bias_correction: bool = True,
        **options: Any,
    ):
        """Store the hyperparameters of `AdamWeightDecay`, by default with bias correction."""
        super().__init__(learning_rate, bias_correction=bias_correction, **options)

    def _rate(self, rate, weight, update, is_excluded):
        if is_excluded:
            return rate
        weight_norm, update_norm = (ops.sqrt(ops.sum(ops.square(x))) for x in (weight, update))
        is_scaled = (weight_norm > 0.0) & (update_norm > 0.0)
        return ops.where(is_scaled, rate * weight_norm / update_norm, rate)


def _native(variable):
    """Return the `tf.Variable` of a Keras variable on TensorFlow; other backends have none."""
    is_wrapped = _IS_TENSORFLOW and isinstance(variable, keras.Variable)
    return variable.value if is_wrapped else variable


def _as_tensor(value):
    """Convert a number, a tensor or a variable, which may be mirrored."""
    convert = tf.convert_to_tensor if _IS_TENSORFLOW else ops.convert_to_tensor
    return convert(_native(value))


def _global_norm(gradients):
    if _IS_TENSORFLOW:
        # In a float64 model, the gradients of the heads are float32. Not compiled, because XLA sums
        # a tensor on one core of a CPU.
        large, small = [], []
        for gradient in (tf.cast(x, tf.float32) for x in gradients):
            is_small = (gradient.shape.num_elements() or COMPILED_SIZE) < COMPILED_SIZE
            (small if is_small else large).append(gradient)
        if small:
            large.append(tf.concat([tf.reshape(x, [-1]) for x in small], 0))
        return tf.linalg.global_norm(large)
    return ops.sqrt(sum(ops.sum(ops.square(gradient)) for gradient in gradients))


def rate_factors(names, layer_decay):
    """Return a dict from weight names to learning-rate factors.

    The factor is 1 for the pooler, the heads and the last layer, and `layer_decay` times the factor
    of the layer above for each lower layer (Sun et al., arXiv:1905.05583).
    """
    # 0 for the embeddings, i + 1 for layer i, and no entry for the pooler and heads.
    matches = {name: match for name in names if (match := _LAYER.search(name))}
    depths = {name: int(match[1]) + 1 if match[1] else 0 for name, match in matches.items()}
    top = max(depths.values(), default=0)
    return {name: layer_decay ** (top - depths.get(name, top)) for name in names}
