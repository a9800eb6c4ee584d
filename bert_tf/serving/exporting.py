"""Writes SavedModels that need nothing of ours to run.

A model is served by strings and by ids. With strings its graph has two operations of
tensorflow-text, and TensorFlow does not load a graph whose operations it does not know: so a model
for those who have TensorFlow alone takes ids only, and is written by itself.
"""

import json
import os
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf import console, files
from bert_tf.errors import UserError
from bert_tf.modeling.models import INPUTS
from bert_tf.serving import warm_up
from bert_tf.serving.buckets import Buckets
from bert_tf.serving.quantization import WEIGHT_TYPES, Compressed
from bert_tf.serving.rows import METADATA
from bert_tf.tokenization.graph import GraphTokenizer

# For `batching_parameters.txt`: the most rows that TF Serving puts together, and lets in at once.
_BATCH_SIZE, _REQUEST_SIZE = 32, 1024

# Tasks whose outputs are as wide as the row of the batch that has the most needs.
_OF_THE_BATCH = ("encoder", "masked_words", "tagging")


class Options(NamedTuple):
    """How a model is written, whatever it does.

    `inputs` is "text", for a `serving_default` on strings and a signature `ids`; or "ids", for a
    `serving_default` on ids in a graph that needs TensorFlow alone. `buckets` are lengths to pad
    the sequences of texts to, none for the longest of a batch. `weights` is one of
    `compressed.WEIGHT_TYPES`. `warm_up` says whether to leave requests for TF Serving to begin
    with.
    """

    inputs: str = "text"
    buckets: tuple = ()
    weights: str = "float32"
    warm_up: bool = True


class Servable(NamedTuple):
    """What a SavedModel is made of.

    `task` is the name of what it does. `text` is a function from a dict of the strings that
    `text_signature` names, in their order, to a dict of outputs; `ids` and `ids_signature` are the
    same of ids. `parts` are to be kept with the model: the model or what stands for it, tokenizers.
    `tokenizer` is the `GraphTokenizer` of its texts. `sample` makes the inputs of `text` of a text
    that is two tokens shorter than the sequence is to be. `about` is what else to say in
    `model.json`, such as labels. `max_seq_length` is the longest sequence. `options` are the
    `Options` that all this was made with.
    """

    task: str
    parts: tuple
    tokenizer: GraphTokenizer
    max_seq_length: int
    text: Callable
    text_signature: dict
    sample: Callable
    ids: Callable
    ids_signature: dict
    about: dict
    options: Options


def texts(*names):
    """A signature of strings (B,) by these names."""
    return {name: tf.TensorSpec((None,), tf.string, name=name) for name in names}


def tokens(*shape):
    """A signature of the encoder's inputs, int32 (B, S) or of another shape."""
    shape = shape or (None, None)
    return {name: tf.TensorSpec(shape, tf.int32, name=name) for name in INPUTS}


def prepared(model, options, max_seq_length):
    """(what stands for a Keras model, `Buckets`), as the options say."""
    if options.weights not in WEIGHT_TYPES:
        raise UserError(
            f"`weights={options.weights}`: one of {', '.join(WEIGHT_TYPES)} was expected"
        )
    if options.weights != "float32":
        model = Compressed(model, options.weights)
    return model, Buckets(options.buckets, max_seq_length)


def export(servable, export_dir, version=None):
    """Writes a SavedModel, whole or not at all.

    Beside its graph and weights lie in `assets.extra` the vocabulary, the labels if it has any,
    one a line in the order of their ids, `model.json`, and requests for TF Serving to warm up
    with. Beside all versions lies `batching_parameters.txt`, if there is none yet.

    Args:
      servable: a `Servable`.
      export_dir: folder of all versions of the model, as TF Serving wants it.
      version: number of the folder to write, the next free one if None.

    Returns:
      The folder written, EXPORT_DIR/VERSION.

    Raises:
      UserError: if that version exists, or another process exports into the same folder.
    """
    with files.locked(export_dir, "export_dir", "exports"):
        files.remove_temporary_files(export_dir)
        folder = version_folder(export_dir, version)
        _write(servable, folder)
        _write_batching(export_dir, servable.task)
    return folder


