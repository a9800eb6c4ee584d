"""run_multiple_choice.py by its flags: files, model beside `transformers`, SavedModel."""

import csv
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import scripts_alone
from test_hugging_face import config, load_with_transformers
from test_modeling import TINY
from test_run_classifier import SMALL, model, table
from test_scripts import WORDS, results

import bert_tf
from bert_tf import checkpoints
from bert_tf.tasks import choice, choice_files

HEADER = [
    "", "video-id", "fold-ind", "startphrase", "sent1", "sent2", "gold-source",
    "ending0", "ending1", "ending2", "ending3", "label",
]  # fmt: skip


def swag(path, count, seed, with_label=True):
    """A file in SWAG's form; the right ending is the one with an "e" in it."""
    rng = random.Random(seed)
    with open(path, "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.writer(file)
        writer.writerow(HEADER if with_label else HEADER[:-1])
        labels = []
        for i in range(count):
            endings = [" ".join(rng.choices("abcd", k=rng.randint(1, 3))) for _ in range(4)]
            labels.append(rng.randrange(4))
            endings[labels[-1]] += " e"
            row = [i, f"v{i}", i, "f, g", "f", "g", "gold", *endings]
            writer.writerow([*row, labels[-1]] if with_label else row)
    return labels


@pytest.fixture
def run(heard, tmp_path):
    """Runs a script with these flags in this process; returns what it said."""
    changed = {"initializer_range": 0.2, "max_position_embeddings": 16}
    scripts_alone.write_model(tmp_path, TINY, WORDS, **changed)
    return heard("run_multiple_choice", "export_model")


def test_from_files_to_strings(run, tmp_path):
    """It trains on SWAG's form, evaluates, predicts from its folder alone, and is exported."""
    swag(tmp_path / "train.csv", 64, 0)
    swag(tmp_path / "val.csv", 21, 1)
    labels = swag(tmp_path / "test.csv", 6, 2, with_label=False)
    out = tmp_path / "out"
    said = run(
        "run_multiple_choice", f"--data_dir={tmp_path}", f"--output_dir={out}", "--do_train",
        "--do_eval", "--num_train_epochs=12", "--learning_rate=5e-3", *model(tmp_path), *SMALL,
        "--train_batch_size=16", "--max_seq_length=14",
    )  # fmt: skip
    assert "startphrase, and the 4 choices ending0, ending1, ending2, ending3" in said
    found = results(out / "eval_results.txt")
    assert set(found) == {"eval_accuracy", "eval_loss", "global_step", "loss"}
    assert float(found["eval_accuracy"]) > 0.9
    assert int(found["global_step"]) == 48

    # The model is known by its folder: no vocabulary, no config, no length.
    said = run(
        "run_multiple_choice", f"--data_dir={tmp_path}", f"--output_dir={out}", "--do_predict"
    )
    assert "bert_config_file, vocab_file, do_lower_case, max_seq_length" in said
    header, *rows = table(out / "test_predictions.tsv")
    assert header == ["id", "prediction", "ending0", "ending1", "ending2", "ending3"]
    assert [row[0] for row in rows] == [str(i) for i in range(6)]
    assert sum(row[1] == str(label) for row, label in zip(rows, labels, strict=True)) >= 5
    assert [row[2:] for row in rows] == table(out / "test_results.tsv")
    probabilities = np.float32(table(out / "test_results.tsv"))
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)

    run("export_model", f"--model_dir={out}", f"--export_dir={tmp_path}/export")
    examples, _ = choice_files.read_choices(str(tmp_path / "test.csv"), with_label=False)
    program = """
import json, sys
import tensorflow as tf
import tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
context, endings = map(tf.constant, json.loads(sys.argv[2]))
some = serve(context=context[:1], endings=endings[:1, :2])["probabilities"]
assert some.shape == (1, 2)
assert serve(context=context[:0], endings=endings[:0])["probabilities"].shape == (0, 4)
assert not [name for name in sys.modules if name.startswith("bert_tf")]
print(json.dumps(serve(context=context, endings=endings)["probabilities"].numpy().tolist()))
"""
    texts = [[example.context for example in examples], [example.endings for example in examples]]
    done = subprocess.run(
        [sys.executable, "-c", program, f"{tmp_path}/export/1", json.dumps(texts)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), probabilities, atol=1e-5)

    with pytest.raises(bert_tf.UserError, match="holds a run of run_multiple_choice"):
        bert_tf.tasks.check_kind(str(out), bert_tf.files.CLASSIFIER)


