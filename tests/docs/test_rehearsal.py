"""The shell blocks of README.md and docs/ run in bash on small models and data."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import bert_tf
from examples import toy_corpus
from tests import fork_server
from tests.common import TINY, write_release
from tests.docs import pages
from tests.squad_helpers import dataset, question

# Blocks that are not run: a substring of each, and the reason.
NOT_RUN = {
    "-m venv": "installs packages from a network",
    "pip install": "the same",
    "tflite_convert": "test_other_runtimes.py converts models, where the converters are installed",
    "python benchmarks/": "measures for minutes; test_pages.py checks the flags",
    "examples.ner_features": "trains six models; test_feature_extraction.py runs it once",
    "--use_tpu": "needs a TPU",
    "TF_CONFIG=": "needs two machines; train_alone.py is run in two processes by test_strategy.py",
    "docker run": "needs the container of TF Serving",
    "localhost:8501": "needs a server; test_requests.py uses a stand-in",
}

# Flags that make a page's commands quick.
_FINE_TUNING = ["--max_seq_length=16", "--num_train_epochs=1", "--train_batch_size=8",
                "--eval_batch_size=8"]  # fmt: skip
QUICK = {
    "bert-tf vocab learn": ["--vocab_size=200", "--num_unused=2", "--min_count=1"],
    "create_pretraining_data.py": ["--max_seq_length=32", "--max_predictions_per_seq=5",
                                   "--dupe_factor=1"],
    "run_pretraining.py": ["--max_seq_length=32", "--max_predictions_per_seq=5",
                           "--train_batch_size=8", "--gradient_accumulation_steps=1",
                           "--num_train_steps=2", "--num_warmup_steps=1", "--eval_steps=2",
                           "--eval_batch_size=8", "--max_eval_steps=1"],
    "run_classifier.py": _FINE_TUNING,
    "run_ner.py": _FINE_TUNING,
    "run_multiple_choice.py": _FINE_TUNING,
    "run_sentence_encoder.py": _FINE_TUNING,
    "run_squad.py": ["--max_seq_length=48", "--doc_stride=16", "--max_query_length=16",
                     "--num_train_epochs=1", "--train_batch_size=8"],
    "export_model.py": ["--nowarm_up"],
    "extract_features.py": ["--max_seq_length=16", "--layers=-1,-2"],
    "bert-tf fill-mask": ["--max_seq_length=32"],
}  # fmt: skip
SMALL = {**TINY.to_dict(), "max_position_embeddings": 128}
PRESETS = ("uncased_L-4_H-256_A-4", "uncased_L-12_H-768_A-12", "cased_L-12_H-768_A-12")

# Folders in the pages, moved into the test's folder.
MOVED = {"/tmp/": "tmp/", "/models/": "models/", "/path/to/": "path/to/"}

# Inputs of blocks that earlier blocks of the page do not make.
_MRPC = "python run_classifier.py --task_name=MRPC --data_dir=glue/MRPC --do_train --model=MODEL"
_TABLE = "python run_classifier.py --train_file=reviews.csv --do_train --model=MODEL"
PREPARED = {
    "docs/fill_mask.md": "mkdir quickstart_output; cp -r MODEL quickstart_output/pretrained; "
    "cp vocab.txt quickstart_output",
    "docs/pretraining.md": "mkdir text; gzip -c corpus.txt > text/wiki.txt.gz",
    "docs/results.md": "rm vocab.txt",
    "docs/serving.md": f"{_MRPC} --output_dir=tmp/mrpc_output; {_TABLE} --output_dir=tmp/reviews; "
    "bert-tf convert --input=tmp/mrpc_output --output_dir=tmp/hugging_face_folder "
    "--format=hugging_face; python export_model.py --model_dir=tmp/reviews "
    "--export_dir=models/reviews",
    "docs/tokenizer.md": "rm vocab.txt words.txt",
}


def shell_blocks(root):
    """Return a dict from each page to its blocks of shell commands."""
    found = {}
    for block in pages.blocks(root):
        if block.page.startswith(("README", "docs/")) and block.language in ("bash", "sh"):
            found.setdefault(block.page, []).append(block)
    return found


def reason(block):
    """Return why a block is not run, or None."""
    return next((why for part, why in NOT_RUN.items() if part in block.text), None)


def write_presets(cache, monkeypatch=None):
    """Write small models under the names of the published models in the pages."""
    if monkeypatch:
        monkeypatch.setenv("BERT_TF_CACHE", str(cache))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "fine", "inn"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    words += ["city", "river"]
    model = bert_tf.BertPretrainer(bert_tf.BertConfig(**SMALL))
    for name in PRESETS:
        (cache / name).mkdir(parents=True)
        write_release(cache / name, model, words)


def write_glue(folder):
    """Write 24 rows of each split of MRPC, CoLA and MNLI."""
    heads = {
        "MRPC": ("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String", "{label}\t1\t2\ta {i}\tb {i}"),
        "CoLA": ("", "x\t{label}\t\ta cab {i}"),
        "MNLI": ("\t".join(["index", *"xxxxxxx", "sentence1", "sentence2", "label1", "gold_label"]),
                 "{i}" + "\tx" * 7 + "\ta {i}\tb\tneutral\t{nli}"),
    }  # fmt: skip
    names = {"MNLI": ("train", "dev_matched", "dev_mismatched")}
    for task, (head, row) in heads.items():
        (folder / task).mkdir(parents=True)
        rows = [
            row.format(i=i, label=i % 2, nli=("neutral", "entailment", "contradiction")[i % 3])
            for i in range(24)
        ]
        for split in names.get(task, ("train", "dev", "test")):
            lines = [head, *rows] if head else rows
            if task == "CoLA" and split == "test":
                lines = ["index\tsentence", *(f"{i}\ta cab" for i in range(24))]
            (folder / task / f"{split}.tsv").write_text("\n".join(lines) + "\n")


def write_squad(path, count):
    """Write questions about one paragraph."""
    answers = [question(str(i), "a cab", "a fine inn", "fine") for i in range(count)]
    dataset(path, [("a fine inn", answers)])


def write_data(folder):
    """Write the input files of the pages' commands."""
    write_glue(folder / "glue")
    documents, swag = toy_corpus.make(corpus=30, heldout=8), ("train.csv", "val.csv", "test.csv")
    texts = {
        ("corpus.txt", "train.txt", "mine.txt"): documents["corpus"],
        ("heldout.txt", "held_out.txt"): documents["heldout"],
        ("input.txt", "sentences.txt", "lines.txt"): "a fine inn\na cab\n",
        ("pairs.txt",): "a fine inn\ta cab\nb\tc\n",
        ("words.txt",): "lynx\n",
        ("reviews.csv", "held_out.csv", "new.csv", "sales.csv"):
            "id,text,review,label,again,age,price\n"
            + "".join(f"{i},a fine inn,a cab {i},{i % 2},{i % 2},{i},2.5\n" for i in range(24)),
        ("conll/train.txt", "conll/dev.txt", "conll/test.txt"):
            "".join(f"a{i} NN O\nfine NN B-PER\ninn NN I-PER\n\n" for i in range(16)),
        tuple(f"{place}/{name}" for place in ("swag", "sentences") for name in swag):
            ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,"
            "ending0,ending1,ending2,ending3,label\n"
            + "".join(f"{i},v,{i},a fine inn,a fine,inn,gold,a,b,c,d,{i % 4}\n" for i in range(16)),
        ("bert_config.json", "4x256.json"): json.dumps({**SMALL, "vocab_size": 200}),
    }  # fmt: skip
    for place in ("conll", "squad", "swag", "sentences"):
        (folder / place).mkdir()
    for names, text in texts.items():
        for name in names:
            (folder / name).write_text(text)
    for name in ("train-v1.1.json", "dev-v1.1.json"):
        write_squad(folder / "squad" / name, 16)


