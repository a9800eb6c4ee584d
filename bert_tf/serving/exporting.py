"""Export of SavedModels and ONNX models, which run without bert_tf.

Models that take text use two operations of tensorflow-text, and TensorFlow does not load graphs
with unknown operations. Models that take token ids are therefore exported separately.
"""

import itertools
import json
import os
from collections.abc import Callable
from typing import NamedTuple

import keras
import tensorflow as tf

from bert_tf import checkpoints, console
from bert_tf.checkpoints.release import check_path
from bert_tf.data.tfrecord import varint
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files, json_files, processes
from bert_tf.modeling import cpu_graph
from bert_tf.serving.predictor import FORMATS, METADATA, ONNX_FILE, list_versions
from bert_tf.serving.prepared_model import PreparedModel
from bert_tf.tokenization.settings import INPUTS, extra_settings
from bert_tf.tokenization.vocabulary import to_text
from bert_tf.training.run import read_run_json

# For `batching_parameters.txt`: maximum number of rows in a batch and in a request.
_MAX_BATCH_SIZE, _MAX_REQUEST_SIZE = 32, 1024

# File of the requests that TF Serving sends to a model before making it available.
WARM_UP_REQUESTS = os.path.join("assets.extra", "tf_serving_warmup_requests")

# Field numbers: PredictionLog.predict_log; PredictLog.request; PredictRequest.model_spec and
# .inputs, a map; ModelSpec.signature_name.
_PREDICT_LOG, _REQUEST, _MODEL_SPEC, _INPUTS, _SIGNATURE_NAME = 6, 1, 1, 2, 3

# The first line of a model card. The user has written a file without this line.
_MARK = "<!-- Written by bert_tf; the next export to this folder replaces it. -->"

_LIMITS = """\
* A sequence has at most {max_seq_length} tokens. Longer texts are truncated or split into windows,
  depending on the task.
* The model answers every text, even one unlike its training data, and its probabilities are not
  calibrated.
* Pre-trained weights contain the stereotypes of their texts: compare errors between groups of
  people before use.
"""


def string_specs(*names):
    """Return the signature of string inputs (B,)."""
    return {name: tf.TensorSpec((None,), tf.string, name=name) for name in names}


def token_id_specs(*shape):
    """Return the signature of the encoder's inputs, int32 (B, S) or the given `shape`."""
    shape = shape or (None, None)
    return {name: tf.TensorSpec(shape, tf.int32, name=name) for name in INPUTS}


class Servable(NamedTuple):
    """A model with its signatures, ready to export.

    Attributes:
      task: name of the task in `model.json`.
      prepared: the `PreparedModel`.
      serve_text: function from the inputs in `text_signature`, a dict, to a dict of outputs. Only
        `export` can save it: otherwise, it tokenizes in Python.
      serve_ids: function from the inputs in `ids_signature`, a dict, to a dict of outputs.
      text_signature: dict of `tf.TensorSpec`, in the order of a line of text.
      ids_signature: dict of `tf.TensorSpec`.
      sample_text: function from a text of S - 2 tokens to a row of text inputs that fills a
        sequence of length S, for warm-up requests.
      example: row of inputs for the model card; None for `sample_text("He slept.")`.
      metadata: additional entries of `model.json`, such as the labels.
      has_variable_width: whether the width of the outputs depends on the batch.
      add_to_onnx: function from an `OnnxGraph` and its inputs, tensor names by the names of
        `ids_signature`, to a dict of outputs; None if the model cannot be exported to ONNX.
      has_windows: whether the answer to a text needs several sequences.
    """

    task: str
    prepared: PreparedModel
    serve_text: Callable
    serve_ids: Callable
    text_signature: dict = string_specs("text")
    ids_signature: dict = token_id_specs()
    sample_text: Callable = lambda text: {"text": text}
    example: dict | None = None
    metadata: dict | None = None
    has_variable_width: bool = False
    add_to_onnx: Callable | None = None
    has_windows: bool = False