@pytest.mark.slow  # the loop is the same for every task
def test_mirrored_devices_make_the_same_steps(tmp_path):
    """On two devices as on one, with gradient accumulation and short batches."""
    import tensorflow as tf

    from bert_tf import optimization, training
    from bert_tf.data import input_pipeline, records

    swag(tmp_path / "train.csv", 16, 0)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    tokenizer = bert_tf.FullTokenizer(str(tmp_path / "vocab.txt"))
    examples, _ = choice_files.read_choices(str(tmp_path / "train.csv"))
    path = str(tmp_path / "train.tf_record")
    choice.ChoiceFeatures(path, examples, tokenizer, 12).write()
    small = config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    lengths = {"S": 12, "C": 4}
    found = []
    for name, strategy in (
        ("one", tf.distribute.OneDeviceStrategy("CPU:0")),
        ("two", tf.distribute.MirroredStrategy(
            ["CPU:0", "CPU:1"], cross_device_ops=tf.distribute.ReductionToOneDevice()
        )),
    ):  # fmt: skip
        training.set_seed(3)

        def make():
            task = choice.ChoiceTask(small)
            for layer in task.model.layers:
                if isinstance(layer, bert_tf.modeling.Dropout):
                    layer.rate = 0.0
            return task

        trainer = training.Trainer(make, strategy, str(tmp_path / name))
        data = input_pipeline.TrainingInput([path], records.CHOICE, lengths, 8, 0, None, 8)
        optimizer = optimization.AdamWeightDecay(lambda step: 1e-3)
        options = training.TrainConfig(gradient_accumulation_steps=2)
        trainer.fit(data, optimizer, 3, options)
        evaluation = input_pipeline.EvaluationInput(
            [path], records.CHOICE, lengths, 6, length_multiple=8
        )
        found.append(trainer.predict_all(evaluation, "predicting")["probabilities"])
    assert found[0].shape == (16, 4)
    np.testing.assert_allclose(found[0], found[1], atol=1e-5)


@pytest.mark.parametrize("bias", [0.0, 3.0])
def test_equals_transformers(transformers, tmp_path, bias):
    """Their head has a bias, which adds the same to all choices of an example."""
    import torch

    ours = bert_tf.BertMultipleChoice(config(initializer_range=0.5))
    tensors = {name: v.numpy() for name, v in checkpoints.weights(ours).items()}
    assert "output_weights" in tensors
    assert "output_bias" not in tensors
    folder = str(tmp_path / "ours")
    written = checkpoints.write_hugging_face(folder, tensors, ours.config)
    assert written == "BertForMultipleChoice"
    other = load_with_transformers(transformers, folder, written)
    rng = np.random.default_rng(0)
    batch = {
        "input_ids": rng.integers(1, 50, (2, 3, 8)).astype("int32"),
        "input_mask": (np.arange(8) < rng.integers(3, 9, (2, 3, 1))).astype("int32"),
        "segment_ids": rng.integers(0, 2, (2, 3, 8)).astype("int32"),
    }
    with torch.no_grad():
        other.classifier.bias.fill_(bias)
        names = ("input_ids", "attention_mask", "token_type_ids")
        expected = other(
            **{n: torch.tensor(x).long() for n, x in zip(names, batch.values(), strict=True)}
        ).logits.numpy()
    np.testing.assert_allclose(ours(batch)["logits"] + bias, expected, atol=1e-4, rtol=0)
    other.save_pretrained(tmp_path / "theirs")
    again = bert_tf.BertMultipleChoice.from_preset(str(tmp_path / "theirs"))
    np.testing.assert_allclose(again(batch)["logits"] + bias, expected, atol=1e-4, rtol=0)
    path = str(tmp_path / "chooser.keras")
    again.save(path)
    loaded = bert_tf.modeling.models.keras.saving.load_model(path)
    np.testing.assert_allclose(loaded(batch)["logits"], again(batch)["logits"], atol=1e-6)


