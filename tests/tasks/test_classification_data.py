"""The files of a classification run, and its labels in the order of their ids."""

import dataclasses

import pytest

import bert_tf
from bert_tf.data.columns import Layout
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.classification.options import ClassificationConfig, ClassificationData, TrainedOn
from bert_tf.tasks.classification.source import (
    FileSource,
    columns_to_save,
    make_source,
    with_restored_columns,
)
from tests.common import TINY, read_data, write_files


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
