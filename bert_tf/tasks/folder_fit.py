"""`fit(output_dir=...)`: the loop of the scripts, with a pipeline's model and data."""

import keras

from bert_tf.checkpoints import PretrainedFiles
from bert_tf.configs.train import FineTuneConfig, FitConfig, TrainConfig
from bert_tf.errors import UserError
from bert_tf.modeling.task_model import RATE_CALLBACKS
from bert_tf.training.fine_tuning import FineTuning
from bert_tf.training.strategy import model_strategy

# Options of the loop that are arguments of `fit`.
_FIT_NAMES = {"num_train_epochs": "epochs", "train_batch_size": "batch_size"}


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
    if "dtype" in options:
        raise UserError("`dtype` is an argument of `from_preset`")
    for name in options.keys() & _FIT_NAMES.keys():
        raise UserError(f"`{name}` is the argument `{_FIT_NAMES[name]}` of `fit`")
    train = TrainConfig.take(
        options,
        dtype=pipeline.model.compute_type,
        train_batch_size=config.batch_size,
        eval_batch_size=config.batch_size,
        num_train_epochs=float(config.epochs),
        bucket_by_length=config.bucket_by_length,
    )
    unused = {name: getattr(config, name) for name in ("shuffle", "steps_per_epoch")}
    unused = [name for name, value in unused.items() if value != getattr(FitConfig, name)]
    if pipeline._compile_arguments or pipeline._own_optimizer:
        unused.append("compile")
    if train.eval_steps and not data.splits("dev"):
        raise UserError("`eval_steps` requires `validation_data`")
    for name in (*unused, *options):
        raise UserError(f"`{name}` cannot be combined with `output_dir`")
    count, size = data.num_train_examples(), config.batch_size
    if count is not None and count < size:
        raise UserError(f"`batch_size={size}`: found only {count} {data.unit}")
    strategy = model_strategy(pipeline.model)
    run_config = FineTuneConfig(
        config.output_dir, data.config, train=train, optimizer=optimizer_config, do_train=True
    )
    data.config.check_folder(config.output_dir)
    run_config.check()
    run_config.check_model(data.config.bert_config)
    no_files = PretrainedFiles(None, None, None, None)
    run = FineTuning(
        pipeline.spec, run_config, data, strategy, no_files,
        keras_model=pipeline.model, callbacks=callbacks,
    )  # fmt: skip
    skip_padding = pipeline.model.skip_padding
    try:
        run.run()
    finally:
        pipeline.model.skip_padding = skip_padding
    return run.epochs.callbacks._history