def test_a_run_converts_to_hugging_face(run, tmp_path):
    pytest.importorskip("safetensors")
    swag(tmp_path / "train.csv", 8, 0)
    run(
        "run_multiple_choice", f"--train_file={tmp_path}/train.csv", f"--output_dir={tmp_path}/out",
        "--do_train", "--num_train_epochs=1", *model(tmp_path), *SMALL, "--do_lower_case=false",
    )  # fmt: skip
    checkpoints.convert(str(tmp_path / "out"), str(tmp_path / "hf"), "hugging_face")
    values = json.loads((tmp_path / "hf" / "config.json").read_text())
    assert values["architectures"] == ["BertForMultipleChoice"]
    settings = json.loads((tmp_path / "hf" / "tokenizer_config.json").read_text())
    assert settings["do_lower_case"] is False


def test_own_columns_of_any_number(tmp_path):
    path = tmp_path / "own.tsv"
    path.write_bytes('q\tp\tyes\tno\tkey\tname\r\n"a\tb\tc\td\t1\tx\r\n\r\n'.encode("utf-8-sig"))
    columns = choice_files.ChoiceColumns(("q", "p"), ("yes", "no"), "key", "name")
    (example,), endings = choice_files.read_choices(str(path), columns)
    assert endings == ("yes", "no")
    assert (example.context, example.endings) == ('"a b', ("c", "d"))
    assert (example.label, example.id, example.where) == (1, "x", f"{path}, line 2")


ROWS = "context,ending1,ending0,ending10,label\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (ROWS + "a,b,c,d,3\n", r"bad.csv, line 2: the label '3' is not one of 0, 1, 2 \(--skip"),
        (ROWS + "a,b,c,d,0\na,b,,d,0\n", "line 3: ending0 is empty"),
        (ROWS + " ,b,c,d,0\n", "line 2: context is empty"),
        (ROWS + "a,b,c,d\n", "line 2: 4 columns, but the first line has 5"),
        (ROWS + 'a,"b,c,d,0\n', "line 2: not comma-separated text"),
        (ROWS, "bad.csv: there is not a single example"),
        ("", "line 1: the file is empty"),
        ("context,ending0,label\n", "line 1: two or more columns of endings were expected"),
        ("text,ending0,ending1,label\n", "line 1: there is no column startphrase or context, only"),
        ("context,ending0,ending1\n", "line 1: there is no column label, .*; --label_column names"),
        ("context,ending0,ending1,label,label\n", "line 1: the column label is there twice"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, message):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(bert_tf.UserError, match=message):
        choice_files.read_choices(str(tmp_path / "bad.csv"))


def test_bad_rows_are_left_out_and_counted(tmp_path, caplog):
    (tmp_path / "some.csv").write_text(ROWS + "a,b,c,d,9\na,b,c,d,2\na,b,,d,0\n")
    (example,), endings = choice_files.read_choices(str(tmp_path / "some.csv"), skip_bad_rows=True)
    assert endings == ("ending0", "ending1", "ending10")
    assert (example.endings, example.label, example.id) == (("c", "b", "d"), 2, "1")
    assert "bad rows left out: 2, the first: " in caplog.text


def test_files_that_are_missing_are_named(tmp_path):
    find = choice_files.find_choice_file
    with pytest.raises(bert_tf.UserError, match=r"there is no dev.csv or val.csv in"):
        find("dev", str(tmp_path))
    with pytest.raises(bert_tf.UserError, match="--data_dir or --test_file must be given"):
        find("test")
    with pytest.raises(bert_tf.UserError, match="--train_file: there is no file"):
        find("train", path=os.path.join(tmp_path, "no.csv"))


def test_the_last_length_is_kept(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n")
    settings = choice.ChoiceSettings(8, True, TINY, str(tmp_path / "vocab.txt"))
    folder = str(tmp_path / "run")
    choice.settle_choice(folder, settings, write=True)
    choice.settle_choice(folder, settings._replace(max_seq_length=16), write=True)
    assert choice.load_choice(folder).max_seq_length == 16
