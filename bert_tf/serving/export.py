"""Writes SavedModels that need nothing of ours to run."""

import os

import keras
import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS
from bert_tf.tasks import KINDS
from bert_tf.tasks.numbers import normalise


def export_classifier(model, export_dir, settings, version=None):
    """Writes a classifier with a signature on token ids.

    `serving_default` takes `input_ids`, `input_mask` and `segment_ids`, int32 (B, S) with any B and
    S, and gives float32 `logits` (B, labels) and what the task makes of them: `probabilities`
    (B, labels), of a regression `score` (B,). A model with numbers beside the text also takes
    `numbers` float64 (B, F), as they stand in the data. Labels, vocabulary and the names of the
    numbers lie beside it in `assets.extra`, one a line in their order.

    Args:
      model: a `BertClassifier`.
      export_dir: folder of all versions of the model, as TF Serving wants it.
      settings: the `tasks.Settings` that it was trained with.
      version: number of the folder to write, the next free one if None.

    Returns:
      The folder written, EXPORT_DIR/VERSION.

    Raises:
      UserError: if that version exists.
    """
    folder = version_folder(export_dir, version)
    signature = {name: tf.TensorSpec((None, None), tf.int32, name=name) for name in INPUTS}
    numbers = settings.vector
    if numbers:
        signature["numbers"] = tf.TensorSpec((None, len(numbers)), tf.float64, name="numbers")

    def serve(inputs):
        if numbers:
            small = tf.cast(normalise(inputs["numbers"], numbers), tf.float32)
            inputs = {**inputs, "numbers": small}
        logits = model(inputs, training=False)["logits"]
        return {"logits": logits, **KINDS[settings.task_type].answers(logits)}

    archive = keras.export.ExportArchive()
    archive.track(model)
    archive.add_endpoint("serving_default", serve, input_signature=[signature])
    with files.replacing_folder(folder) as temporary:
        archive.write_out(temporary, verbose=False)
        extra = os.path.join(temporary, "assets.extra")
        lists = {"labels.txt": settings.labels}
        if settings.numbers:
            lists["numbers.txt"] = [number.name for number in settings.numbers]
        for name, values in lists.items():
            files.write_text(os.path.join(extra, name), "".join(f"{x}\n" for x in values))
        vocabulary = files.read_text(settings.vocab_file)
        files.write_text(os.path.join(extra, files.VOCABULARY), vocabulary)
    console.info("exported %s", folder)
    return folder


def version_folder(export_dir, version=None):
    """The folder of a model's version, to be made; the next free one if `version` is None.

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
    return os.path.join(export_dir, str(version))
