"""Errors that do not depend on the data are reported before anything is written."""

import json
import pathlib
import shutil

import numpy as np
import pytest
from absl import flags

from bert_tf import checkpoints
from bert_tf.errors import UserError
from tests.cli import good_inputs

# For each script: flags to add to its first command line in `good_inputs`, and the error.
REFUSALS = {
    "run_classifier": [
        ("--init_checkpoint=model/none", "model/none"),
        ("--init_checkpoint=other/model.ckpt", "word_embeddings"),
        ("--init_checkpoint=no/bert_model.ckpt", "there is no checkpoint no/bert_model.ckpt"),
        ("--train_batch_size=1000", "less than one batch"),
        ("--gradient_accumulation_steps=3", "train_batch_size=4"),
        ("--max_seq_length=600", "max_position_embeddings"),
        ("--num_frozen_layers=5", "num_frozen_layers=5"),
        ("--best_metric=f9 --eval_steps=1", "best_metric=f9"),
        ("--best_metric=eval_loss", "eval_steps"),
        ("--early_stopping_patience=2", "best_metric"),
        ("--nodo_train --do_eval --init_checkpoint=", "no checkpoint"),
        ("--nodo_train --nodo_eval --do_predict", "test_file"),
        ("--train_file=out", "out"),
        ("--train_file= --dev_file=", "data_dir"),
        ("--train_file= --dev_file= --data_dir=none", "data_dir=none: there is no such folder"),
        ("--task_name=nli", "CoLA, SST-2"),
        ("--task_name=cola --text_columns=a", "text_columns"),
        ("--task_name=ax", "do_train"),
        ("--task_name=mrpc --tfds_name=glue/mrpc", "tfds_name"),
        ("--use_tpu --tpu_name=x --dtype=float16", "dtype=float16"),
    ],
    "run_ner": [
        ("--tag_column=0 --word_column=1 --output_scheme=iobes", "output_scheme=iobes"),
        ("--tag_column=ner", "tag_column=ner"),
        ("--tag_column=7", "train.txt, line"),
        ("--train_file=none.txt", "none.txt"),
    ],
    "run_squad": [
        ("--max_query_length=5", "--max_seq_length=8: expected more than --max_query_length=5"),
        ("--do_eval --find_null_score_diff_threshold", "version_2_with_negative"),
        ("--tfds_name=squad", "tfds_name"),
        ("--distribution_strategy=mirrored --train_batch_size=6", "train_batch_size=6"),
    ],
    "run_sentence_encoder": [
        ("--gradient_accumulation_steps=2", "mini_batch_size"),
        ("--loss=cosent", "requires"),
        ("--loss=triplet", "loss=triplet"),
        ("--matryoshka_dims=9999", "9999"),
        ("--layer=3", "layer=3"),
        ("--text_columns=anchor", "text_columns"),
    ],
    "run_pretraining": [
        ("--max_seq_length=9", "expected 9"),
        ("--max_seq_length=600", "max_seq_length=600"),
        ("--vocab_file=none.txt", "none.txt"),
        ("--num_input_streams=3", "num_input_streams=3"),
        ("--nodo_train", "do_eval"),
    ],
    "export_model": [
        ("--task=fill_mask --max_seq_length=600", "max_position_embeddings"),
        ("--task=fill_mask --inputs=text --sequence_buckets=9", "found 9"),
        ("--weights=float32 --dtype=bfloat16", "--weights=float32 cannot be combined with --dtype"),
        ("--model=other", "other"),
        ("--model= --init_checkpoint=", "model_dir"),
        ("--task=classification --labels=x,y", "lacks"),
        ("--sequence_buckets=8", "sequence_buckets"),
    ],
    "extract_features": [
        ("--layers=", "layers="),
        ("--layer_weights=", "layer_weights"),
        ("--layer_combination=last", "--layers"),
    ],
    "bert-tf embed": [
        ("--version=0", "--version requires --export_dir"),
        ("--num_nearest=5", "--num_nearest requires --query"),
    ],
}  # fmt: skip

# The index of a command line that needs no earlier run, where that is not the first one.
_NUMBERS = {"export_model": -1}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    return good_inputs.Inputs(tmp_path_factory.mktemp("inputs"), run=None)


@pytest.mark.parametrize("script", REFUSALS)
def test_refusals_leave_no_files(script, inputs, run_script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command_line = good_inputs.COMMANDS[script][_NUMBERS.get(script, 0)]
    inputs.copy(command_line, tmp_path)
    tensors = {"bert/embeddings/word_embeddings": np.zeros((9, 9))}
    checkpoints.write("other/model.ckpt", tensors)
    problems = []
    for added, message in REFUSALS[script]:
        try:
            run_script(script, *command_line.split(), *added.split())
        except (UserError, flags.Error) as raised:
            error = str(raised)
        else:
            error = "no error"
        if message not in error:
            problems.append(f"{added}: {error}")
        left = [str(x) for x in pathlib.Path("out").rglob("*") if x.is_file() and x.name != ".lock"]
        if left:
            problems.append(f"{added}: left {', '.join(left)}")
        shutil.rmtree("out", ignore_errors=True)
    assert not problems, "\n".join(problems)


def test_only_features_stay_if_they_have_to_be_counted(inputs, run_script, tmp_path, monkeypatch):
    """The number of steps depends on the number of windows; the next run reuses the file."""
    monkeypatch.chdir(tmp_path)
    command_line = good_inputs.COMMANDS["run_ner"][0]
    inputs.copy(command_line, tmp_path)
    with pytest.raises(UserError, match="less than one batch"):
        run_script("run_ner", *command_line.split(), "--train_batch_size=1000")
    left = {path.name for path in pathlib.Path("out").iterdir()}
    assert left == {".lock", "train.tf_record", "train.tf_record.json"}


def test_a_command_of_one_process_waits_for_no_worker(inputs, run_script, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command_line = good_inputs.COMMANDS["bert-tf embed"][0]
    inputs.copy(command_line, tmp_path)
    cluster = {"worker": ["localhost:1", "localhost:2"]}
    task = {"type": "worker", "index": 1}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
    with pytest.raises(UserError, match="TF_CONFIG"):
        run_script("bert-tf embed", *command_line.split())
    assert not list(pathlib.Path("out").glob("*"))
