"""The commands of docs/own_corpus.md and docs/quick_start.md, run on small models in few steps."""

import json
import re
import subprocess
import sys

import pages
import pytest
import scripts_alone
from common import TINY

import bert_tf
from bert_tf import checkpoints, toy_corpus

# Flags that replace a page's own values, to be quick.
QUICK = {
    "bert-tf vocab learn": ["--vocab_size=200", "--num_unused=0"],
    "create_pretraining_data.py": ["--max_seq_length=32", "--max_predictions_per_seq=5",
                                   "--dupe_factor=1"],
    "run_pretraining.py": ["--max_seq_length=32", "--max_predictions_per_seq=5",
                           "--train_batch_size=8", "--gradient_accumulation_steps=1",
                           "--num_train_steps=2", "--num_warmup_steps=1", "--eval_steps=2",
                           "--max_eval_steps=1"],
    "run_classifier.py": ["--max_seq_length=16", "--num_train_epochs=1", "--train_batch_size=16"],
    "export_model.py": ["--nowarm_up"],
    "bert-tf fill-mask": ["--max_seq_length=32"],
}  # fmt: skip
SMALL = {**TINY.to_dict(), "max_position_embeddings": 128}


@pytest.fixture
def rehearse(root, monkeypatch, tmp_path, capsys):
    """A function that runs the bash blocks of a page in an empty folder and returns their output.

    Scripts run in this process, blocks without a script in bash. The page is one of docs/; blocks
    that contain `skip` are left out, and it stops before a block that contains `until`;
    `after_bash` is called after each block that bash ran.
    """
    monkeypatch.syspath_prepend(str(root))
    monkeypatch.chdir(tmp_path)

    def run_page(page, skip, until=None, after_bash=None):
        blocks = []
        for block in pages.blocks(root):
            if block.page == f"docs/{page}" and block.language == "bash":
                if until and until in block.text:
                    break
                if skip not in block.text:
                    blocks.append(block)
        scripts = {block: [c for c in pages.commands(block) if c.is_script] for block in blocks}
        names = {command.words[0] for commands in scripts.values() for command in commands}
        with scripts_alone.imported(*sorted(names)) as run:
            for block, commands in scripts.items():
                if not commands:
                    subprocess.run(["bash", "-euc", block.text], check=True)
                    after_bash()
                for command in commands:
                    script, *flags = command.words
                    flags = [flag.replace("$GLUE_DIR", "glue") for flag in flags]
                    (tmp_path / "stdin").write_text(printf_text(block))
                    with open(tmp_path / "stdin") as stdin, monkeypatch.context() as patch:
                        patch.setattr(sys, "stdin", stdin)
                        run(script, *flags, *QUICK.get(script, ()))
        return capsys.readouterr().out

    return run_page


def printf_text(block):
    """Return what a block pipes into its script by printf."""
    match = re.search(r"(?m)^printf '(.*)'", block.text)
    return match[1].replace("\\n", "\n") if match else ""


@pytest.fixture
def own_corpus(rehearse, tmp_path):
    """A function that runs docs/own_corpus.md on a small text, up to a block, and its output."""
    sentences = [f"our {x} was {y}." for x in ("cabin", "soup", "book") for y in "abcdefgh"]
    for name in ("corpus.txt", "heldout.txt"):
        (tmp_path / name).write_text("\n\n".join(" ".join(sentences[i:]) for i in range(20)))

    def shrink_config():
        """Check the config that the page's command wrote, and make the model small."""
        path = tmp_path / "bert_config.json"
        config = bert_tf.BertConfig.from_json_file(str(path))
        num_words = len((tmp_path / "vocab.txt").read_text().splitlines())
        assert config.vocab_size == num_words
        path.write_text(json.dumps({**SMALL, "vocab_size": num_words, "num_hidden_layers": 1}))

    def run(until=None):
        return rehearse("own_corpus.md", "bert_tf.toy_corpus", until, shrink_config)

    return run


def test_own_corpus_until_pretraining(own_corpus, tmp_path):
    own_corpus(until="run_pretraining.py")
    assert len(list((tmp_path / "records").glob("corpus-*-of-00004"))) == 4
    assert (tmp_path / "records/heldout.tfrecord").stat().st_size > 0


@pytest.mark.slow  # the test above runs the first steps, other tests each of the scripts
def test_own_corpus(own_corpus, tmp_path):
    (tmp_path / "glue/CoLA").mkdir(parents=True)
    for split in ("train", "dev"):
        rows = "".join(f"x\t{i % 2}\t\t{'ab'[i % 2]} cabin\n" for i in range(20))
        (tmp_path / f"glue/CoLA/{split}.tsv").write_text(rows)
    rows = "".join(f"{i}\ta cabin\n" for i in range(9))
    (tmp_path / "glue/CoLA/test.tsv").write_text("index\tsentence\n" + rows)
    output = own_corpus()
    assert "token" in output and '"probabilities"' in output
    assert "masked_lm_accuracy" in (tmp_path / "pretrained/eval_results.txt").read_text()
    assert "eval_matthews" in (tmp_path / "cola/eval_results.txt").read_text()
    assert len((tmp_path / "submission/CoLA.tsv").read_text().splitlines()) == 10
    assert (tmp_path / "mine/model.safetensors").exists()
    assert (tmp_path / "mine_release/bert_model.ckpt.index").exists()


@pytest.mark.slow  # its commands are those of the other page
def test_quick_start(rehearse, tmp_path, monkeypatch):
    toy_corpus.write(str(tmp_path / "quickstart_output/text"), 0)
    write_presets(tmp_path / "cache", monkeypatch)
    output = rehearse("quick_start.md", "quickstart.py")
    assert output.count('"label"') == 2
    assert "eval_accuracy" in (tmp_path / "moods/eval_results.txt").read_text()


def write_presets(cache, monkeypatch):
    """Write small models under the names of the published ones that the pages use."""
    monkeypatch.setenv("BERT_TF_CACHE", str(cache))
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", "fine", "inn"]
    words += [f"##{letter}" for letter in "abcdefghijklmnopqrstuvwxyz"]
    model = bert_tf.BertPretrainer(bert_tf.BertConfig(**SMALL))
    values = {name: v.numpy() for name, v in checkpoints.weights(model).items()}
    for name in ("uncased_L-4_H-256_A-4", "uncased_L-12_H-768_A-12"):
        checkpoints.write(str(cache / name / "bert_model.ckpt"), values)
        (cache / name / "bert_config.json").write_text(json.dumps(SMALL))
        (cache / name / "vocab.txt").write_text("\n".join(words) + "\n")
