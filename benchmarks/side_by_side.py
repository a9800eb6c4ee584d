#!/usr/bin/env python3
r"""Run the comparisons with other libraries one after the other and write one report.

    python benchmarks/side_by_side.py --output_file=report.md --vocab_file=vocab.txt \
      --text=corpus.txt --model_dir=MODEL --mrpc_dir=MRPC --cola_dir=CoLA --conll_dir=conll2003 \
      --squad_dir=squad --work_dir=/tmp/side_by_side

MODEL is a Hugging Face folder with weights; `squad` has train.json and dev.json. A benchmark
without input is skipped and listed in the report; `--only` selects benchmarks. Each benchmark
reports which other libraries are missing. A full run takes hours, since both sides fine-tune; an
interrupted run resumes from --work_dir.
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
    "text": "Plain text, one sentence per line.",
    "vocab_file": "Uncased vocabulary.",
    "model_dir": "Hugging Face folder of a pre-trained model with that vocabulary.",
    "mrpc_dir": "MRPC folder of GLUE.",
    "cola_dir": "CoLA folder of GLUE.",
    "conll_dir": "CoNLL-2003 folder.",
    "squad_dir": "Folder with train.json and dev.json of SQuAD 1.1.",
    "release_dir": "Folder with the release's create_pretraining_data.py.",
    "lines": "Text file to classify, one text per line.",
    "cases": "JSON lines with texts and the release's tokens.",
    "official_python": "Python interpreter with tf-models-official.",
}
_FINE_TUNING = "--data_dir={%s} --model_dir={model_dir} --output_dir={work_dir}/%s"
_PRETRAINING_DATA = "pretraining_data.py --input_file={text} --vocab_file={vocab_file} --turns=3"
BENCHMARKS = {
    "tokenization": "tokenization.py --input_file={text} --vocab_file={vocab_file}",
    "tokens": "tokens_of_others.py --cases_file={cases} --vocab_file={vocab_file}",
    "step": "step_time.py --turns=11",
    "step, tf-models-official": "step_time.py --turns=11 --library=bert_tf "
    "--library=tf-models-official --official_python={official_python}",
    "pretraining data": _PRETRAINING_DATA,
    "pretraining data, the release": f"{_PRETRAINING_DATA} --release_dir={{release_dir}}",
    "squad features": "squad_features.py --input_file={squad_dir}/train.json "
    "--vocab_file={vocab_file}",
    "prediction": "predicting.py --model={model_dir} --input_file={lines}",
    "mrpc": f"fine_tuning.py --task_name=mrpc {_FINE_TUNING % ('mrpc_dir', 'mrpc')}",
    "cola": f"fine_tuning.py --task_name=cola {_FINE_TUNING % ('cola_dir', 'cola')}",
    "conll": f"ner_fine_tuning.py {_FINE_TUNING % ('conll_dir', 'conll')}",
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
flags.DEFINE_string("work_dir", None, "Folder for the outputs of fine-tuning.")
flags.DEFINE_string("output_file", None, "The report to write.", required=True)
flags.DEFINE_multi_enum(
    "only", list(BENCHMARKS), list(BENCHMARKS), "Benchmark to run; may be repeated."
)


def main():
    report = ["# Side by side", "", machine()]
    failed = []
    for name in FLAGS.only:
        lines, status = section(name)
        report += ["", f"## {name.capitalize()}", "", *lines]
        if status:
            failed.append(name)
        # Written after each benchmark, so that a later failure loses nothing.
        bert_tf.io.files.write_text(FLAGS.output_file, "\n".join(report) + "\n")
    if failed:
        raise bert_tf.UserError(
            f"failed: {', '.join(failed)}; the other results are in {FLAGS.output_file}"
        )


def section(name):
    """Run a benchmark and return (lines of the report, exit status)."""
    try:
        command = BENCHMARKS[name].format_map(QuotedFlags())
    except KeyError as error:
        _logger.warning("%s: left out, --%s is not given", name, error.args[0])
        return [f"Not run: --{error.args[0]} is not given."], 0
    _logger.info("%s: %s", name, command)
    script, *arguments = shlex.split(command)
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), script)
    run = subprocess.run([sys.executable, path, *arguments], stdout=subprocess.PIPE, text=True)
    lines = ["```", f"python benchmarks/{command}", "```", "", run.stdout.strip()]
    if run.returncode:
        lines.append(f"It failed with exit status {run.returncode}.")
    return lines, run.returncode


class QuotedFlags(dict):
    """Flag values quoted for a shell; looking up a flag without a value raises KeyError."""

    def __missing__(self, name):
        value = FLAGS[name].value
        if not value:
            raise KeyError(name)
        return shlex.quote(value)


def machine():
    """Return a sentence about the machine and the installed packages."""
    packages = []
    for package in PACKAGES:
        try:
            packages.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            packages.append(f"no {package}")
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Python {platform.python_version()}, "
        f"{', '.join(packages)}."
    )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
