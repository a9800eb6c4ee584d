#!/usr/bin/env python3
r"""Makes the figures beside other libraries anew, one benchmark after the other, as one report.

    python benchmarks/side_by_side.py --output_file=report.md --vocab_file=vocab.txt \
      --text=corpus.txt --model_dir=MODEL --mrpc_dir=MRPC --cola_dir=CoLA --conll_dir=conll2003 \
      --squad_dir=squad --work_dir=/tmp/side_by_side

MODEL is a Hugging Face folder of weights, `squad` has train.json and dev.json. A benchmark whose
input is not given is left out, which the report says; `--only` names those to run. What a peer
lacks here each benchmark says itself. It takes hours: fine-tuning is done by both sides, and goes
on where it was cut off (--work_dir).
"""

import logging
import os
import platform
import shlex
import subprocess
import sys
from importlib import metadata

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

INPUTS = {
    "text": "Plain text, one sentence a line.",
    "vocab_file": "An uncased vocabulary.",
    "model_dir": "Hugging Face folder of a pre-trained model with that vocabulary.",
    "mrpc_dir": "GLUE's folder MRPC.",
    "cola_dir": "GLUE's folder CoLA.",
    "conll_dir": "Folder of CoNLL-2003.",
    "squad_dir": "Folder with train.json and dev.json of SQuAD 1.1.",
    "release_dir": "Folder with the release's create_pretraining_data.py.",
    "served": "Classifier of single texts made by export_model.py, to predict with.",
    "served_peer": "Hugging Face folder with the same weights.",
    "lines": "Lines of text to predict.",
    "cases": "JSON lines of texts and the release's tokens of them.",
    "official_python": "Python that has tf-models-official.",
}
_TUNING = "--data_dir={%s} --model_dir={model_dir} --output_dir={work_dir}/%s"
_MAKING = "pretraining_data.py --input_file={text} --vocab_file={vocab_file} --turns=3"
BENCHMARKS = {
    "tokenization": "tokenization.py --input_file={text} --vocab_file={vocab_file}",
    "tokens": "tokens_of_others.py --cases_file={cases} --vocab_file={vocab_file}",
    "step": "step_time.py --turns=11",
    "step, tf-models-official": "step_time.py --turns=11 --contestant=bert_tf "
    "--contestant=tf-models-official --official_python={official_python}",
    "pretraining data": _MAKING,
    "pretraining data, the release": f"{_MAKING} --release_dir={{release_dir}}",
    "squad features": "squad_features.py --input_file={squad_dir}/train.json "
    "--vocab_file={vocab_file}",
    "prediction": "predicting.py --model={served} --peer={served_peer} --input_file={lines}",
    "mrpc": f"fine_tuning.py --task_name=mrpc {_TUNING % ('mrpc_dir', 'mrpc')}",
    "cola": f"fine_tuning.py --task_name=cola {_TUNING % ('cola_dir', 'cola')}",
    "conll": f"ner_fine_tuning.py {_TUNING % ('conll_dir', 'conll')}",
    "squad": "squad_finetuning.py --model={model_dir} --train_file={squad_dir}/train.json "
    "--predict_file={squad_dir}/dev.json --output_dir={work_dir}/squad",
}
PACKAGES = (
    "tensorflow",
    "keras",
    "tensorflow-text",
    "keras-hub",
    "transformers",
    "tokenizers",
    "torch",
)

_logger = logging.getLogger("bert_tf")

for name, text in INPUTS.items():
    flags.DEFINE_string(name, None, text)
flags.DEFINE_string("work_dir", None, "Folder for what fine-tuning makes.")
flags.DEFINE_string("output_file", None, "Where the report goes.", required=True)
flags.DEFINE_multi_enum("only", list(BENCHMARKS), list(BENCHMARKS), "What to run, repeated.")


def main():
    report = ["# Side by side", "", machine()]
    failed = []
    for name in FLAGS.only:
        lines, status = section(name)
        report += ["", f"## {name.capitalize()}", "", *lines]
        if status:
            failed.append(name)
        # After each: what was measured is not lost with what comes after it.
        bert_tf.files.write_text(FLAGS.output_file, "\n".join(report) + "\n")
    if failed:
        raise bert_tf.UserError(f"failed: {', '.join(failed)}; the rest is in {FLAGS.output_file}")


def section(name):
    """Runs a benchmark: (lines of the report, exit status)."""
    try:
        command = BENCHMARKS[name].format_map(Given())
    except KeyError as error:
        _logger.warning("%s: left out, --%s is not given", name, error.args[0])
        return [f"Not run: --{error.args[0]} is not given."], 0
    _logger.info("%s: %s", name, command)
    script, *given = shlex.split(command)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
    run = subprocess.run([sys.executable, path, *given], stdout=subprocess.PIPE, text=True)
    lines = ["```", f"python benchmarks/{command}", "```", "", run.stdout.strip()]
    if run.returncode:
        lines.append(f"It failed with exit status {run.returncode}.")
    return lines, run.returncode


class Given(dict):
    """The flags that were given, as a shell would want them; a KeyError names one that was not."""

    def __missing__(self, name):
        value = FLAGS[name].value
        if not value:
            raise KeyError(name)
        return shlex.quote(value)


def machine():
    """A sentence about the machine and the packages that are here."""
    found = []
    for package in PACKAGES:
        try:
            found.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            found.append(f"no {package}")
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"{', '.join(found)}."
    )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
