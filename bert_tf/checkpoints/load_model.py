"""Implementation of `from_preset` for the models."""

import inspect

from bert_tf import console
from bert_tf.checkpoints.resolver import resolve
from bert_tf.checkpoints.warm_start import count_labels, warm_start


def load_model(model_class, preset, load_weights=True, **options):
    """Return a model of a preset; see `PretrainedModel.from_preset`."""
    model_files = resolve(preset, needs=["bert_config_file"])
    path = model_files.checkpoint
    if "num_labels" in inspect.signature(model_class).parameters and "num_labels" not in options:
        options["num_labels"] = count_labels(path)
    model = model_class(model_files.bert_config, **options)
    if load_weights:
        warm_start(model, path, argument="preset", on_missing=console.warning)
    return model
