"""GLUE and XNLI by their files, the labels of a set, and features that are used again."""

import json

import pytest
from common import read_data

import bert_tf
from bert_tf import tasks
from bert_tf.tasks import classification

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "soup"]

# For each task the header and a row of the GLUE download, labelled and of the test set, and what is
# read of them: text_a, text_b, label; text_a, text_b, id.
ROWS = {
    "CoLA": (
        "gj04\t1\t\tA b.\n",
        "index\tsentence\n7\tA b.\n",
        ("A b.", None, "1"),
        ("A b.", None, "7"),
    ),
    "SST-2": (
        "sentence\tlabel\na b \t0\n",
        "index\tsentence\n0\ta b\n",
        ("a b ", None, "0"),
        ("a b", None, "0"),
    ),
    "MRPC": (
        "\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t10\t11\tA\tB\n",
        "index\t#1 ID\t#2 ID\t#1 String\t#2 String\n3\t10\t11\tA\tB\n",
        ("A", "B", "1"),
        ("A", "B", "3"),
    ),
    "STS-B": (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
        "0\tg\tf\t2012\t1\tn\tn\tA\tB\t4.750\n",
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\n"
        "5\tg\tf\t2012\t1\tn\tn\tA\tB\n",
        ("A", "B", 4.75),
        ("A", "B", "5"),
    ),
    "QQP": (
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n9\t1\t2\tA?\tB?\t0\n",
        "id\tquestion1\tquestion2\n2\tA?\tB?\n",
        ("A?", "B?", "0"),
        ("A?", "B?", "2"),
    ),
    "QNLI": (
        "index\tquestion\tsentence\tlabel\n0\tA?\tB\tnot_entailment\n",
        "index\tquestion\tsentence\n1\tA?\tB\n",
        ("A?", "B", "not_entailment"),
        ("A?", "B", "1"),
    ),
    "RTE": (
        "index\tsentence1\tsentence2\tlabel\n0\tA\tB\tentailment\n",
        "index\tsentence1\tsentence2\n1\tA\tB\n",
        ("A", "B", "entailment"),
        ("A", "B", "1"),
    ),
    "WNLI": (
        "index\tsentence1\tsentence2\tlabel\n0\tA\tB\t1\n",
        "index\tsentence1\tsentence2\n1\tA\tB\n",
        ("A", "B", "1"),
        ("A", "B", "1"),
    ),
}


def write(folder, **texts):
    """Writes files, a name's two underscores for its dot; returns the folder."""
    for name, text in texts.items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / name.replace("__", ".")).write_bytes(data)
    return str(folder)


@pytest.fixture
def tokenizer(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS) + "\n")
    return bert_tf.FullTokenizer(str(tmp_path / "vocab.txt"))


@pytest.mark.parametrize("name", ROWS)
def test_files_of_glue(tmp_path, name):
    labelled, test, expected, expected_test = ROWS[name]
    where = write(tmp_path, train__tsv=labelled, dev__tsv=labelled, test__tsv=test)
    task = tasks.classification.find_task(name)
    for split in ("train", "dev"):
        (found,) = tasks.classification.read_examples(task, where, split)
        assert (found.text_a, found.text_b, found.label) == expected
        if task.labels:
            assert found.label in task.labels
    (found,) = tasks.classification.read_examples(task, where, "test")
    assert (found.text_a, found.text_b, found.id) == expected_test
    assert found.label is None


def mnli(folder):
    head = ["index", *"xxxxxxx", "sentence1", "sentence2"]
    row = ["0", *"xxxxxxx"]

    def text(names, *cells):
        return "\t".join([*head, *names]) + "\n" + "\t".join([*row, *cells]) + "\n"

    five = ["label1", "label2", "label3", "label4", "label5"]
    others = ["neutral"] * 5
    write(
        folder,
        train__tsv=text(["label1", "gold_label"], "A", "B", "neutral", "contradiction"),
        dev_matched__tsv=text([*five, "gold_label"], "M", "B", *others, "entailment"),
        dev_mismatched__tsv=text([*five, "gold_label"], "MM", "B", *others, "contradiction"),
        test_matched__tsv=text([], "TM", "B"),
        test_mismatched__tsv=text([], "TMM", "B"),
    )
    return str(folder)


def test_mnli_has_two_sets_of_each_part(tmp_path):
    source = tasks.classification.FileSource(tasks.classification.find_task("mnli"), mnli(tmp_path))
    data = read_data(source, ["train", "dev", "test"])
    assert data.labels == ("contradiction", "entailment", "neutral")  # the release's order
    found = {split: (x.text_a, x.text_b, x.label) for split, (x,) in data.examples.items()}
    assert found == {
        "train": ("A", "B", "contradiction"),
        "dev": ("M", "B", "entailment"),
        "dev_mismatched": ("MM", "B", "contradiction"),
        "test": ("TM", "B", None),
        "test_mismatched": ("TMM", "B", None),
    }
    assert data.splits("dev") == ["dev", "dev_mismatched"]
    assert tasks.base.result_name("eval_results", "dev_mismatched", ".txt") == (
        "eval_results_mismatched.txt"
    )
    # The release knew the matched sets only.
    (tmp_path / "dev_mismatched.tsv").unlink()
    assert source.splits("dev") == ["dev"]
    (tmp_path / "dev_matched.tsv").unlink()
    with pytest.raises(bert_tf.UserError, match=r"--data_dir: there is no file .*dev_matched.tsv"):
        source.splits("dev")


