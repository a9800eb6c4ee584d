"""What is written beside a model: for TF Serving, for who asks it, and by two exports at a time."""

import json
import os
import pathlib

import numpy as np
import pytest
import scripts_alone
from absl import flags
from serving_batches import read_parameters
from serving_stand_in import StandIn, Version, signature
from test_serving import LENGTH, TASKS, made, vocab_file  # noqa: F401

import bert_tf
from bert_tf import files, serving
from bert_tf.serving import exporting


def lengths_of(servable, inputs):
    """The numbers of tokens, [CLS] and [SEP] among them, of the rows of a request of texts."""
    found = []
    for row in zip(*inputs.values(), strict=True):
        texts = [x for x in row if isinstance(x, str)]
        count = sum(len(servable.tokenizer.tokenize([text])[0]) for text in texts)
        found.append(count + (3 if servable.task == "answers" else 2))
    return found


@pytest.mark.parametrize("task", TASKS)
def test_warm_up_has_the_lengths_that_sequences_are_padded_to(task, vocab_file):  # noqa: F811
    servable = made(task, vocab_file, serving.Options(buckets=(5, 9)))
    endpoints = {"serving_default": (None, servable.text_signature),
                 "ids": (None, servable.ids_signature)}  # fmt: skip
    lengths = {"serving_default": [], "ids": []}
    for inputs, name in exporting._requests(servable, endpoints, (5, 9, LENGTH)):
        if name == "ids":
            lengths[name].append(inputs["input_ids"].shape[-1])
        else:
            (length,) = set(lengths_of(servable, inputs))
            lengths[name].append(length)
    assert lengths == {key: [5, 5, 9, 9, LENGTH, LENGTH] for key in lengths}


def entities_of(columns):
    """What a tagger gives that finds each word: as wide as the row that has the most."""
    rows = [text.decode().split() for text in columns["text"]]
    width = max(map(len, rows))
    words = [[*row, *[""] * (width - len(row))] for row in rows]
    shape, is_there = (len(rows), width), np.array(words) != ""
    return {
        "entity": np.array([[word.encode() for word in row] for row in words], object),
        "label": np.full(shape, b"X", object),
        "start": np.where(is_there, 0, -1),
        "end": np.where(is_there, 1, -1),
        "score": np.ones(shape, np.float32),
    }


def test_requests_of_outputs_as_wide_as_the_batch_are_not_split(tmp_path):
    """TF Serving joins the parts of a request as they are, whatever their widths."""
    exporting._write_batching(str(tmp_path), "tagging")
    types = {"entity": "DT_STRING", "label": "DT_STRING", "start": "DT_INT64", "end": "DT_INT64",
             "score": "DT_FLOAT"}  # fmt: skip
    names = {"serving_default": signature({"text": "DT_STRING"}, types)}
    parameters = read_parameters(tmp_path / "batching_parameters.txt")
    version = Version(names, {"serving_default": entities_of}, parameters)
    rows = [{"text": " ".join("abcdefghij"[: 1 + i % 10])} for i in range(40)]
    stand_in = StandIn({1: version}, "m")
    try:
        found = serving.Client(stand_in.rest, "m", batch_size=32, retries=0)(rows)
        with pytest.raises(
            bert_tf.UserError, match="40 is larger than maximum input batch size 32"
        ):
            serving.Client(stand_in.rest, "m", batch_size=40, retries=0)(rows)
    finally:
        stand_in.stop()
    entities = [[entity["entity"] for entity in row["entities"]] for row in found]
    assert entities == [row["text"].split() for row in rows]


def test_model_json_says_what_the_model_is(vocab_file, tmp_path, caplog):  # noqa: F811
    """By the options that it was made with; one of ids alone says how to tokenize."""
    options = serving.Options("ids", (), "int8", warm_up=False)
    folder = serving.export(made("tagging", vocab_file, options), str(tmp_path))
    about = json.loads(pathlib.Path(folder, "assets.extra", "model.json").read_text())
    assert about == {"task": "tagging", "inputs": [], "max_seq_length": LENGTH,
                     "sequence_buckets": [], "weights": "int8", "do_lower_case": True,
                     "labels": ["O", "B-X", "I-X"]}  # fmt: skip
    # Parameters that are there already stay, and a line says so.
    before = (tmp_path / "batching_parameters.txt").read_text()
    with caplog.at_level("INFO", "bert_tf"):
        folder = serving.export(made("vectors", vocab_file, options), str(tmp_path))
    assert "batching_parameters.txt is left as it is" in caplog.text
    assert (tmp_path / "batching_parameters.txt").read_text() == before
    assert os.path.basename(folder) == "2"


def test_exports_beside_each_other_and_after_one_that_was_killed(vocab_file, tmp_path):  # noqa: F811
    servable = made("vectors", vocab_file, serving.Options("ids", warm_up=False))
    (tmp_path / "4.tmp-12345" / "variables").mkdir(parents=True)
    (tmp_path / "batching_parameters.txt.tmp-12345").write_text("")
    with files.locked(str(tmp_path), "export_dir", "exports"), pytest.raises(
        bert_tf.UserError, match=r"--export_dir: another process \(PID \d+\) exports in"
    ):  # fmt: skip
        serving.export(servable, str(tmp_path))
    serving.export(servable, str(tmp_path))
    assert {x.name for x in tmp_path.iterdir()} == {"1", "batching_parameters.txt", ".lock"}


def test_tags_of_others(root, monkeypatch):
    """Of a Hugging Face tagger; BILOU's tags would make wrong spans."""
    monkeypatch.syspath_prepend(str(root))
    with scripts_alone.imported("export_model") as run:
        import export_model

        for tags, scheme in [
            (("O", "B-PER", "I-PER"), "iob2"),
            (("I-PER", "O"), "iob2"),
            (("O", "B-PER", "I-PER", "E-PER", "S-PER"), "iob2"),
            (("ES-MX", "EN-GB"), "none"),
            (("NOUN", "VERB"), "none"),
        ]:
            assert export_model.scheme_of(tags) == scheme, tags
        with pytest.raises(bert_tf.UserError, match=r"BILOU's .*U-PER.* with E for L and S for U"):
            export_model.scheme_of(("O", "B-PER", "I-PER", "L-PER", "U-PER"))
        with pytest.raises(flags.IllegalFlagValueError, match="max_seq_length"):
            run("export_model", "--task=encoder", "--export_dir=x", "--max_seq_length=0")