# `python` and `bert-tf` in the shell. Scripts of this repository run in forks of the server.
_PROGRAM = """\
#!{python} -SE
import os, sys
words = {words} + sys.argv[1:]
is_ours = words[0] == "-m" and words[1].startswith(("bert_tf", "examples"))
if not (words[0].endswith(".py") or is_ours):
    os.execv({python!r}, [{python!r}, *words])
command = " ".join(["bert-tf", *words[2:], ""] if words[0] == "-m" else [words[0], ""])
words += next((x for script, x in {quick}.items() if command.startswith(script + " ")), [])
sys.path.insert(0, {folder!r})
import fork_server
_, connection = fork_server.start({address!r}, words, os.getcwd(), dict(os.environ), [0, 1, 2])
sys.exit(fork_server.wait(connection)[0])
"""


@contextlib.contextmanager
def bash(folder, environment):
    """Yield a function that runs the text of a block in a folder and returns its output.

    It raises AssertionError with the output if the exit status of a command is not 0.
    `folder.parent` is used too.
    """
    programs, address = folder.parent / "programs", str(folder.parent / "server")
    programs.mkdir()
    values = {"python": sys.executable, "address": address, "quick": QUICK,
              "folder": os.path.dirname(fork_server.__file__)}  # fmt: skip
    for name, words in {"python": [], "bert-tf": ["-m", "bert_tf"]}.items():
        (programs / name).write_text(_PROGRAM.format(words=words, **values))
        (programs / name).chmod(0o755)
    environment = {**os.environ, **environment, "TF_CPP_MIN_LOG_LEVEL": "2"}
    environment["PATH"] = f"{programs}{os.pathsep}{os.environ['PATH']}"

    def run(text):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text], cwd=folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=900,
        )  # fmt: skip
        assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-3000:]}"
        return done.stdout

    with fork_server.serving(address, environment):
        yield run