def test_mnli_by_part(tmp_path):
    where = mnli(tmp_path)
    for name, text in (("mnli_matched", "M"), ("MNLI-mm", "MM")):
        source = tasks.classification.FileSource(tasks.classification.find_task(name), where)
        assert source.splits("dev") == ["dev"]
        (found,) = source.read("dev")
        assert found.text_a == text


def test_the_diagnostic_set_is_only_predicted(tmp_path):
    where = write(tmp_path, diagnostic__tsv="index\tsentence1\tsentence2\n0\tA\tB\n")
    source = tasks.classification.FileSource(tasks.classification.find_task("ax"), where)
    data = read_data(source, ["test"])
    assert data.labels == tasks.classification.find_task("mnli").labels
    # In the folder of the MNLI run, beside its own results.
    assert tasks.base.result_name("test_results", data.splits("test")[0], ".tsv") == (
        "test_results_ax.tsv"
    )
    with pytest.raises(bert_tf.UserError, match="--do_train: this task has no train set"):
        source.splits("train")


def test_xnli(tmp_path):
    (tmp_path / "multinli").mkdir()
    text = "premise\thypo\tlabel\nA\tB\tcontradictory\nC\tD\tneutral\n"
    (tmp_path / "multinli" / "multinli.train.de.tsv").write_text(text)
    head = "language\tgold_label\t1\t2\t3\t4\tsentence1\tsentence2\tpromptID\n"
    rows = "ar\tneutral\t\t\t\t\tX\tY\t1\nde\tentailment\t\t\t\t\tE\tF\t1\n"
    write(tmp_path, **{"xnli.dev__tsv": head + rows})
    source = tasks.classification.FileSource(
        tasks.classification.find_task("XNLI", "de"), str(tmp_path)
    )
    found = {split: source.read(split) for split in ("train", "dev")}
    assert [(x.text_a, x.text_b, x.label) for x in found["train"]] == [
        ("A", "B", "contradiction"),
        ("C", "D", "neutral"),
    ]
    assert [(x.text_a, x.text_b, x.label) for x in found["dev"]] == [("E", "F", "entailment")]
    assert source.task.labels == ("contradiction", "entailment", "neutral")
    source = tasks.classification.FileSource(
        tasks.classification.find_task("XNLI", "xx"), str(tmp_path)
    )
    with pytest.raises(bert_tf.UserError, match=r"dev.tsv: there is not a single example in xx in"):
        source.read("dev")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("SST-2", "SST-2"), ("sst2", "SST-2"), ("sst-2", "SST-2"), ("SST", "SST-2"),
        ("sts_b", "STS-B"), ("STSB", "STS-B"), ("mnli_matched", "MNLI-matched"),
        ("MNLI-mm", "MNLI-mismatched"), ("Cola", "CoLA"), ("ax", "AX"), ("csv", "tsv"),
    ],
)  # fmt: skip
def test_names_as_people_type_them(typed, meant):
    assert tasks.classification.find_task(typed) == tasks.classification.find_task(meant)
    assert tasks.classification.find_task(meant).labels == classification.glue.TASKS[meant].labels


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (None, None, tasks.classification.Layout(label=("a", "b"))),
            "want --task_type=multi_label",
        ),
        (
            ("multi_label", ("x",), tasks.classification.Layout(label=("a", "b"))),
            "--labels: 1 of them, but",
        ),
        ((None, ("x", "x"), None), "--labels: one is there twice"),
        (("regression", ("x",), None), "--labels: a regression has none"),
        (
            (None, None, tasks.classification.Layout(text=("a", "b", "c"))),
            "--text_columns: one or two",
        ),
    ],
)
def test_what_does_not_go_together(arguments, message):
    with pytest.raises(bert_tf.UserError, match=message):
        tasks.classification.custom_task(*arguments)


def test_labels_that_are_not_known(tmp_path, caplog):
    where = write(tmp_path, train__tsv="a\tx\nb\ty\n", dev__tsv="a\tx\nb\tz\nc\tz\n")
    source = tasks.classification.FileSource(tasks.classification.custom_task(), where)
    with pytest.raises(bert_tf.UserError, match=r"dev.tsv, line 2: the label 'z' is not one of x"):
        read_data(source, ["train", "dev"])
    caplog.set_level("INFO", "bert_tf")
    data = read_data(source, ["dev"], skip_bad_rows=True)  # the labels of train.tsv
    assert [x.text_a for x in data.examples["dev"]] == ["a"]
    assert "bad rows left out: 2, the first: " in caplog.text
    assert "labels found in train.tsv: x, y" in caplog.text
    source = tasks.classification.FileSource(
        tasks.classification.custom_task(labels=("z", "y", "x")), where
    )
    assert read_data(source, ["train", "dev"]).labels == ("z", "y", "x")
    source = tasks.classification.FileSource(tasks.classification.custom_task(labels=("w",)), where)
    with pytest.raises(bert_tf.UserError, match="not a single row of that set is left"):
        read_data(source, ["train"], skip_bad_rows=True)