def _write(servable, folder):
    """Writes a version."""
    options = servable.options
    by_text = options.inputs == "text"
    archive = keras.export.ExportArchive()
    for part in servable.parts if by_text else servable.parts[:1]:
        # The weights of a Keras model are found by themselves; track() would write them twice.
        if not isinstance(part, keras.Layer):
            archive.track(part)
    endpoints = {"serving_default": (servable.ids, servable.ids_signature)}
    if by_text:
        endpoints = {
            "serving_default": (servable.text, servable.text_signature),
            "ids": (servable.ids, servable.ids_signature),
        }
    for name, (function, signature) in endpoints.items():
        archive.add_endpoint(name, function, input_signature=[signature])
    buckets = Buckets(options.buckets, servable.max_seq_length)
    with files.replacing_folder(folder) as temporary:
        archive.write_out(temporary, verbose=False)
        extra = os.path.join(temporary, "assets.extra")
        about = {
            "task": servable.task,
            "inputs": list(servable.text_signature) if by_text else [],
            "max_seq_length": servable.max_seq_length,
            "sequence_buckets": buckets.lengths if by_text else (),
            "weights": options.weights,
            "do_lower_case": servable.tokenizer.do_lower_case,
            **servable.about,
        }
        words = {index: piece for piece, index in servable.tokenizer.vocab.items()}
        lists = {
            files.VOCABULARY: [words.get(index, "") for index in range(max(words) + 1)],
            "labels.txt": about.get("labels", ()),
            "numbers.txt": about.get("numbers", ()),
        }
        for name, lines in lists.items():
            if lines:
                files.write_text(os.path.join(extra, name), "".join(f"{x}\n" for x in lines))
        text = json.dumps(about, indent=2, ensure_ascii=False) + "\n"
        files.write_text(os.path.join(temporary, METADATA), text)
        if options.warm_up:
            warm_up.write(temporary, list(_requests(servable, endpoints, buckets.samples)))
    console.info(
        "exported %s: %s on %s, weights %s",
        folder, servable.task, ", ".join(servable.text_signature) if by_text else "ids",
        options.weights,
    )  # fmt: skip


def _requests(servable, endpoints, lengths):
    """Yields (inputs, signature): for each length a request of one and one of many."""
    # One that is a token by itself.
    words = (x for x in servable.tokenizer.vocab if x.isascii() and x.isalpha() and x.islower())
    word = next(words, "a")
    for name, (_, signature) in endpoints.items():
        for length in lengths:
            for size in (1, _BATCH_SIZE):
                if signature is servable.text_signature:
                    row = servable.sample(" ".join([word] * max(1, length - 2)))
                    yield {key: [value] * size for key, value in row.items()}, name
                else:
                    yield _ids_of(signature, size, length), name


def _ids_of(signature, size, length):
    """Inputs of ids: all 1 for a mask, 0 for the rest."""
    found = {}
    for name, spec in signature.items():
        # (B, S), (B, C, S), or (B, F) of numbers.
        middle = [2] if spec.shape.rank == 3 else []
        last = spec.shape[-1] or length
        fill = tf.ones if name == "input_mask" else tf.zeros
        found[name] = fill((size, *middle, last), spec.dtype)
    return found


def _write_batching(export_dir, task):
    """Leaves a configuration of TF Serving's batching, for --batching_parameters_file."""
    lines = [
        # A request of more rows than a batch has is worked through in parts; max_batch_size is
        # the most that a request may have.
        f"max_batch_size {{ value: {_REQUEST_SIZE} }}",
        "enable_large_batch_splitting { value: true }",
        f"max_execution_batch_size {{ value: {_BATCH_SIZE} }}",
    ]
    if task in _OF_THE_BATCH:
        # TF Serving joins the parts of a request as they are, and these have different widths.
        lines = [f"max_batch_size {{ value: {_BATCH_SIZE} }}"]
    lines += [
        "batch_timeout_micros { value: 2000 }",
        "max_enqueued_batches { value: 256 }",
        "num_batch_threads { value: 2 }",
    ]
    # And not allowed_batch_sizes, of which the last must be max_batch_size, nor
    # pad_variable_length_inputs, which pads a mask with its first value, a 1.
    text = "\n".join(lines) + "\n"
    path = os.path.join(export_dir, "batching_parameters.txt")
    if not tf.io.gfile.exists(path):
        files.write_text(path, text)
    elif files.read_text(path) != text:
        console.info("%s is left as it is; a new one would be another", path)


def version_folder(export_dir, version=None):
    """The folder of a model's version, to be made; the next free one if `version` is None.

    Raises:
      UserError: if that version exists.
    """
    versions = [int(name.rstrip("/")) for name in tf.io.gfile.listdir(export_dir)
                if name.rstrip("/").isdecimal()]  # fmt: skip
    if version is None:
        version = max(versions, default=0) + 1
    if version in versions:
        raise UserError(f"`version`: {export_dir} has a version {version} already")
    return os.path.join(export_dir, str(version))
