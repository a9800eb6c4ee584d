"""Classification: files and labels, numbers, columns of GLUE and XNLI, features, losses."""

import dataclasses
import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.data.columns import Layout
from bert_tf.tasks.classification.examples import Example, make_features, measure_numbers, normalize
from bert_tf.tasks.classification.glue import DATASETS, custom_dataset, find_dataset
from bert_tf.tasks.classification.options import (
    ClassificationConfig,
    ClassificationData,
    NumericFeature,
    TrainedOn,
)
from bert_tf.tasks.classification.source import (
    FileSource,
    columns_to_save,
    make_source,
    with_restored_columns,
)
from tests import golden_inputs
from tests.common import TINY, features, read_data, read_examples, write_files, write_mnli
from tests.tasks.conftest import make_run
from tests.tasks.task_helpers import SMALL, classification_task, first_batch, small_config


def test_unknown_labels(tmp_path):
    folder = write_files(
        tmp_path, train__tsv="text\tlabel\na\tx\nb\ty", dev__tsv="text\tlabel\na\tx\nb\tz\nc\tz"
    )
    source = FileSource(custom_dataset(), folder)
    with pytest.raises(bert_tf.UserError, match=r"dev\.tsv, line 3: .*'z', expected one of x, y"):
        read_data(source, ["train", "dev"])
    data = read_data(source, ["dev"], skip_bad_rows=True)  # as in train.tsv
    assert [x.text_a for x in data.examples["dev"]] == ["a"]
    source = FileSource(custom_dataset(labels=("z", "y", "x")), folder)
    assert read_data(source, ["train", "dev"]).labels == ("z", "y", "x")
    source = FileSource(custom_dataset(labels=("w",)), folder)
    with pytest.raises(bert_tf.UserError, match=r"train\.tsv, line 2: .*'x'"):
        read_data(source, ["train"], skip_bad_rows=True)


def test_the_labels_of_a_trained_model_take_precedence(tmp_path):
    folder = write_files(tmp_path, dev__tsv="text\tlabel\na\tx\n")
    stored = ClassificationConfig(TINY, "", labels=("w", "x"))
    options = ClassificationData(data_dir=folder, task_name="tsv")
    source = make_source(options, stored, stored)
    assert read_data(source, ["dev"], stored).labels == ("w", "x")
    write_files(tmp_path, train__tsv="text\tlabel\na\ty\n")
    with pytest.raises(bert_tf.UserError, match=r"train\.tsv, line 2: .*'y', expected one of w, x"):
        read_data(make_source(options, stored, stored), ["train"], stored)
    write_files(tmp_path, test__csv="text,p,q\na,0.75,0.25\n")
    columns = {"label_column": ("p", "q"), "dev_file": f"{folder}/test.csv"}
    (example,) = make_source(dataclasses.replace(options, **columns), stored, stored).read("dev")
    assert example.label == (0.75, 0.25)
    source = FileSource(custom_dataset("regression"), folder)
    with pytest.raises(bert_tf.UserError, match=r"`output_dir`.* classification.* regression"):
        read_data(source, ["dev"], stored)


