"""`fit` of the classes: in memory by Keras, or in a folder by the loop of the scripts."""

import dataclasses
import warnings

import keras

from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.train import FineTuneConfig, FitConfig, TrainConfig
from bert_tf.errors import UserError
from bert_tf.modeling.task_model import RATE_CALLBACKS
from bert_tf.optimization import make_optimizer
from bert_tf.training.fine_tuning import FineTuning
from bert_tf.training.progress import AddScores, CheckLoss
from bert_tf.training.strategy import model_strategy

# Options of a `TrainConfig` -> the arguments that replace them.
_OTHER_NAMES = {
    "dtype": "`dtype` of `from_preset`",
    "num_train_epochs": "`epochs`",
    "train_batch_size": "`batch_size`",
}


def check_options(pipeline, config, options):
    """Raise UserError for names that `fit` does not have; see `fit_in_folder` for the arguments."""
    of_loop = {x.name for x in dataclasses.fields(TrainConfig)}
    for name in options:
        if name in _OTHER_NAMES:
            raise UserError(f"`{name}` is not an option of `fit`; use {_OTHER_NAMES[name]}")
        if name not in {*of_loop, "callbacks", "verbose", "initial_epoch"}:
            raise UserError(f"`{name}` is not supported by the `fit` of {type(pipeline).__name__}")
        if name in of_loop and not config.output_dir:
            raise UserError(f"`{name}` requires `output_dir`")
        if name == "initial_epoch" and config.output_dir:
            raise UserError(f"`{name}` cannot be combined with `output_dir`")


def fit_in_memory(pipeline, data, config, optimizer_config, options):
    """Train a pipeline with `keras.Model.fit`; see `fit_in_folder` for the arguments."""
    task = data.make_task(pipeline.model)
    batches, num_steps = pipeline._batches(pipeline._features(data, "train"), task, config)
    _prepare_optimizer(pipeline, optimizer_config, task, num_steps * config.epochs)
    data.start_training(pipeline.model)
    callbacks = keras.tree.flatten(options.pop("callbacks", None) or [])
    if "dev" in data.examples:
        argument = None if config.validation_split else "validation_data"
        records = pipeline._features(data, "dev", argument)
        callbacks.insert(0, AddScores(lambda: pipeline._scores(task, records, config.batch_size)))
        if pipeline._has_own_scores or not {"loss", "eval_loss"} & {*task.metric_names}:
            validation = pipeline._validation(data, records, task, config.batch_size)
            options["validation_data"], options["validation_steps"] = validation
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Gradients do not exist for variables")
        return pipeline.model.fit(
            batches,
            epochs=config.epochs,
            steps_per_epoch=num_steps,
            shuffle=False,
            callbacks=[*callbacks, CheckLoss()],
            **options,
        )


def _prepare_optimizer(pipeline, optimizer_config, task, num_steps):
    if pipeline._own_optimizer:
        names = [x.name for x in dataclasses.fields(optimizer_config)]
        for name in filter(optimizer_config.is_given, names):
            raise UserError(f"`{name}` cannot be combined with an optimizer set by `compile`")
        if pipeline._fit_key != task.key:
            pipeline.model.task, pipeline._fit_key = task, task.key
            # Keep what `compile` set, but trace the steps again.
            pipeline.model.train_function = pipeline.model.test_function = None
        return
    variables = tuple(map(id, pipeline.model.trainable_variables))
    key = (optimizer_config, num_steps, variables, task.key)
    if key == pipeline._fit_key:  # the compiled training step can be reused
        for variable in pipeline._default_optimizer.variables:
            variable.assign(keras.ops.zeros_like(variable))
        return
    pipeline.model.task, pipeline._fit_key = task, key
    with model_strategy(pipeline.model).scope():
        pipeline._default_optimizer = make_optimizer(optimizer_config, num_steps)
        pipeline.model.compile(pipeline._default_optimizer, **pipeline._compile_arguments)


def fit_in_folder(pipeline, data, config, optimizer_config, options):
    """Train a pipeline as the scripts do, and call Keras callbacks after each epoch.

    Args:
      pipeline: the `Pipeline`.
      data: its `TaskData`.
      config: the `FitConfig`.
      optimizer_config: the `OptimizerConfig`.
      options: the other arguments of `fit`, options of a `TrainConfig`.

    Returns:
      The `keras.callbacks.History`.
    """
    if keras.backend.backend() != "tensorflow":
        raise UserError("`output_dir` requires the TensorFlow backend of Keras")
    if not pipeline.spec.config_class.FILE:
        raise UserError(f"`output_dir` is not supported by {type(pipeline).__name__}")
    callbacks = keras.tree.flatten(options.pop("callbacks", None) or [])
    options.pop("verbose", None)  # the loop logs its progress
    for callback in callbacks:
        if isinstance(callback, RATE_CALLBACKS):
            name = type(callback).__name__
            raise UserError(f"`callbacks`: {name} cannot be combined with `output_dir`")
    train = TrainConfig.take(
        options,
        dtype=pipeline.model.compute_type,
        train_batch_size=config.batch_size,
        eval_batch_size=config.batch_size,
        num_train_epochs=float(config.epochs),
        bucket_by_length=config.bucket_by_length,
    )
    unused = [
        x for x in ("shuffle", "steps_per_epoch") if getattr(config, x) != getattr(FitConfig, x)
    ]
    if pipeline._compile_arguments or pipeline._own_optimizer:
        unused.append("compile")
    for name in unused:
        raise UserError(f"`{name}` cannot be combined with `output_dir`")
    if train.eval_steps and not data.splits("dev"):
        raise UserError("`eval_steps` requires `validation_data`")
    count, size = data.num_train_examples(), config.batch_size
    if count is not None and count < size:
        raise UserError(f"`batch_size={size}`: found only {count} {data.unit}")
    strategy = model_strategy(pipeline.model)
    run_config = FineTuneConfig(
        config.output_dir, data.config, train=train, optimizer=optimizer_config, do_train=True
    )
    data.config.check_folder(config.output_dir)
    run_config.check_model(data.config.bert_config)
    no_files = PretrainedFiles(None, None, None, None)
    run = FineTuning(
        pipeline.spec, run_config, data, pipeline.tokenizer, strategy, no_files,
        keras_model=pipeline.model, callbacks=callbacks,
    )  # fmt: skip
    skip_padding = pipeline.model.skip_padding
    try:
        run.run()
    finally:
        pipeline.model.skip_padding = skip_padding
    return run.epochs.callbacks._history
