"""create_pretraining_data.py: output, resuming after a kill, and errors."""

import json
import re

import pytest

from bert_tf.errors import UserError
from tests.data.pretraining_helpers import TOKENS, interrupt, make_shards, shard_contents

FLAGS = ["--max_seq_length=32", "--max_predictions_per_seq=5", "--dupe_factor=2",
         "--input_file=a.txt,b.txt", "--vocab_file=vocab.txt"]  # fmt: skip
SHARDS = ["--num_shards=3", "--output_file=made/x"]

pytestmark = pytest.mark.usefixtures("text_folder")


@pytest.fixture
def create(run_script):
    """A function that runs the script with `FLAGS` and more flags and returns its log."""
    return lambda *flags: run_script("create_pretraining_data", *FLAGS, *flags)


def test_vocabulary_and_casing_of_a_model(run_script, create, text_folder):
    assert "has capital letters" in create("--output_file=cased", "--do_lower_case=false")
    model = text_folder / "model"
    model.mkdir()
    (text_folder / "vocab.txt").rename(model / "vocab.txt")
    (model / "bert_config.json").write_text(json.dumps({"vocab_size": len(TOKENS)}))
    (model / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    log = run_script(
        "create_pretraining_data", *FLAGS[:-1], "--model=model", "--output_file=of_model"
    )
    assert "vocab_file (vocab.txt), do_lower_case=False" in log
    assert (text_folder / "cased").read_bytes() == (text_folder / "of_model").read_bytes()


@pytest.mark.parametrize(
    ("name", "num_shards"),
    [("x-00001-of-00003", 1), ("sizes.json", 0), ("x.json", 0), ("00002.json", 2)],
)
def test_an_interrupted_run_resumes_with_the_same_result(create, text_folder, name, num_shards):
    """The run is interrupted before the named file is renamed into place."""
    interrupt(name)
    before = shard_contents()
    assert len(before) == num_shards
    log = create(*SHARDS, "--num_processes=2")
    for number in range(3):
        assert (f"made/x-{number:05d}-of-00003 exists" in log) == (f"{number:05d}" in before)
    assert ("reusing the tokens in made/x.work" in log) == bool(before)
    counts = make_shards("again/x").create()
    assert shard_contents("again/x") == shard_contents()
    assert re.search(rf"instances +{counts.instances:,}\n", log)
    left = {path.name for path in (text_folder / "made").iterdir()}
    assert not [name for name in left if "tmp" in name or name.endswith(".work")]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--input_file=empty.txt"], r"^empty\.txt: no text"),
        (["--input_file=short.txt", "--objective=sop"], r"^short\.txt: no instance"),
        (["--vocab_file=unmasked.txt"], r"^--vocab_file: .*\[MASK\] among its 4 pieces"),
        (["--output_file=made/x,made/y"], r"^--output_file: .*--num_shards"),
        (["--vocab_file="], "^--vocab_file or --model"),
        (["--output_file=vocab.txt/x"], r"^--output_file: vocab\.txt/x\.json"),
        (["--output_file=a.txt"], r"^--output_file: a\.txt"),
        (["--num_shards=0", "--output_file=y,y"], "^--output_file: y"),
        (["--output_file=empty"], "^--output_file: empty"),
        (["--tfds_name=glue"], "--input_file and --tfds_name"),
        (["--tfds_name=glue", "--input_file=", "--split_sentences"],
         "^--split_sentences requires --input_file"),
        (["--text_field=body"], "^--text_field: .*--input_format=jsonl"),
        (["--dynamic_masking", "--masked_lm_prob=0.2"], "^--masked_lm_prob .*--dynamic_masking"),
        (["--word_boundaries=spaces"], "^--word_boundaries requires --do_whole_word_mask"),
        (["--runner=DirectRunner", "--num_processes=2"], "^--num_processes .*--runner"),
    ],
)  # fmt: skip
def test_errors_leave_no_files(create, text_folder, flags, message):
    (text_folder / "empty.txt").write_text("\n\n")
    (text_folder / "short.txt").write_text("a\n\nthe\n")
    (text_folder / "empty").mkdir()
    (text_folder / "unmasked.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    before = {path for path in text_folder.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=message):
        create(*SHARDS, *flags)
    assert {path for path in text_folder.rglob("*") if path.is_file()} == before


def test_beam_creates_the_same_shards(create, text_folder):
    pytest.importorskip("apache_beam")
    make_shards("local/x").create()
    beam = ["--output_file=beam/x", "--runner=DirectRunner"]
    create(*SHARDS, *beam)
    assert shard_contents("beam/x") == shard_contents("local/x")
    local, remote = ((text_folder / f"{name}/x.json").read_text() for name in ("local", "beam"))
    assert local == remote
    # Only missing shards are created.
    (text_folder / "beam/x-00001-of-00003").unlink()
    log = create(*SHARDS, *beam)
    assert re.findall(r"beam/x-(\d+)-of-00003 exists", log) == ["00000", "00002"]
    assert shard_contents("beam/x") == shard_contents("local/x")
    # A shard without documents is an empty file.
    create(*SHARDS, *beam, "--output_file=many/x", "--num_shards=40")
    make_shards("many_local/x", 40).create()
    assert shard_contents("many/x") == shard_contents("many_local/x")
    assert b"" in shard_contents("many/x").values()
