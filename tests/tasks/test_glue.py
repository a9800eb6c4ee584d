"""GLUE and XNLI: columns, splits and task names."""

import pytest

import bert_tf
from bert_tf.tasks.classification.glue import DATASETS, find_task
from bert_tf.tasks.classification.source import FileSource
from tests.common import read_data, read_examples, write_files, write_mnli

# For each task, the header and a row of a labelled file and of the test file in the GLUE download,
# and the expected (text_a, text_b, label) and (text_a, text_b, id).
ROWS = {
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


@pytest.mark.parametrize("name", ROWS)
def test_columns(tmp_path, name):
    labelled, test, expected, expected_test = ROWS[name]
    folder = write_files(tmp_path, train__tsv=labelled, dev__tsv=labelled, test__tsv=test)
    dataset = find_task(name)
    for split in ("train", "dev"):
        (example,) = read_examples(dataset, folder, split)
        assert (example.text_a, example.text_b, example.label) == expected
        if dataset.labels:
            assert example.label in dataset.labels
    (example,) = read_examples(dataset, folder, "test")
    assert (example.text_a, example.text_b, example.id) == expected_test
    assert example.label is None


def test_mnli_has_two_splits_of_each_part(tmp_path):
    source = FileSource(find_task("mnli"), write_mnli(tmp_path))
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
        part = FileSource(find_task(name), str(tmp_path))
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
    source = FileSource(find_task("XNLI", "de"), folder)
    examples = {
        split: [(x.text_a, x.text_b, x.label) for x in source.read(split)]
        for split in ("train", "dev")
    }
    assert examples["train"] == [("A", "B", "contradiction"), ("C", "D", "neutral")]
    assert examples["dev"] == [("E", "F", "entailment")]
    assert source.dataset.labels == ("contradiction", "entailment", "neutral")
    with pytest.raises(bert_tf.UserError, match=r"xnli\.dev\.tsv.* xx:"):
        FileSource(find_task("XNLI", "xx"), folder).read("dev")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("sst2", "SST-2"), ("SST", "SST-2"), ("sts_b", "STS-B"), ("mnli_matched", "MNLI-matched"),
     ("MNLI-mm", "MNLI-mismatched"), ("Cola", "CoLA"), ("csv", "tsv")],
)  # fmt: skip
def test_spellings_of_names(typed, expected):
    assert find_task(typed) == find_task(expected) == DATASETS[expected]
