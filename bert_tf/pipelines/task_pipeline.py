"""The base class of the models that are fine-tuned and applied in Python."""

import contextlib
import operator
import os
import re
import warnings
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, serving, tasks
from bert_tf.configs.train import OptimizerConfig
from bert_tf.data.input_pipeline import length_multiple
from bert_tf.errors import UserError
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.optimization import make_optimizer
from bert_tf.pipelines.labelled_texts import UNKNOWN_LABEL
from bert_tf.pipelines.saving import Exportable, replacing_preset
from bert_tf.pipelines.tokenizer_layer import BertTokenizer
from bert_tf.training import checkpointing, use_xla
from bert_tf.training.task_config import TaskConfig


class TaskPipeline(Exportable):
    """Base of the classes that fine-tune and apply the model of a task: strings in, answers out.

    Subclasses set `task_name`, a key of `tasks.TASKS`. Predictions and exported models are those of
    the task's servable, so training, prediction and serving tokenize texts in the same way.

    Attributes:
      model: the Keras model.
      config: the `tasks.TaskConfig`: labels, lengths and the like.
      tokenizer: the `BertTokenizer` of the model.
    """

    task_name = ""
    # Whether the loss depends on the outputs for padding.
    _reads_padding = False

    def __init__(self, model: keras.Model, config: TaskConfig):
        """Create the pipeline from a model and the `TaskConfig` of its training."""
        self.model, self.config = model, config
        self.tokenizer = BertTokenizer(
            config.vocab_file,
            max_seq_length=config.max_seq_length,
            pad_to_longest=True,
            **config.tokenizer_settings,
        )
        self._is_random = False
        self._predictor = None
        self._predictor_variables: list = []
        # The arguments of `compile`, and the optimizer that `fit` made itself.
        self._compile_arguments: dict[str, Any] = {}
        self._default_optimizer = None

    @classmethod
    def _load(cls, model_files, config, dtype, load_weights):
        """Make the pipeline of a model.

        Args:
          model_files: its `PretrainedFiles`.
          config: its `TaskConfig`.
          dtype: a Keras dtype policy.
          load_weights: whether to load the weights; if False they are random.
        """
        model = tasks.TASKS[cls.task_name].make_model(config, dtype)
        pipeline = cls(model, config)
        loaded = []
        if load_weights:
            loaded = checkpoints.warm_start(
                model, model_files.checkpoint, labels=config.labels or None, argument="preset"
            )
        pipeline._is_random = all(name.startswith("bert/") for name in loaded)
        if pipeline._is_random:
            console.info("the head is randomly initialized; `fit` trains it")
        return pipeline

    def compile(
        self, optimizer: Any = None, loss: Any = None, metrics: Any = None, **options: Any
    ) -> None:
        """Compile the model with your own optimizer, loss or metrics.

        Optional: `fit` uses the optimizer of the release and the loss and metrics of the task for
        all that is not given.

        Args:
          optimizer: a Keras optimizer; None for the default, with a learning rate that decays over
            the steps of each `fit`.
          loss: a Keras loss of the model's logits; None for the loss of the task.
          metrics: Keras metrics of the logits; None for those of the task.
          **options: further arguments of `keras.Model.compile`, such as `jit_compile`.
        """
        self._compile_arguments = {"loss": loss, "metrics": metrics, **options}
        self._default_optimizer = None
        if optimizer is None:
            optimizer = self._default_optimizer = keras.optimizers.SGD()
        self._compile(optimizer)

    def _compile(self, optimizer):
        given = {name: x for name, x in self._compile_arguments.items() if x is not None}
        with self.model.distribute_strategy.scope():
            arguments = self._default_compile_arguments()
            if "loss" in given:
                arguments.pop("loss_weights", None)
            self.model.compile(optimizer, **{**arguments, **given})

    def _default_compile_arguments(self):
        """Return the loss and the metrics of the task, as `keras.Model.compile` takes them."""
        raise NotImplementedError

    def _has_own_optimizer(self):
        """Return whether the user compiled the model with an optimizer."""
        if not self.model.compiled:
            return False
        # float16 wraps the optimizer that was compiled.
        optimizer = self.model.optimizer
        optimizer = getattr(optimizer, "inner_optimizer", optimizer)
        return optimizer is not self._default_optimizer

    def _compile_for_training(self, learning_rate, default_rate, num_steps):
        """Compile with a new default optimizer, unless the user compiled one.

        Args:
          learning_rate: as given by the user, None if not.
          default_rate: its default.
          num_steps: function that returns the number of steps of the training.
        """
        if self._has_own_optimizer():
            if learning_rate is not None:
                raise UserError(
                    "`learning_rate` cannot be combined with an optimizer given to `compile`"
                )
            return
        with self.model.distribute_strategy.scope():
            rate = default_rate if learning_rate is None else learning_rate
            self._default_optimizer = make_optimizer(
                OptimizerConfig(learning_rate=rate), num_steps()
            )
        self._compile(self._default_optimizer)

    def _fit(self, dataset, validation, learning_rate, default_rate, epochs, options):
        """Train on a dataset of batches of model inputs, targets and optionally weights."""

        def num_steps():
            count = options.get("steps_per_epoch") or dataset.cardinality().numpy()
            if count <= 0:
                raise UserError(
                    "the number of batches of the dataset is unknown, and the learning rate decays "
                    "over all of them; give `steps_per_epoch`, or `compile` an optimizer"
                )
            return int(count) * epochs

        self._compile_for_training(learning_rate, default_rate, num_steps)
        with _naming_unknown_labels(), warnings.catch_warnings():
            if not self.model.uses_pooler:
                warnings.filterwarnings("ignore", r"Gradients do not exist for .*\['pooler/")
            with self._skipping_padding():
                history = self.model.fit(
                    dataset, epochs=epochs, validation_data=validation, shuffle=False, **options
                )
        self._is_random = False
        return history

    def _evaluate(self, dataset, options):
        """Return loss and metrics on a dataset of batches as a dict."""
        if not self.model.compiled:
            self.compile()
        with _naming_unknown_labels(), self._skipping_padding():
            return self.model.evaluate(dataset, return_dict=True, **options)

    @contextlib.contextmanager
    def _skipping_padding(self):
        """Leave out padding in what Keras compiles in the context, but not in exported models."""
        model = self.model
        previous = model.skip_padding
        model.skip_padding = can_skip_padding(
            model.distribute_strategy, model.jit_compile, self._reads_padding, previous
        )
        try:
            yield
        finally:
            model.skip_padding = previous

    def _encode(self, text_a, text_b=None):
        """Convert strings (B,) to the model's inputs, in `tf.data`.

        Sequences are padded to the longest of the batch, rounded up so that few lengths occur.
        """
        batch = self.tokenizer(text_a, text_b)
        return pad_to_multiple(batch, self._length_multiple(), self.config.max_seq_length)

    def _length_multiple(self):
        """Return the multiple to which the lengths of batches are rounded up."""
        strategy, limit = self.model.distribute_strategy, self.config.max_seq_length
        return length_multiple(strategy, use_xla(None, strategy), limit) or limit

    def _servable(self, options):
        self._warn_if_random("the answers of the exported model")
        return self._make_servable(self.config, options)

    def _make_servable(self, config, options):
        spec = tasks.TASKS[self.task_name]
        return spec.make_servable(self.model, config, options)

    def _prediction_config(self):
        """Return the config of the servable that predicts."""
        return self.config

    def _answers(self, rows, batch_size):
        """Return the answers of the task's servable to rows, dicts of its inputs, as a list."""
        self._warn_if_random("the answers")
        # A model whose variables were replaced, as by `quantize`, is traced again.
        if self._predictor is None or not _same(self._predictor_variables, self.model.variables):
            skip_padding = can_skip_padding(self.model.distribute_strategy)
            options = serving.Options(skip_padding=skip_padding)
            servable = self._make_servable(self._prediction_config(), options)
            self._predictor = serving.ServablePredictor(servable)
            self._predictor_variables = self.model.variables
        return self._predictor(rows, batch_size)

    def _warn_if_random(self, what):
        if self._is_random:
            console.warning(
                "%s are those of a randomly initialized head; train it with `fit` first", what
            )

    def save_to_preset(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Write the model to a folder, with the files that the scripts write for a trained model.

        `from_preset` loads it. The scripts take it as `--init_checkpoint`, and `export_model.py` as
        `--model_dir`. The state of the optimizer is not saved.

        Args:
          folder: its path.
          overwrite: whether to replace an existing folder.

        Raises:
          UserError: if the folder exists, or cannot be written.
        """
        self._warn_if_random("the saved weights")
        optimizer = getattr(self.model, "optimizer", None)
        step = int(optimizer.iterations.numpy()) if optimizer else 0
        tensors = {**checkpoints.tensors(self.model), "global_step": np.int64(step)}
        variables = {name: tf.constant(value) for name, value in tensors.items()}
        with replacing_preset(folder, overwrite) as temporary:
            checkpointing.save(temporary, variables)
            self.config.save(temporary)


@contextlib.contextmanager
def _naming_unknown_labels():
    """Raise UserError for the assertion of `LabelEncoder` in a `tf.data` pipeline."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(rf"`\w+`: the dataset {UNKNOWN_LABEL} [^\]\n']*", str(error))
        if found is None:
            raise
        raise UserError(found[0]) from None


def _same(objects, others):
    return len(objects) == len(others) and all(map(operator.is_, objects, others))


def pad_to_multiple(batch, multiple, limit):
    """Pad the tensors (B, S) of a dict with 0 until S is a multiple, or `limit`."""
    size = tf.shape(batch["input_ids"])[1]
    padding = tf.minimum(-size % multiple, tf.maximum(limit - size, 0))
    return {name: tf.pad(x, [[0, 0], [0, padding]]) for name, x in batch.items()}