def test_files_outside_data_dir_and_csv_by_default(tmp_path):
    folder = write_files(tmp_path, train__csv="a,x\nb,y\n", other__tsv="b\ty\n")
    dataset = custom_dataset(layout=Layout(header="no"))
    source = FileSource(dataset, folder, {"dev": str(tmp_path / "other.tsv")})
    assert read_data(source, ["train"]).examples["train"][0].text_a == "a"
    assert source.read("dev")[0].text_a == "b"
    with pytest.raises(bert_tf.UserError, match=r"`data_dir=.*dev\.tsv or dev\.csv"):
        FileSource(dataset, folder).splits("dev")
    # A run saves the columns of its files, whether they are given by name or by number.
    write_files(tmp_path, own__csv="n,phrase,mood\n7,a,x\n8,b,y\n", new__csv="n,phrase\n7,c\n8,d\n")
    paths = {"train_file": f"{folder}/own.csv", "test_file": f"{folder}/new.csv"}
    for columns in (("phrase",), ("mood",), "n"), (("1",), ("2",), "0"):
        names = dict(zip(("text_columns", "label_column", "id_column"), columns, strict=True))
        options = ClassificationData(header="yes", **names, **paths)
        source = make_source(options, ClassificationConfig())
        source.read("train")
        saved = columns_to_save(options, source)
        stored = ClassificationConfig(
            TINY, "", labels=("x", "y"), num_texts=1, trained_on=TrainedOn(saved)
        )
        later = with_restored_columns(ClassificationData(**paths), stored)
        examples = make_source(later[0], stored, stored, later[1]).read("test")
        assert [(x.text_a, x.id) for x in examples] == [("c", "7"), ("d", "8")]
    # A test file without the label, which was the first column.
    write_files(tmp_path, one__csv="c\nd\n")
    saved = {"text_columns": ("1",), "label_column": ("0",), "header": "no"}
    stored = dataclasses.replace(stored, trained_on=TrainedOn(saved))
    options = ClassificationData(text_columns=("0",), test_file=f"{folder}/one.csv")
    later = with_restored_columns(options, stored)
    assert len(make_source(later[0], stored, stored, later[1]).read("test")) == 2
    # A model of pairs reads two columns as two texts.
    write_files(tmp_path, test__csv="c,d\n")
    options = ClassificationData(data_dir=folder, task_name="tsv", header="no")
    stored = ClassificationConfig(TINY, "", labels=("x", "y"), num_texts=2)
    (example,) = make_source(options, stored, stored).read("test")
    assert (example.text_a, example.text_b) == ("c", "d")


# Numeric features.


def test_normalization(caplog):
    """Covers times in seconds, and a constant column whose float deviation is not exactly 0."""
    times = [1.7e9, 1.7e9 + 60, 1.7e9 + 120] * 40
    examples = [Example("", "a", numbers=(x, 0.7)) for x in times]
    assert np.std([0.7] * 120) != 0
    features = measure_numbers(("time", "same"), examples)
    assert "`numeric_columns`: same has only one value" in caplog.text
    assert features[0] == NumericFeature("time", 1.7e9 + 60, pytest.approx(np.sqrt(2400)))
    values = np.array([normalize(example.numbers, features) for example in examples])
    np.testing.assert_allclose(values.mean(0), 0, atol=1e-9)
    np.testing.assert_allclose(values.std(0), [1, 0], atol=1e-9)
    np.testing.assert_allclose(normalize((1.7e9 + 60, 0.8), features), [0, 0.1], atol=1e-9)
    tensor = normalize(tf.constant([[1.7e9 + 120, 0.7]], tf.float64), features)
    np.testing.assert_allclose(tensor, [[60 / np.sqrt(2400), 0]], atol=1e-9)


def test_rows_that_are_left_out_are_not_measured(tmp_path):
    train, dev = "text,label,x\na,x,1\na,y,3\na,z,100000\n", "x,text,label\n4,a,y\n"
    folder = write_files(tmp_path, train__csv=train, dev__csv=dev)
    dataset = custom_dataset(labels=("x", "y"), layout=Layout(numbers=("2",)))
    source = FileSource(dataset, folder)  # dev.csv has the column with the same name elsewhere
    data = read_data(source, ["train", "dev"], skip_bad_rows=True)
    assert data.numeric_features == (NumericFeature("x", 2.0, 1.0),)
    assert data.examples["dev"][0].numbers == (4.0,)


def test_as_words(tmp_path):
    folder = write_files(tmp_path, test__csv="text,x,y\na b,101,2\n")
    dataset = custom_dataset(layout=Layout(numbers=("x", "y"), numeric_as="text"))
    (example,) = read_examples(dataset, folder, "test")
    assert example.text_a == "x: 101, y: 2. a b"
    assert example.numbers == (101.0, 2.0)


