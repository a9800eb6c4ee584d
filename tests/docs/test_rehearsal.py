"""docs/own_corpus.md and docs/quick_start.md as they stand, with small models and few steps."""

import json
import re
import subprocess
import sys

import pages
import pytest
import scripts_alone
from test_modeling import TINY
from test_pages import module_of

import bert_tf
from bert_tf import checkpoints
from bert_tf.toy_corpus import write

# What is taken instead of a page's own value, to be quick.
QUICK = {
    "-m bert_tf vocab learn": ["--vocab_size=200", "--num_unused=0"],
    "create_pretraining_data.py": ["--max_seq_length=32", "--max_predictions_per_seq=5",
                                   "--dupe_factor=1"],
    "run_pretraining.py": ["--max_seq_length=32", "--max_predictions_per_seq=5",
                           "--train_batch_size=8", "--gradient_accumulation_steps=1",
                           "--num_train_steps=2", "--num_warmup_steps=1", "--eval_steps=2",
                           "--max_eval_steps=1"],
    "run_classifier.py": ["--max_seq_length=16", "--num_train_epochs=1", "--train_batch_size=16"],
    "export_model.py": ["--nowarm_up"],
    "-m bert_tf fill-mask": ["--max_seq_length=32"],
}  # fmt: skip
SMALL = {**TINY.to_dict(), "max_position_embeddings": 128}


@pytest.fixture
def rehearse(root, monkeypatch, tmp_path, capsys):
    """A function that runs the bash blocks of a page in an empty folder; returns their output.

    Scripts are run in this process, other commands by bash; then `changed` is called. Blocks with
    a word of `skip` are left out.
    """
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(root))

    def start(name, changed, skip):
        blocks = [
            block
            for block in pages.blocks(root)
            if block.page == f"docs/{name}" and block.language == "bash"
            if not any(word in block.text for word in skip)
        ]
        scripts = {block: scripts_of(block) for block in blocks}
        names = {module_of(c.words[0]) for found in scripts.values() for c in found}
        with scripts_alone.imported(*sorted(names)) as run:
            for block in blocks:
                if not scripts[block]:
                    text = block.text.replace("python ", f"{sys.executable} ")
                    subprocess.run(["bash", "-euc", text], check=True)
                    changed()
                for command in scripts[block]:
                    script, *flags = command.words
                    flags = [flag.replace("$GLUE_DIR", "glue") for flag in flags]
                    (tmp_path / "typed").write_text(typed_in(block))
                    with open(tmp_path / "typed") as stdin, monkeypatch.context() as here:
                        here.setattr(sys, "stdin", stdin)
                        run(module_of(script), *flags, *QUICK.get(script, ()))
        return capsys.readouterr().out

    return start


def scripts_of(block):
    """The commands of a block that are scripts, and no modules."""
    return [c for c in pages.commands(block) if c.is_script and not c.words[0].startswith("-m")]


def typed_in(block):
    """What a block pipes into its script by printf."""
    found = re.search(r"(?m)^printf '(.*)'", block.text)
    return found[1].replace("\\n", "\n") if found else ""


def test_own_corpus(rehearse, tmp_path):
    (tmp_path / "glue/CoLA").mkdir(parents=True)
    for part in ("train", "dev"):
        rows = "".join(f"x\t{i % 2}\t\t{'ab'[i % 2]} cabin\n" for i in range(20))
        (tmp_path / f"glue/CoLA/{part}.tsv").write_text(rows)
    rows = "".join(f"{i}\ta cabin\n" for i in range(9))
    (tmp_path / "glue/CoLA/test.tsv").write_text("index\tsentence\n" + rows)

    sentences = [f"our {x} was {y}." for x in ("cabin", "soup", "book") for y in "abcdefgh"]
    for name in ("corpus.txt", "heldout.txt"):
        (tmp_path / name).write_text("\n\n".join(" ".join(sentences[i:]) for i in range(20)))

    def make_small():
        """A model of the page's sizes, made small."""
        config = tmp_path / "bert_config.json"
        as_written = bert_tf.BertConfig.from_json_file(str(config))
        pieces = (tmp_path / "vocab.txt").read_text().splitlines()
        assert as_written.vocab_size == len(pieces)
        small = {**SMALL, "vocab_size": len(pieces), "num_hidden_layers": 1}
        config.write_text(json.dumps(small))

    said = rehearse("own_corpus.md", make_small, skip=("bert_tf.toy_corpus",))
    assert "token" in said and '"probabilities"' in said
    assert "masked_lm_accuracy" in (tmp_path / "pretrained/eval_results.txt").read_text()
    assert "eval_matthews" in (tmp_path / "cola/eval_results.txt").read_text()
    assert len((tmp_path / "submission/CoLA.tsv").read_text().splitlines()) == 10
    assert (tmp_path / "mine/model.safetensors").exists()
    assert (tmp_path / "mine_release/bert_model.ckpt.index").exists()


@pytest.mark.slow  # its commands are those of the other page
def test_quick_start(rehearse, tmp_path, monkeypatch):
    write(str(tmp_path / "quickstart_output/text"), 0)
    lay_models(tmp_path / "cache", monkeypatch)
    said = rehearse("quick_start.md", None, skip=("quickstart.py",))
    assert said.count('"label"') == 2
    assert "eval_accuracy" in (tmp_path / "moods/eval_results.txt").read_text()


def lay_models(cache, monkeypatch):
    """Small models under the published names that the pages fetch."""
    monkeypatch.setenv("BERT_TF_CACHE", str(cache))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "fine", "inn"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    model = bert_tf.BertPretrainer(bert_tf.BertConfig(**SMALL))
    values = {name: v.numpy() for name, v in checkpoints.weights(model).items()}
    for name in ("uncased_L-4_H-256_A-4", "uncased_L-12_H-768_A-12"):
        checkpoints.write(str(cache / name / "bert_model.ckpt"), values)
        (cache / name / "bert_config.json").write_text(json.dumps(SMALL))
        (cache / name / "vocab.txt").write_text("\n".join(words) + "\n")
