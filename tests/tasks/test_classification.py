"""Classification: files to examples, examples to the release's features."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf import tasks
from bert_tf.tasks import classification

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "soup", "and", "##s"]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return bert_tf.FullTokenizer(str(path))


def folder(tmp_path, **splits):
    for split, text in splits.items():
        (tmp_path / f"{split}.tsv").write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(tmp_path)


@pytest.mark.parametrize(
    ("task", "folder", "golden"),
    [("mrpc", "MRPC", "mrpc"), ("mrpc", "MRPC", "mrpc_short"), ("cola", "CoLA", "cola")],
)
def test_features_are_the_release_s(shared, task, folder, golden):
    lines = (shared / "golden" / "classifier" / f"{golden}.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in lines]
    tokenizer = bert_tf.FullTokenizer(str(shared / "data" / "uncased_vocab.txt"))
    task = tasks.classification.find_task(task)
    examples = tasks.classification.read_examples(task, str(shared / "data" / folder), "dev")
    examples = examples[: len(expected)]
    size = expected[0]["max_seq_length"]
    made = classification.features(examples, task.labels, tokenizer, size)
    for example, row, found in zip(examples, expected, made, strict=True):
        assert row["max_seq_length"] == size
        assert (example.text_a, example.text_b) == (row["text_a"], row["text_b"])
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert found[name] == row[name]
        assert found["label_ids"] == row["label_id"]
    assert len(expected) == 200


def test_pairs_are_cut_at_the_longer_side():
    a, b = [1, 2, 3, 4, 5], [6, 7, 8]
    classification.truncate_pair(a, b, 5)
    assert (a, b) == ([1, 2, 3], [6, 7])  # of two equals the second is cut


def test_features(tokenizer):
    example = classification.Example("x", "good soups", "bad", "1")
    (found,) = classification.features([example], ("0", "1"), tokenizer, 8)
    assert found == {
        "input_ids": [2, 5, 7, 9, 3, 6, 3, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 1, 0],
        "segment_ids": [0, 0, 0, 0, 0, 1, 1, 0],
        "label_ids": 1,
        "is_real_example": 1,
    }
    example = classification.Example("x", "good bad soup")
    (found,) = classification.features([example], ("0",), tokenizer, 4)
    assert found["input_ids"] == [2, 5, 6, 3]


@pytest.mark.parametrize(
    ("text", "examples"),
    [
        ("good soup\tyes\nbad\tno\n", [("good soup", None, "yes"), ("bad", None, "no")]),
        ("a\tb\tyes\n", [("a", "b", "yes")]),
        ("label\ttext\nyes\tgood\n", [("good", None, "yes")]),
        ("id\ttext_a\ttext_b\tlabel\n1\ta\tb\tx\r\n", [("a", "b", "x")]),
        ("\ufefftext\tlabel\ngood\tyes\n", [("good", None, "yes")]),
        ('"quoted\tyes\n\n', [('"quoted', None, "yes")]),
    ],
)
def test_files_of_one_s_own(tmp_path, text, examples):
    found = tasks.classification.read_examples(
        tasks.classification.find_task("tsv"), folder(tmp_path, train=text), "train"
    )
    assert [(e.text_a, e.text_b, e.label) for e in found] == examples


@pytest.mark.parametrize("text", ["text\ngood\n", "good\n", "good\tyes\n", "text\tlabel\ngood\t?"])
def test_test_files_with_and_without_labels(tmp_path, text):
    found = tasks.classification.read_examples(
        tasks.classification.find_task("TSV"), folder(tmp_path, test=text), "test"
    )
    assert [(e.text_a, e.label) for e in found] == [("good", None)]


def test_pairs_to_predict_keep_their_second_text(tmp_path):
    """Two columns are two texts where the training file has three, and text and label else."""

    def found(train):
        where = folder(tmp_path, train=train, test="good\tbad\n")
        examples = tasks.classification.read_examples(
            tasks.classification.find_task("tsv"), where, "test"
        )
        return [(e.text_a, e.text_b, e.label) for e in examples]

    assert found("a\tb\tx\n") == [("good", "bad", None)]
    assert found("a\tx\n") == [("good", None, None)]


def test_names_of_glue_s_headers(tmp_path):
    where = folder(tmp_path, train="index\tsentence1\tsentence2\tlabel\n0\ta\tb\tx\n")
    (found,) = tasks.classification.read_examples(
        tasks.classification.find_task("tsv"), where, "train"
    )
    assert (found.text_a, found.text_b, found.label) == ("a", "b", "x")


def test_a_run_does_not_go_on_with_other_labels(tmp_path, tokenizer):
    config = bert_tf.BertConfig(vocab_size=10)
    vocab_file = str(tmp_path / "vocab.txt")
    settings = tasks.Settings(("x", "y"), 8, True, config, vocab_file)
    run = str(tmp_path / "run")
    tasks.settle(run, settings, write=True)
    tasks.settle(run, settings, write=True)
    other = {
        "labels": ("y", "z"),
        "do_lower_case": False,
        "config": bert_tf.BertConfig(vocab_size=11),
        "vocab_file": str(tmp_path / "other.txt"),
    }
    (tmp_path / "other.txt").write_text("[PAD]\n")
    for name, value in other.items():
        with pytest.raises(bert_tf.UserError, match=f"holds a run with other {name}"):
            tasks.settle(run, settings._replace(**{name: value}), write=True)
    assert tasks.load_settings(run).labels == ("x", "y")
    # Longer texts may be trained on from here; it is the last length that predictions want.
    tasks.settle(run, settings._replace(max_seq_length=16), write=False)
    assert tasks.load_settings(run).max_seq_length == 8
    tasks.settle(run, settings._replace(max_seq_length=16), write=True)
    assert tasks.load_settings(run).max_seq_length == 16
    (tmp_path / "run" / "classifier.json").write_text("[]")
    with pytest.raises(bert_tf.UserError, match="not the settings of run_classifier"):
        tasks.load_settings(run)


def test_labels_are_found_and_sorted(tmp_path):
    def labels(*names):
        return tasks.labels_of([classification.Example("", "", None, name) for name in names])

    assert labels("no", "yes", "no", "maybe") == ("maybe", "no", "yes")
    assert labels("10", "9", "-1") == ("-1", "9", "10")


@pytest.mark.parametrize(
    ("task", "split", "text", "message"),
    [
        ("mrpc", "dev", "h\n1\t2\t3\ta\n", r"dev.tsv, line 2: text_b .* column 5, but there are 4"),
        ("cola", "train", "gj04\t1\t\n", r"train.tsv, line 1: text_a .* column 4, but there are 3"),
        ("cola", "train", "", "train.tsv: there is not a single example"),
        ("cola", "dev", b"gj04\t1\t\t\xff\n", "dev.tsv, line 1: not UTF-8 text"),
        ("tsv", "train", "a\tb\tc\td\n", "line 1: 4 columns without a header"),
        ("tsv", "train", "text\tstars\na\t1\n", "the header has no column `label`"),
        ("tsv", "train", "question\tlabel\na\t1\n", "has no column text, text_a, sentence or"),
        ("tsv", "train", "only\n", "line 1: 1 columns without a header"),
    ],
)
def test_bad_files(tmp_path, task, split, text, message):
    with pytest.raises(bert_tf.UserError, match=message):
        tasks.classification.read_examples(
            tasks.classification.find_task(task), folder(tmp_path, **{split: text}), split
        )


def test_other_mistakes(tmp_path, tokenizer):
    with pytest.raises(bert_tf.UserError, match=r"'qqqp' is not one of CoLA, .*, tsv"):
        tasks.classification.find_task("qqqp")
    with pytest.raises(bert_tf.UserError, match=r"--data_dir: there is no file .*train.tsv"):
        tasks.classification.read_examples(
            tasks.classification.find_task("cola"), str(tmp_path), "train"
        )
    with pytest.raises(bert_tf.UserError, match=r"x, line 3: the label '2' is not one of 0, 1"):
        example = classification.Example("x, line 3", "a", None, "2")
        list(classification.features([example], ("0", "1"), tokenizer, 8))


def test_metrics_are_of_the_whole_set():
    predictions = {
        "probabilities": np.float32([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]),
        "label_ids": np.array([0, 1, 1]),
        "loss": np.float32([0.1, 0.2, 0.9]),
    }
    task = object.__new__(tasks.ClassificationTask)
    assert task.metrics(predictions) == pytest.approx(
        {"eval_accuracy": 2 / 3, "eval_loss": 0.4, "loss": 0.4}
    )
