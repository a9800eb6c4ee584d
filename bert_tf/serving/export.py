"""Writes SavedModels that need nothing of ours to run."""

import os

import keras
import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS
from bert_tf.tasks import KINDS


def export_classifier(
    model, export_dir, labels, vocab_file, version=None, task_type="classification"
):
    """Writes a classifier with a signature on token ids.

    `serving_default` takes `input_ids`, `input_mask` and `segment_ids`, int32 (B, S) with any B and
    S, and gives float32 `logits` (B, labels) and what the task makes of them: `probabilities`
    (B, labels), of a regression `score` (B,). Labels and vocabulary lie beside it in
    `assets.extra`, one a line in the order of their ids.

    Args:
      model: a `BertClassifier`.
      export_dir: folder of all versions of the model, as TF Serving wants it.
      labels: the labels in the order of their ids.
      vocab_file: the vocabulary of the model.
      version: number of the folder to write, the next free one if None.
      task_type: what the model was trained for, a key of `tasks.KINDS`.

    Returns:
      The folder written, EXPORT_DIR/VERSION.

    Raises:
      UserError: if that version exists.
    """
    files.make_folder(export_dir)
    versions = [int(name.rstrip("/")) for name in tf.io.gfile.listdir(export_dir)
                if name.rstrip("/").isdecimal()]  # fmt: skip
    if version is None:
        version = max(versions, default=0) + 1
    if version in versions:
        raise UserError(f"--version: {export_dir} has a version {version} already")

    def serve(inputs):
        logits = model(inputs, training=False)["logits"]
        return {"logits": logits, **KINDS[task_type].answers(logits)}

    signature = {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in INPUTS}
    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serving_default", serve, input_signature=[signature])
    folder = os.path.join(export_dir, str(version))
    with files.replacing_folder(folder) as temporary:
        archive.write_out(temporary, verbose=False)
        extra = os.path.join(temporary, "assets.extra")
        files.write_text(os.path.join(extra, "labels.txt"), "".join(f"{x}\n" for x in labels))
        files.write_text(os.path.join(extra, files.VOCABULARY), files.read_text(vocab_file))
    console.info("exported %s", folder)
    return folder
