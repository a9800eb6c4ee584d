"""Writes a SavedModel from strings to sentence vectors."""

import os

import keras
import tensorflow as tf

from bert_tf import console, files
from bert_tf.serving.export import version_folder
from bert_tf.tokenization import GraphTokenizer


def export_sentence_encoder(encoder, export_dir, version=None):
    """Writes a sentence encoder with the tokenizer in it.

    `serving_default` takes `texts`, string (B,), and gives `vectors`, float32 (B, H), pooled and
    normalised as by `encoder`. Whoever loads it needs TensorFlow and has to import tensorflow_text,
    of which it uses two operations; nothing of ours.

    Args:
      encoder: a `features.SentenceEncoder`.
      export_dir: folder of all versions of the model, as TF Serving wants it.
      version: number of the folder to write, the next free one if None.

    Returns:
      The folder written, EXPORT_DIR/VERSION.

    Raises:
      UserError: if that version exists.
    """
    folder = version_folder(export_dir, version)
    lower = encoder.tokenizer.basic_tokenizer.do_lower_case
    tokenizer = GraphTokenizer(encoder.tokenizer.vocab, lower)

    def serve(texts):
        batch = tokenizer(texts, max_seq_length=encoder.max_seq_length, pad_to_longest=True)
        return {"vectors": encoder.vectors_of(batch)}

    archive = keras.export.ExportArchive()
    archive.track(encoder.model)
    archive.track(tokenizer)
    signature = tf.TensorSpec((None,), tf.string, name="texts")
    archive.add_endpoint("serving_default", serve, input_signature=[signature])
    with files.replacing_folder(folder) as temporary:
        archive.write_out(temporary, verbose=False)
        pieces = encoder.tokenizer.inv_vocab
        lines = [pieces.get(index, "") + "\n" for index in range(max(pieces) + 1)]
        path = os.path.join(temporary, "assets.extra", files.VOCABULARY)
        files.write_text(path, "".join(lines))
    console.info("exported %s", folder)
    return folder