def export(
    servable: Servable, export_dir: str, version: int | None = None, run_dir: str | None = None
) -> str:
    """Write a SavedModel or an ONNX model atomically.

    The vocabulary, the labels (one per line, in the order of their ids) and `model.json` are next
    to `model.onnx` or, for a SavedModel, in `assets.extra`, with warm-up requests for TF Serving.
    `export_dir` gets a model card (`README.md`) and, for SavedModels, unless it exists,
    `batching_parameters.txt`.

    Args:
      servable: a `Servable`.
      export_dir: folder for all versions of the model, as TF Serving expects it.
      version: version number; None for the next free one.
      run_dir: folder of the run that trained the model, for the card, or None.

    Returns:
      The new folder, EXPORT_DIR/VERSION.

    Raises:
      UserError: if that version exists, or another process is exporting to the same folder.
    """
    export_dir = check_path(export_dir, "export_dir")
    with processes.locked(export_dir, "export_dir", "exports") as is_locked:
        processes.remove_temporary_files(export_dir, is_locked)
        folder = os.path.join(export_dir, str(choose_version(export_dir, version)))
        record = read_run_json(run_dir) if run_dir else {}  # an error leaves no new version
        with cpu_graph.portable():
            metadata = _write(servable, folder)
        if servable.prepared.serving_config.format == "savedmodel":
            _write_batching_parameters(export_dir, servable.has_variable_width)
        _write_model_card(folder, servable, metadata, record)
    return folder


def choose_version(export_dir, version=None):
    """Return the number of a new version; raise UserError if the given `version` exists."""
    versions = [int(name) for name in list_versions(export_dir)]
    if version in versions:
        raise UserError(f"`version={version}`: {export_dir} already has this version")
    return max(versions, default=0) + 1 if version is None else version


def _sort_variables(archive):
    """Make an `ExportArchive` save its variables in order; TensorFlow collects them in a set."""
    track = archive._filter_and_track_resources

    def track_in_order():
        track()
        trackable = archive._tf_trackable
        # The id is "NAME_17" for the 17th object created.
        trackable._all_variables = sorted(
            trackable._all_variables, key=lambda x: int(x._unique_id.rpartition("_")[2])
        )

    archive._filter_and_track_resources = track_in_order


def _write(servable, folder):
    """Write the model; return the contents of its `model.json`."""
    prepared = servable.prepared
    tokenizer = prepared.tokenizer
    is_onnx = prepared.serving_config.format == "onnx"
    # Predictor packs the texts for an ONNX model.
    takes_text = not servable.has_windows if is_onnx else prepared.serving_config.inputs == "text"
    metadata = {
        "task": servable.task,
        "inputs": list(servable.text_signature) if takes_text else [],
        "max_seq_length": prepared.buckets.max_length,
        "sequence_buckets": prepared.buckets.lengths,
        "weights": prepared.serving_config.stored_type,
        "do_lower_case": tokenizer.settings["do_lower_case"],
        **extra_settings(tokenizer.settings),
        **(servable.metadata or {}),
    }
    with files.replacing(folder) as (temporary,):
        file = ONNX_FILE if is_onnx else "saved_model.pb"
        extra = os.path.join(temporary, FORMATS[file])
        if is_onnx:
            _write_onnx(servable, os.path.join(temporary, file))
        else:
            _write_saved_model(servable, temporary)
        files.write_text(os.path.join(extra, files.VOCABULARY), to_text(tokenizer.vocab))
        for name in ("labels", "numbers"):
            if lines := metadata.get(name):
                files.write_text(os.path.join(extra, f"{name}.txt"), "\n".join([*lines, ""]))
        json_files.write(os.path.join(extra, METADATA), metadata)
    # TensorFlow's own error message names only a missing operation.
    needs_import = takes_text and not is_onnx
    hint = "; programs that load it must `import tensorflow_text` first" if needs_import else ""
    inputs = ", ".join(servable.text_signature) if needs_import else "ids"
    labels = abbreviate([*map(str, metadata.get("labels", ()))], 9) or "none"
    values = (servable.task, inputs, metadata["max_seq_length"], labels, metadata["weights"], hint)
    console.info("exported %s: %s of %s, length %d, labels %s, weights %s%s", folder, *values)
    return metadata


