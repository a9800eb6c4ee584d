"""Save and export pipelines as presets and SavedModels."""

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, serving
from bert_tf.checkpoints.metadata import CONFIG_FILES, find_companion_file
from bert_tf.commands import environment
from bert_tf.configs.export import ServingConfig
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files
from bert_tf.training import checkpointing
from bert_tf.training.task import TaskSpec


class Savable:
    """Base class of pipelines that can be saved and exported."""

    model: keras.Model
    config: Any
    spec: TaskSpec
    # Whether the head was neither loaded nor trained.
    _is_random = False

    def __repr__(self):
        labels = self.config.labels
        values = {
            "num_layers": self.config.bert_config.num_hidden_layers,
            "num_parameters": self.model.count_params(),
            "max_seq_length": self.config.max_seq_length,
            **({"labels": abbreviate(labels, 9)} if labels else {}),
        }
        described = ", ".join(f"{name} {value}" for name, value in values.items())
        return f"<{type(self).__name__} of {type(self.model).__name__}: {described}>"

    def summary(self, **options: Any) -> None:
        """Print the layers of the model; see `keras.Model.summary`."""
        self.model.summary(**options)

    def export(self, folder: str | os.PathLike, version: int | None = None, **options: Any) -> str:
        """Write a SavedModel for TF Serving and for programs without bert_tf.

        `bert_tf.serving.Predictor` runs the model. `export_model.py` writes the same files.

        Args:
          folder: parent folder for all versions of the model.
          version: version number; None for the next free one.
          **options: attributes of `configs.ServingConfig`, such as `inputs` and `weights`. By
            default, `dtype` is that of the model.

        Returns:
          The folder written, FOLDER/VERSION.

        Raises:
          UserError: if the version exists or an argument is invalid.
        """
        dtype = self.model.compute_type
        if options.get("dtype") is None:
            options["dtype"] = None if dtype == "float64" else dtype
        serving_config = ServingConfig(**options)
        self._warn_if_random("the answers of the exported model")
        if keras.backend.backend() != "tensorflow":
            return self._export_by_tensorflow(os.fspath(folder), version, options)
        servable = self.spec.make_servable(self.model, self.config, serving_config)
        return serving.export(servable, os.fspath(folder), version)

    def _export_by_tensorflow(self, folder, version, options):
        """Export the model, through a preset, in a process with the TensorFlow backend."""
        with tempfile.TemporaryDirectory() as temporary:
            preset = os.path.join(temporary, "preset")
            with files.replacing(preset) as (new,):
                self._write_preset(new)
            arguments = json.dumps([os.path.abspath(folder), version, options])
            program = (
                "import json, sys, bert_tf; "
                f"pipeline = bert_tf.{type(self).__name__}.from_preset(sys.argv[1]); "
                "folder, version, options = json.loads(sys.argv[2]); "
                "print(pipeline.export(folder, version, **options))"
            )
            # No GPUs, because JAX has reserved their memory.
            variables = {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
            done = subprocess.run(
                [sys.executable, "-c", program, preset, arguments],
                env={**environment(), **variables},
                capture_output=True,
                text=True,
            )
        if done.returncode:
            message = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise UserError(f"the export with TensorFlow failed: {message}")
        return os.path.join(folder, os.path.basename(done.stdout.splitlines()[-1]))

    def save_to_preset(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Write the model to a folder that `from_preset` loads.

        A fine-tuned model is written in the format of its script, without optimizer state, for
        `--init_checkpoint` of the scripts or `--model_dir` of `export_model.py`. A pre-trained
        model is written as a Hugging Face or sentence-transformers folder.

        Args:
          folder: the path.
          overwrite: whether to replace an existing model.

        Raises:
          UserError: if the folder exists or cannot be written.
        """
        self._warn_if_random("the saved weights")
        folder = os.fspath(folder).rstrip("/")
        if files.exists(folder) and (not files.is_folder(folder) or files.list_folder(folder)):
            if not overwrite:
                raise UserError(f"`folder`: {folder} already exists; `overwrite=True` replaces it")
            if find_companion_file(folder, CONFIG_FILES) is None:
                raise UserError(
                    f"`folder`: found no model in {folder}, so `overwrite` does not replace it"
                )
        with files.replacing(folder) as (temporary,):
            self._write_preset(temporary)
            if files.exists(folder):
                files.remove(folder)

    def _warn_if_random(self, what):
        if self._is_random:
            console.warning(
                "%s come from a randomly initialized head; train it with `fit` first", what
            )

    def __reduce__(self):
        """Pickle or copy the model as Keras does, without traced functions."""
        arguments = self._compile_arguments, self._own_optimizer is None, self._is_random
        return _restore, (type(self), self.model, self.config, *arguments)

    def _write_preset(self, folder):
        optimizer = getattr(self.model, "optimizer", None)
        step = int(keras.ops.convert_to_numpy(optimizer.iterations)) if optimizer else 0
        tensors = {**checkpoints.tensors(self.model), "global_step": np.int64(step)}
        variables = {name: tf.constant(value) for name, value in tensors.items()}
        checkpointing.save(folder, variables)
        self.config.save(folder)


def _restore(pipeline_class, model, config, compile_arguments, is_default, is_random):
    pipeline = pipeline_class(model, config)
    pipeline._compile_arguments, pipeline._is_random = compile_arguments, is_random
    if is_default and model.compiled:
        pipeline._default_optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return pipeline