def test_a_run_keeps_its_numbers(run_script, tmp_path):
    rows = "text,x,y,label\na b,1,2,near\na b,3,2,far\n"
    write_files(tmp_path, train__csv=rows, dev__csv=rows)
    run = make_run(run_script, "run_classifier", tmp_path, **SMALL)
    numbers = (NumericFeature("x", 2.0, 1.0), NumericFeature("y", 2.0, 0.0))
    config = ClassificationConfig(
        small_config(), f"{tmp_path}/vocab.txt", max_seq_length=8, labels=("far", "near"),
        num_texts=1, numeric_features=numbers,
    )  # fmt: skip
    out = str(tmp_path / "out")
    config.save(out)
    weights = checkpoints.tensors(bert_tf.BertClassifier(small_config(), 2, num_numeric_features=2))
    checkpoints.write(f"{out}/model.ckpt-1", weights)
    with pytest.raises(bert_tf.UserError, match="numeric features"):
        checkpoints.convert(out, str(tmp_path / "hf"), "hugging_face")
    for flags, message in (
        (["--do_eval", "--numeric_columns=y"], "--numeric_columns=y: .*x,y"),
        (["--do_eval", "--numeric_as=text"], "--output_dir.* numeric_as .*vector.*text"),
        (["--do_train"], "--output_dir.* numeric_columns .*x, y.*none"),
        (["--do_train", "--numeric_as=text"], "--numeric_as requires --numeric_columns"),
        (["--do_train", "--numeric_columns=z"], r"train\.csv, line 1: .*'z'"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            run(f"--data_dir={tmp_path}", "--task_name=tsv", *flags)


# GLUE and XNLI.


# For each task, the header and a row of a labelled file and of the test file in the GLUE download,
# and the expected (text_a, text_b, label) and (text_a, text_b, id).
GLUE = {
    "CoLA": ("gj04\t1\t\tA b.\n",
             "index\tsentence\n7\tA b.\n", ("A b.", None, "1"), ("A b.", None, "7")),
    "SST-2": ("sentence\tlabel\na b \t0\n",
              "index\tsentence\n0\ta b\n", ("a b ", None, "0"), ("a b", None, "0")),
    "MRPC": ("\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t10\t11\tA\tB\n",
             "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n3\t10\t11\tA\tB\n",
             ("A", "B", "1"), ("A", "B", "3")),
    "STS-B": ("index\tgenre\tfilename"
              "\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n0\tg\tf\t2012\t1\tn\tn\tA\tB\t4.750\n",
              "index\tgenre\tfilename"
              "\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\n5\tg\tf\t2012\t1\tn\tn\tA\tB\n",
              ("A", "B", 4.75), ("A", "B", "5")),
    "QQP": ("id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n9\t1\t2\tA?\tB?\t0\n",
            "id\tquestion1\tquestion2\n2\tA?\tB?\n", ("A?", "B?", "0"), ("A?", "B?", "2")),
    "QNLI": ("index\tquestion\tsentence\tlabel\n0\tA?\tB\tnot_entailment\n",
             "index\tquestion\tsentence\n1\tA?\tB\n",
             ("A?", "B", "not_entailment"), ("A?", "B", "1")),
    "RTE": ("index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n",
            "index\tsentence1\tsentence2\n1\tA\tB\n", ("A", "B", "entailment"), ("A", "B", "1")),
    "WNLI": ("index\tsentence1\tsentence2\tlabel\n0\tA\tB\t1\n",
             "index\tsentence1\tsentence2\n1\tA\tB\n", ("A", "B", "1"), ("A", "B", "1")),
}  # fmt: skip


@pytest.mark.parametrize("name", GLUE)
def test_columns_of_glue(tmp_path, name):
    labelled, test, expected, expected_test = GLUE[name]
    folder = write_files(tmp_path, train__tsv=labelled, dev__tsv=labelled, test__tsv=test)
    dataset = find_dataset(name)
    for split in ("train", "dev"):
        (example,) = read_examples(dataset, folder, split)
        assert (example.text_a, example.text_b, example.label) == expected
        if dataset.labels:
            assert example.label in dataset.labels
    (example,) = read_examples(dataset, folder, "test")
    assert (example.text_a, example.text_b, example.id) == expected_test
    assert example.label is None


def test_mnli_has_two_splits_of_each_part(tmp_path):
    source = FileSource(find_dataset("mnli"), write_mnli(tmp_path))
    data = read_data(source, ["train", "dev", "test"])
    assert data.labels == ("contradiction", "entailment", "neutral")  # the release's order
    results = {split: (x.text_a, x.text_b, x.label) for split, (x,) in data.examples.items()}
    assert results == {
        "train": ("A", "B", "contradiction"),
        "dev": ("M", "B", "entailment"),
        "dev_mismatched": ("MM", "B", "contradiction"),
        "test": ("TM", "B", None),
        "test_mismatched": ("TMM", "B", None),
    }
    assert source.splits("dev") == ["dev", "dev_mismatched"]
    for name, text in (("mnli_matched", "M"), ("MNLI-mm", "MM")):
        part = FileSource(find_dataset(name), str(tmp_path))
        assert part.splits("dev") == ["dev"] and part.read("dev")[0].text_a == text
    # The release uses only the matched sets.
    (tmp_path / "dev_mismatched.tsv").unlink()
    assert source.splits("dev") == ["dev"]
    (tmp_path / "dev_matched.tsv").unlink()
    with pytest.raises(bert_tf.UserError, match=r"`data_dir=.*dev_matched\.tsv"):
        source.splits("dev")


def test_xnli(tmp_path):
    (tmp_path / "multinli").mkdir()
    text = "premise\thypo\tlabel\nA\tB\tcontradictory\nC\tD\tneutral\n"
    (tmp_path / "multinli" / "multinli.train.de.tsv").write_text(text)
    head = "language\tgold_label\t1\t2\t3\t4\tsentence1\tsentence2\tpromptID\n"
    rows = "ar\tneutral\t\t\t\t\tX\tY\t1\nde\tentailment\t\t\t\t\tE\tF\t1\n"
    folder = write_files(tmp_path, **{"xnli.dev__tsv": head + rows})
    source = FileSource(find_dataset("XNLI", "de"), folder)
    examples = {
        split: [(x.text_a, x.text_b, x.label) for x in source.read(split)]
        for split in ("train", "dev")
    }
    assert examples["train"] == [("A", "B", "contradiction"), ("C", "D", "neutral")]
    assert examples["dev"] == [("E", "F", "entailment")]
    assert source.dataset.labels == ("contradiction", "entailment", "neutral")
    with pytest.raises(bert_tf.UserError, match=r"xnli\.dev\.tsv.* xx:"):
        FileSource(find_dataset("XNLI", "xx"), folder).read("dev")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("sst2", "SST-2"), ("SST", "SST-2"), ("sts_b", "STS-B"), ("mnli_matched", "MNLI-matched"),
     ("MNLI-mm", "MNLI-mismatched"), ("Cola", "CoLA"), ("csv", "tsv")],
)  # fmt: skip
def test_spellings_of_names(typed, expected):
    assert find_dataset(typed) == find_dataset(expected) == DATASETS[expected]