def _write_onnx(servable, path):
    if servable.add_to_onnx is None:
        raise UserError(f"`format=onnx`: not supported for {servable.task} of long documents")
    try:
        from bert_tf.serving import onnx_graph
    except ImportError:
        raise UserError(
            "`format=onnx` requires onnx and onnxruntime: pip install '.[onnx]'"
        ) from None
    model = servable.prepared.model
    graph = onnx_graph.OnnxGraph(checkpoints.tensors(model), model.config)
    outputs = servable.add_to_onnx(graph, {name: name for name in servable.ids_signature})
    # (B, S), (B, C, S), or (B, F) for numeric features.
    inputs = {
        name: (spec.dtype.as_numpy_dtype, ["B", *"C"[: spec.shape.rank - 2], spec.shape[-1] or "S"])
        for name, spec in servable.ids_signature.items()
    }
    weights = servable.prepared.serving_config.stored_type
    onnx_graph.write(graph.model(inputs, outputs), path, weights)


def _write_saved_model(servable, folder):
    prepared = servable.prepared
    takes_text = prepared.serving_config.inputs == "text"
    archive = keras.export.ExportArchive()
    _sort_variables(archive)
    for trackable in (prepared.model, *([prepared.tokenizer] if takes_text else [])):
        # ExportArchive tracks the weights of Keras models itself; track() would save them twice.
        if not isinstance(trackable, keras.Layer):
            archive.track(trackable)
    endpoints = {"serving_default": (servable.serve_ids, servable.ids_signature)}
    if takes_text:
        endpoints["ids"] = endpoints["serving_default"]
        endpoints["serving_default"] = servable.serve_text, servable.text_signature
    for name, (serve, signature) in endpoints.items():
        archive.add_endpoint(name, _checking_rows(serve), input_signature=[signature])
    with console.at_level("ERROR", "tensorflow"):  # which would log the temporary folder
        archive.write_out(folder, verbose=False)
    if prepared.serving_config.warm_up:
        longest = prepared.buckets.max_length
        lengths = prepared.buckets.lengths or sorted({min(x, longest) for x in (16, 64, longest)})
        _write_warm_up_requests(folder, _warm_up_requests(servable, endpoints, lengths))


def _checking_rows(serve):
    """Wrap `serve` to reject different numbers of rows; TensorFlow would broadcast single rows."""

    def serve_equal(inputs):
        counts = tf.stack([tf.shape(x)[0] for x in inputs.values()])
        message = f"{', '.join(inputs)}: expected the same number of rows, found"
        tf.debugging.Assert(tf.reduce_all(counts == counts[0]), [message, counts], summarize=9)
        return serve(inputs)

    return serve_equal


def _write_batching_parameters(export_dir, has_variable_width):
    values: dict[str, int | str] = {"max_batch_size": _MAX_BATCH_SIZE}
    # TF Serving splits a request into batches, where max_batch_size is the limit of a request, and
    # concatenates their outputs, which must not differ in width.
    if not has_variable_width:
        values = {"max_batch_size": _MAX_REQUEST_SIZE, "enable_large_batch_splitting": "true"}
        values["max_execution_batch_size"] = _MAX_BATCH_SIZE
    values |= {"batch_timeout_micros": 2000, "max_enqueued_batches": 256, "num_batch_threads": 2}
    # Not set: allowed_batch_sizes, whose last value must be max_batch_size, and
    # pad_variable_length_inputs, which pads a mask with its first value, 1.
    text = "".join(f"{name} {{ value: {value} }}\n" for name, value in values.items())
    path = os.path.join(export_dir, "batching_parameters.txt")
    if not files.exists(path):
        files.write_text(path, text)
    elif files.read_text(path) != text:
        console.info("kept the existing %s, which differs from the default for this model", path)


def _warm_up_requests(servable, endpoints, lengths):
    """Yield (inputs, signature name) for a single row and a full batch of each length."""
    # The word must be a single token.
    vocab = servable.prepared.tokenizer.vocab
    word = next((x for x in vocab if x.isascii() and x.isalpha() and x.islower()), "a")
    for name, (_, signature) in endpoints.items():
        for length, size in itertools.product(lengths, (1, _MAX_BATCH_SIZE)):
            if signature is servable.text_signature:
                row = servable.sample_text(" ".join([word] * max(1, length - 2)))
                yield {key: [value] * size for key, value in row.items()}, name
            else:
                yield _sample_ids(signature, size, length), name


