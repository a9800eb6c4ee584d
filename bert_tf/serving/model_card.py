"""The model card of an export: `README.md`, next to the versions of the model."""

import json
import os

import keras
import tensorflow as tf

from bert_tf import console
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files, json_files

FILE = "README.md"
# The rows of a model trained in Python, in its preset.
_ROWS_FILE = "model_card.json"
# The first line. A file without it is the user's.
_MARK = "<!-- Written by bert_tf; the next export to this folder replaces it. -->"
_WEIGHTS = {"path?": str | None, "revision?": str | None}
_RECORD = {"versions?": dict, "weights?": _WEIGHTS, "data?": dict, "config?": dict}

_LIMITS = """\
* A sequence has at most {max_seq_length} tokens. Longer texts are truncated or split into windows,
  depending on the task.
* The model answers every text, even one unlike its training data, and its probabilities are not
  calibrated.
* Pre-trained weights contain the stereotypes of their texts: compare errors between groups of
  people before use.
"""


def make_card(folder, metadata, inputs, sample, run_dir=None, others=None):
    """Return the text of the card of a version; `run_dir` is the run that trained the model.

    `others` is a dict with more rows of the sections "training" and "evaluation", or None.
    """
    export_dir, version = os.path.split(folder)
    name = os.path.basename(os.path.abspath(export_dir))
    record, results = _read_run(run_dir) if run_dir else ({}, {})
    weights, config = record.get("weights", {}), record.get("config", {})
    data = ", ".join(map(os.path.basename, record.get("data", {})))
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
            "data": data or config.get("tfds_name"),
            "versions": ", ".join(f"{x} {y}" for x, y in record.get("versions", {}).items()),
        },
        "## Evaluation": results,
    }
    others = others or (read_rows(run_dir) if run_dir else {})
    for section, values in others.items():
        tables[f"## {section.capitalize()}"] |= values
    parts = [f"{title}\n\n{_table(rows)}\n" for title, rows in tables.items()]
    ids = ", ".join(f'"{x}": [[...]]' for x in inputs)
    body = json.dumps({"instances": [sample]}) if sample else f'{{"inputs": {{{ids}}}}}'
    request = f"curl -d '{body}' http://localhost:8501/v1/models/{name}:predict"
    parts.append(f"## Requests to TF Serving\n\n```sh\n{request}\n```\n")
    parts.append(f"## Limits\n\n{_LIMITS.format(**metadata)}")
    return "\n".join([_MARK, *parts])


def write_rows(folder, rows):
    """Write rows of the sections "training" and "evaluation", for `read_rows`."""
    files.write_text(os.path.join(folder, _ROWS_FILE), json.dumps(rows, indent=2) + "\n")


def read_rows(folder):
    """Return what `write_rows` wrote to a folder, {} if it did not."""
    path = os.path.join(folder, _ROWS_FILE)
    if not files.system(path).exists(path):
        return {}
    return json_files.read(path, {"training?": dict, "evaluation?": dict})


def write_card(export_dir, text):
    """Write the card, unless the user has written a file with this name."""
    path = os.path.join(export_dir, FILE)
    if files.system(path).exists(path):
        with files.system(path).GFile(path, "rb") as reader:
            if reader.read(len(_MARK)) != _MARK.encode():
                console.info("kept %s, which bert_tf did not write", path)
                return
    files.write_text(path, text)


def _read_run(folder):
    """Return two dicts: the `run.json` of a run, and its evaluation results."""
    record, results, system = {}, {}, files.system(folder)
    record_file = os.path.join(folder, "run.json")
    try:
        if system.exists(record_file):
            record = json_files.read(record_file, _RECORD)
        for path in sorted(system.glob(os.path.join(folder, "eval_results*.txt"))):
            split = os.path.basename(path).removeprefix("eval_results").removesuffix(".txt")
            pairs = (line.strip().partition(" = ") for line in files.read_lines(path))
            results |= {f"{key}{split}": value for key, _, value in pairs}
    except UserError as error:
        console.warning("the model card is incomplete: %s", error)
    return record, results


def _table(rows):
    """Return a Markdown table of a dict's non-empty values."""
    rows = {key: f"{x:.4g}" if isinstance(x, float) else str(x or "") for key, x in rows.items()}
    texts = {key: " ".join(x.split()).replace("|", r"\|") for key, x in rows.items() if x}
    if not texts:
        return "Not recorded."
    return "\n".join(["| | |", "| --- | --- |", *(f"| {x} | {y} |" for x, y in texts.items())])