# Losses.


@pytest.mark.parametrize("class_weights", [None, (0.5, 1.0, 4.0)])
@pytest.mark.parametrize(
    ("task_type", "labels", "loss"),
    [
        ("classification", np.int32([0, 2, 1, 2]),
         lambda y, z, w: (w * -np.log(np.exp(z) / np.exp(z).sum()))[y]),
        ("regression", np.float32([0.5, -1, 2, 0]), lambda y, z, w: (z[0] - y) ** 2),
        ("multi_label", np.float32([[1, 0, 1], [0, 0, 0], [0, 1, 1], [1, 1, 1]]),
         lambda y, z, w: np.mean(w * y * np.logaddexp(0, -z) + (1 - y) * np.logaddexp(0, z))),
    ],
)  # fmt: skip
def test_losses(task_type, labels, loss, class_weights):
    """The loss of an example is the formula's; class weights are in the training loss only."""
    config = small_config(initializer_range=0.5)
    objective = classification_task(config, task_type, class_weights=class_weights)
    batch = {**features(4), objective.label_name: labels}
    batch = {name: tf.constant(value) for name, value in batch.items()}
    outputs = objective.model(batch, training=False)
    logits = outputs["logits"].numpy()
    weighted, expected = (
        [loss(y, z, np.array(w)) for y, z in zip(labels, logits, strict=True)]
        for w in (class_weights or (1,) * 3, (1,) * 3)
    )
    predictions = objective.predictions(outputs, batch)
    np.testing.assert_allclose(predictions["loss"], expected, rtol=1e-4)
    for training, values in ((True, weighted), (False, expected)):
        (total,) = objective.losses(
            outputs, batch, objective.denominators(batch), training
        ).values()
        np.testing.assert_allclose(total, np.mean(values), rtol=1e-4)
    assert predictions[objective.answer_name].shape == (
        (4,) if task_type == "regression" else (4, 3)
    )
    metrics = objective.metrics({name: value.numpy() for name, value in predictions.items()})
    assert sorted(metrics) == sorted(objective.metric_names)
    assert metrics["loss"] == metrics["eval_loss"] == pytest.approx(np.mean(expected), rel=1e-4)
    for name, (values, _) in objective.fit_metrics(outputs, batch).items():
        assert np.mean(values) == pytest.approx(metrics.get(f"eval_{name}", np.mean(values)))