def _sample_ids(signature, size, length):
    """Return inputs for token ids: ones for the mask, zeros for all others."""
    inputs = {}
    for name, spec in signature.items():
        # (B, S), (B, C, S) for C = 2 endings, or (B, F) for numeric features.
        endings = [2] if spec.shape.rank == 3 else []
        fill = tf.ones if name == "input_mask" else tf.zeros
        inputs[name] = fill((size, *endings, spec.shape[-1] or length), spec.dtype)
    return inputs


def _write_warm_up_requests(folder, requests):
    """Write a TFRecord file of `PredictionLog` messages to a SavedModel's folder."""
    path = os.path.join(folder, WARM_UP_REQUESTS)
    files.make_folder(os.path.dirname(path))
    # Encoded by hand, because tensorflow-serving-api pins the version of TensorFlow.
    with tf.io.TFRecordWriter(path) as writer:
        for inputs, signature in requests:
            parts = [_field(_MODEL_SPEC, _field(_SIGNATURE_NAME, signature.encode()))]
            for key in sorted(inputs):
                tensor = tf.make_tensor_proto(inputs[key]).SerializeToString()
                # A map entry is a message with the fields 1 (key) and 2 (value).
                parts.append(_field(_INPUTS, _field(1, key.encode()) + _field(2, tensor)))
            writer.write(_field(_PREDICT_LOG, _field(_REQUEST, b"".join(parts))))


def _field(number, data):
    """Encode a Protocol Buffers field of type bytes."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def _write_model_card(folder, servable, metadata, record):
    """Write the card of a version, unless the user has written a file with this name.

    Args:
      folder: folder of the version.
      servable: the `Servable`.
      metadata: dict with the contents of `model.json`.
      record: the result of `read_run_json` for the run that trained the model.
    """
    export_dir, version = os.path.split(folder)
    path = os.path.join(export_dir, "README.md")
    if files.exists(path):
        with files.open_file(path, "rb") as reader:
            if reader.read(len(_MARK)) != _MARK.encode():
                console.info("kept %s, which bert_tf did not write", path)
                return
    weights = record.get("weights", {})
    data = ", ".join(map(os.path.basename, record.get("data", {})))
    name = os.path.basename(os.path.abspath(export_dir))
    inputs = metadata["inputs"] or servable.ids_signature
    tables = {
        f"# {name}": {
            "version": version,
            "task": metadata["task"],
            "labels": abbreviate([*map(str, metadata.get("labels", ()))], 50),
            "inputs": ", ".join(inputs),
            "numeric features": ", ".join(metadata.get("numbers", ())),
            "casing": "uncased" if metadata["do_lower_case"] else "cased",
            "weights": metadata["weights"],
            "exported with": f"TensorFlow {tf.__version__}, Keras {keras.__version__}",
        },
        "## Training": {
            "initial weights": "/".join((weights.get("path") or "").split("/")[-2:]),
            "revision": weights.get("revision"),
            "data": data or record.get("config", {}).get("tfds_name"),
            "versions": ", ".join(f"{x} {y}" for x, y in record.get("versions", {}).items()),
        },
        "## Evaluation": {
            f"{name} ({split})": f"{value:.4g}" if isinstance(value, float) else str(value)
            for split, values in record.get("metrics", {}).items()
            for name, value in values.items()
        },
    }
    sample = servable.example or servable.sample_text("He slept.")
    ids = ", ".join(f'"{x}": [[...]]' for x in inputs)
    body = json.dumps({"instances": [sample]}) if metadata["inputs"] else f'{{"inputs": {{{ids}}}}}'
    use = "Requests to TF Serving"
    command = f"curl -d '{body}' http://localhost:8501/v1/models/{name}:predict"
    if servable.prepared.serving_config.format == "onnx":
        use, command = "Answers", f"bert-tf predict --model={name}"
    parts = [
        _MARK,
        *(f"{title}\n\n{_table(rows)}\n" for title, rows in tables.items()),
        f"## {use}\n\n```sh\n{command}\n```\n",
        f"## Limits\n\n{_LIMITS.format(**metadata)}",
    ]
    files.write_text(path, "\n".join(parts))


def _table(rows):
    """Return a Markdown table of a dict's non-empty values."""
    texts = {key: " ".join(x.split()).replace("|", r"\|") for key, x in rows.items() if x}
    if not texts:
        return "Not recorded."
    return "\n".join(["| | |", "| --- | --- |", *(f"| {x} | {y} |" for x, y in texts.items())])