@pytest.fixture
def rehearse(root, tmp_path):
    """A function that runs the blocks of a page; it returns their outputs."""

    def run_page(page):
        folder = tmp_path / "folder"
        for name in ("tmp", "models", "path/to/bert"):
            (folder / name).mkdir(parents=True)
        for path in [*root.glob("*.py"), root / "sample_text.txt", root / "tools"]:
            (folder / path.name).symlink_to(path)
        write_data(folder)
        cache = tmp_path / "cache"
        write_presets(cache)
        preset = cache / "uncased_L-12_H-768_A-12"
        for name in (f"path/to/{preset.name}", f"path/to/bert/{preset.name}"):
            (folder / name).symlink_to(preset)
        for name in ("glue", "squad", "conll", "swag"):
            (folder / "path/to" / name).symlink_to(folder / name)
        shutil.copy(preset / "vocab.txt", folder)
        environment = {
            "BERT_TF_CACHE": str(cache),
            "BERT_TF_MODELS_URL": "http://127.0.0.1:9",
            "PYTHONPATH": str(root),
        }
        outputs, exports = {}, ""
        with bash(folder, environment) as run:
            run(
                f"bert-tf convert --input={preset} --output_dir=MODEL --format=hugging_face\n"
                "cp -r MODEL all-MiniLM-L6-v2; cp -r MODEL path/to/bert-base-uncased"
            )
            run(PREPARED.get(page, ""))
            for block in shell_blocks(root)[page]:
                if reason(block):
                    continue
                text = block.text
                for old, new in MOVED.items():
                    text = text.replace(old, new)
                try:
                    outputs[block] = run(exports + text)
                except AssertionError as error:
                    raise AssertionError(f"{block.place}: {error}") from None
                # As in a reader's shell, variables stay set for later blocks.
                exports += "".join(re.findall(r"(?m)^export .*\n", text))
        return outputs

    return run_page


def pages_with_shell():
    root = pages.pathlib.Path(__file__).resolve().parents[2]
    return [page for page, blocks in shell_blocks(root).items() if not all(map(reason, blocks))]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages_with_shell())
def test_blocks_run(rehearse, page):
    """The blocks of a page run as pasted, in order, in an empty folder."""
    assert rehearse(page)


def test_blocks_that_are_not_run(root):
    """Every skipped block exists, most blocks are run, and every block has a language."""
    for block in pages.blocks(root):
        if block.page.startswith("docs/") and not block.language:
            assert not block.text.startswith(("python ", "python3 ", "bert-tf ")), block.place
    blocks = [block for blocks in shell_blocks(root).values() for block in blocks]
    unused = [part for part in NOT_RUN if not any(part in block.text for block in blocks)]
    assert not unused
    assert len([block for block in blocks if not reason(block)]) > 30
    assert set(PREPARED) <= set(shell_blocks(root))
