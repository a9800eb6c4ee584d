"""Classification examples become the release's features."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import input_pipeline
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.examples import Example
from bert_tf.tasks.classification.features import convert_examples, record_schema, write_features
from bert_tf.tasks.classification.glue import find_task
from bert_tf.tasks.classification.reading import read_examples
from tests import golden_inputs

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "soup", "and", "##s"]


def make_config(labels, max_seq_length, task_type="classification"):
    return ClassificationConfig(labels=labels, max_seq_length=max_seq_length, task_type=task_type)


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n")
    return bert_tf.FullTokenizer(str(path))


@pytest.mark.parametrize("name", golden_inputs.CLASSIFICATION)
def test_features_are_the_release_s(golden, name):
    is_pair, max_seq_length = golden_inputs.CLASSIFICATION[name]
    rows = golden_inputs.classification_examples(is_pair)
    examples = [Example(str(i), *row) for i, row in enumerate(rows)]
    tokenizer = bert_tf.FullTokenizer(str(golden / "vocab.txt"))
    config = make_config(("0", "1"), max_seq_length)
    features = list(convert_examples(examples, tokenizer, config))
    with np.load(golden / "classification.npz") as expected:
        for key in ("input_ids", "input_mask", "segment_ids", "label_id"):
            own_key = "label_ids" if key == "label_id" else key
            actual = [values[own_key] for values in features]
            np.testing.assert_array_equal(actual, expected[f"{name}/{key}"], err_msg=key)
    assert sum(values["input_mask"][-1] for values in features) > 10  # truncated texts


@pytest.mark.parametrize(
    ("task_name", "folder", "file"),
    [("mrpc", "MRPC", "mrpc"), ("mrpc", "MRPC", "mrpc_short"), ("cola", "CoLA", "cola")],
)
def test_features_of_glue_are_the_release_s(shared, published_vocab, task_name, folder, file):
    lines = (shared / "golden" / "classifier" / f"{file}.jsonl").read_text().splitlines()
    expected = [json.loads(line) for line in lines]
    tokenizer = bert_tf.FullTokenizer(published_vocab)
    dataset = find_task(task_name)
    examples = read_examples(dataset, str(shared / "data" / folder), "dev")
    examples = examples[: len(expected)]
    max_seq_length = expected[0]["max_seq_length"]
    features = convert_examples(examples, tokenizer, make_config(dataset.labels, max_seq_length))
    for example, row, values in zip(examples, expected, features, strict=True):
        assert row["max_seq_length"] == max_seq_length
        assert (example.text_a, example.text_b) == (row["text_a"], row["text_b"])
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert values[name] == row[name]
        assert values["label_ids"] == row["label_id"]
    assert len(expected) == 200


@pytest.fixture
def write_and_read(tokenizer, tmp_path):
    """Return a function that writes records with labels and reads them as one batch."""

    def write_and_read(task_type, label_values, labels):
        examples = [Example("x, line 1", "good", None, label) for label in label_values]
        path, config = str(tmp_path / "x.tf_record"), make_config(labels, 5, task_type)
        write_features(path, examples, tokenizer, config)
        lengths = {"S": 5, "L": max(1, len(labels))}
        data = input_pipeline.EvaluationInput([path], record_schema(config), lengths, len(examples))
        return next(iter(data.batches()))

    return write_and_read


def test_labels_in_records(write_and_read):
    batch = write_and_read("classification", ["y", None], ("x", "y"))
    np.testing.assert_array_equal(batch["label_ids"], [1, 0])
    batch = write_and_read("regression", [2.25, None], ())
    np.testing.assert_array_equal(batch["label_value"], np.float32([2.25, 0]))
    batch = write_and_read("multi_label", [("z", "x"), (), None], ("x", "y", "z"))
    np.testing.assert_array_equal(batch["label_values"], [[1, 0, 1], [0, 0, 0], [0, 0, 0]])
    assert batch["label_values"].dtype == tf.float32