@pytest.mark.parametrize(("choice", "expected"), [("balanced", (1, 1)), ("0,1", (0, 1))])
def test_the_flag_of_class_weights(run_script, experiments, tmp_path, choice, expected):
    write_files(tmp_path, train__tsv="text\tlabel\n" + "a\tx\nb\ty\n" * 4)
    run = make_run(run_script, "run_classifier", tmp_path)
    run(f"--data_dir={tmp_path}", "--task_name=tsv", "--do_train", f"--class_weights={choice}")
    (run,) = experiments
    assert run.task.objective(run.data).class_weights == expected


# Features, which equal the release's.


def features_of(examples, tokenizer, labels, max_seq_length, task_type="classification"):
    """Return the records of examples as a batch."""
    config = ClassificationConfig(
        TINY, "", labels=labels, max_seq_length=max_seq_length, task_type=task_type
    )
    return first_batch(make_features(examples, tokenizer, config))


@pytest.mark.parametrize("name", golden_inputs.CLASSIFICATION)
def test_features_are_the_release_s(golden, name):
    is_pair, max_seq_length = golden_inputs.CLASSIFICATION[name]
    rows = golden_inputs.classification_examples(is_pair)
    examples = [Example(str(i), *row) for i, row in enumerate(rows)]
    tokenizer = bert_tf.FullTokenizer(str(golden / "vocab.txt"))
    batch = features_of(examples, tokenizer, ("0", "1"), max_seq_length)
    with np.load(golden / "classification.npz") as expected:
        for key in ("input_ids", "input_mask", "segment_ids", "label_id"):
            own_key = "label_ids" if key == "label_id" else key
            np.testing.assert_array_equal(batch[own_key], expected[f"{name}/{key}"], err_msg=key)
    assert batch["input_mask"].numpy()[:, -1].sum() > 10  # truncated texts


@pytest.mark.parametrize(
    ("task_name", "folder", "file"),
    [("mrpc", "MRPC", "mrpc"), ("mrpc", "MRPC", "mrpc_short"), ("cola", "CoLA", "cola")],
)
def test_features_of_glue_are_the_release_s(shared, published_vocab, task_name, folder, file):
    lines = (shared / "golden" / "classifier" / f"{file}.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in lines]
    dataset = find_dataset(task_name)
    examples = read_examples(dataset, str(shared / "data" / folder), "dev")[: len(expected)]
    for example, row in zip(examples, expected, strict=True):
        assert (example.text_a, example.text_b) == (row["text_a"], row["text_b"])
    tokenizer = bert_tf.FullTokenizer(published_vocab)
    batch = features_of(examples, tokenizer, dataset.labels, expected[0]["max_seq_length"])
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(batch[name], [row[name] for row in expected])
    np.testing.assert_array_equal(batch["label_ids"], [row["label_id"] for row in expected])
    assert len(expected) == 200
