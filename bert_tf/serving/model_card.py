"""The model card of an export: `README.md`, next to the versions of the model."""

import json
import os

import keras
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import abbreviate
from bert_tf.io import files, json_files

FILE = "README.md"
# The first line. A file without it is the user's.
_MARK = "<!-- Written by bert_tf; the next export to this folder replaces it. -->"
_RECORD = {"versions?": dict, "weights?": dict, "data?": dict, "config?": dict, "metrics?": dict}

_LIMITS = """\
* A sequence has at most {max_seq_length} tokens. Longer texts are truncated or split into windows,
  depending on the task.
* The model answers every text, even one unlike its training data, and its probabilities are not
  calibrated.
* Pre-trained weights contain the stereotypes of their texts: compare errors between groups of
  people before use.
"""


def read_record(run_dir):
    """Return the contents of run.json in the folder of a run, {} without one."""
    path = os.path.join(run_dir or "", "run.json")
    has_record = run_dir and files.system(path).exists(path)
    return json_files.read(path, _RECORD) if has_record else {}


def write(folder, metadata, inputs, sample, record):
    """Write the card of a version, unless the user has written a file with this name.

    Args:
      folder: folder of the version.
      metadata: dict with the contents of `model.json`.
      inputs: names of the inputs.
      sample: a row of text inputs; None for a model of ids.
      record: the result of `read_record` for the run that trained the model.
    """
    export_dir, version = os.path.split(folder)
    path = os.path.join(export_dir, FILE)
    if files.system(path).exists(path):
        with files.system(path).GFile(path, "rb") as reader:
            if reader.read(len(_MARK)) != _MARK.encode():
                console.info("kept %s, which bert_tf did not write", path)
                return
    weights = record.get("weights", {})
    data = ", ".join(map(os.path.basename, record.get("data", {})))
    name = os.path.basename(os.path.abspath(export_dir))
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
    ids = ", ".join(f'"{x}": [[...]]' for x in inputs)
    body = json.dumps({"instances": [sample]}) if sample else f'{{"inputs": {{{ids}}}}}'
    request = f"curl -d '{body}' http://localhost:8501/v1/models/{name}:predict"
    parts = [
        _MARK,
        *(f"{title}\n\n{_table(rows)}\n" for title, rows in tables.items()),
        f"## Requests to TF Serving\n\n```sh\n{request}\n```\n",
        f"## Limits\n\n{_LIMITS.format(**metadata)}",
    ]
    files.write_text(path, "\n".join(parts))


def _table(rows):
    """Return a Markdown table of a dict's non-empty values."""
    texts = {key: " ".join(x.split()).replace("|", r"\|") for key, x in rows.items() if x}
    if not texts:
        return "Not recorded."
    return "\n".join(["| | |", "| --- | --- |", *(f"| {x} | {y} |" for x, y in texts.items())])