def test_a_trained_model_s_labels_go_before_those_of_the_data(tmp_path):
    where = write(tmp_path, dev__tsv="a\tx\n")
    settings = tasks.Settings(("w", "x"), 8, True, None, "")
    source = tasks.classification.FileSource(tasks.classification.custom_task(), where)
    assert read_data(source, ["dev"], settings).labels == ("w", "x")


def test_glue_may_have_empty_texts(tmp_path, caplog):
    """QQP has some. The release takes them, and the leaderboard wants every row."""
    text = "id\tquestion1\tquestion2\n0\tA?\tB?\n1\t\tB?\n"
    where = write(tmp_path, test__tsv=text)
    found = tasks.classification.read_examples(tasks.classification.find_task("qqp"), where, "test")
    assert [x.text_a for x in found] == ["A?", ""]
    assert "rows with an empty text: 1, the first: " in caplog.text


def test_files_elsewhere_and_csv_by_default(tmp_path):
    where = write(tmp_path, train__csv="a,x\n", other__tsv="b\ty\n")
    source = tasks.classification.FileSource(
        tasks.classification.custom_task(), where, {"dev": str(tmp_path / "other.tsv")}
    )
    data = read_data(source, ["train"])
    assert data.examples["train"][0].text_a == "a"
    assert source.read("dev")[0].text_a == "b"
    source = tasks.classification.FileSource(
        tasks.classification.custom_task(), where, {"dev": str(tmp_path / "none.tsv")}
    )
    with pytest.raises(bert_tf.UserError, match=r"--dev_file: there is no file .*none.tsv"):
        source.splits("dev")
    # Two columns are two texts beside a training file of three, of any name and place.
    three = write(tmp_path, three__csv="a,b,x\n", test__csv="c,d\n")
    for paths in ({"train": str(tmp_path / "three.csv")}, {}):
        if not paths:
            write(tmp_path, train__csv="a,b,x\n")
        (found,) = tasks.classification.FileSource(
            tasks.classification.custom_task(), three, paths
        ).read("test")
        assert (found.text_a, found.text_b) == ("c", "d")
    with pytest.raises(bert_tf.UserError, match="--data_dir or --test_file must be given"):
        tasks.classification.FileSource(tasks.classification.custom_task()).splits("test")


def features(path, examples, tokenizer, size=6, labels=("x", "y"), kind="classification"):
    found = cache.Features(path, examples, labels, tokenizer, size, tasks.TASK_CLASSES[kind])
    if found.stale_reason:
        found.write()


def test_features_are_used_again_while_nothing_changes(tmp_path, tokenizer, caplog):
    caplog.set_level("INFO", "bert_tf")
    path = str(tmp_path / "train.tf_record")
    examples = [
        classification.Example("", "good", None, "x"),
        classification.Example("", "bad", None, "y"),
    ]

    def said(*arguments, **changed):
        caplog.clear()
        features(path, *(arguments or (examples, tokenizer)), **changed)
        return next(x for x in caplog.messages if "used again" in x or " is made: " in x)

    assert "there is none yet" in said()
    before = (tmp_path / "train.tf_record").read_bytes()
    assert "used again" in said()
    assert (tmp_path / "train.tf_record").read_bytes() == before
    assert "made: max_seq_length changed since" in said(size=7)
    assert "made: labels changed since" in said(size=7, labels=("y", "x"))
    more = [*examples, classification.Example("", "soup", None, "x")]
    assert "made: data, examples, max_seq_length, labels changed since" in said(more, tokenizer)
    assert "made: data changed since" in said(
        [*more[:2], classification.Example("", "soup", None, "y")], tokenizer
    )
    (tmp_path / "other.txt").write_text("\n".join([*WORDS, "spoon"]) + "\n")
    vocab = bert_tf.FullTokenizer(str(tmp_path / "other.txt"))
    features(path, examples, tokenizer)
    assert "made: vocabulary changed since" in said(examples, vocab)
    cased = bert_tf.FullTokenizer(str(tmp_path / "other.txt"), do_lower_case=False)
    assert "made: do_lower_case changed since" in said(examples, cased)
    several = [
        classification.Example("", "good", None, ("x",)),
        classification.Example("", "bad", None, ()),
    ]
    assert "task_type, schema changed since" in said(several, cased, kind="multi_label")
    # Files that somebody has changed, or that come from somewhere else.
    features(path, examples, tokenizer)
    (tmp_path / "train.tf_record").write_bytes(before + before)
    assert "was changed since" in said()
    assert (tmp_path / "train.tf_record").read_bytes() == before
    (tmp_path / "train.tf_record.json").write_text("[1")
    assert "cannot be read" in said()
    (tmp_path / "train.tf_record.json").unlink()
    assert "nothing says what" in said()
    assert json.loads((tmp_path / "train.tf_record.json").read_text())["examples"] == 2
