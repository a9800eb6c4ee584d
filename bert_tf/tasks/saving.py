"""Save and export a `Pipeline`."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile

import keras

from bert_tf import serving
from bert_tf.checkpoints.metadata import CONFIG_FILES, find_companion_file
from bert_tf.commands import environment
from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.errors import UserError
from bert_tf.io import files


def export(pipeline, folder, version, options):
    """Write a SavedModel; see `Pipeline.export`."""
    dtype = pipeline.model.compute_type
    if options.get("dtype") is None:
        options["dtype"] = None if dtype == "float64" else dtype
    config = ExportConfig(folder, version=version, serving=ServingConfig(**options))
    if keras.backend.backend() != "tensorflow":
        return _export_by_tensorflow(pipeline, config.export_dir, config.version, options)
    servable = pipeline.spec.make_servable(pipeline.model, pipeline.config, config.serving)
    return serving.export(servable, config.export_dir, config.version)


def _export_by_tensorflow(pipeline, folder, version, options):
    """Export the model, through a preset, in a process with the TensorFlow backend."""
    with tempfile.TemporaryDirectory() as temporary:
        preset = os.path.join(temporary, "preset")
        pipeline.save_to_preset(preset)
        arguments = json.dumps([os.path.abspath(folder), version, options])
        program = (
            "import json, sys, bert_tf; "
            f"pipeline = bert_tf.{type(pipeline).__name__}.from_preset(sys.argv[1]); "
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


@contextlib.contextmanager
def replacing_model(folder, overwrite):
    """Yield a temporary folder, which then becomes or, with `overwrite`, replaces the folder."""
    folder = os.fspath(folder).rstrip("/")
    if files.exists(folder) and (not files.is_folder(folder) or files.list_folder(folder)):
        if not overwrite:
            raise UserError(f"`folder`: {folder} already exists; `overwrite=True` replaces it")
        if find_companion_file(folder, CONFIG_FILES) is None:
            raise UserError(
                f"`folder`: found no model in {folder}, so `overwrite` does not replace it"
            )
    with files.replacing(folder) as (temporary,):
        yield temporary
        if files.exists(folder):
            files.remove(folder)
