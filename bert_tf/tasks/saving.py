"""Save and export a `Pipeline`."""

import json
import os
import subprocess
import sys
import tempfile

import keras

from bert_tf import serving
from bert_tf.checkpoints.release import check_path
from bert_tf.commands import environment
from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.errors import UserError
from bert_tf.io import files, folders


def save(pipeline, folder, overwrite):
    """Write a preset; see `Pipeline.save_to_preset`."""
    folder = os.fspath(folder).rstrip("/")
    if pipeline.has_head:  # written as a checkpoint
        check_path(folder, "folder")
    folders.check_preset(folder, overwrite)
    with files.replacing(folder, check_folder=folders.check_preset) as (temporary,):
        pipeline._write_preset(temporary)


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
