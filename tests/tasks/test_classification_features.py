"""Classification examples become the release's features."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf.tasks.classification.examples import Example, make_features
from bert_tf.tasks.classification.glue import find_task
from bert_tf.tasks.classification.options import ClassificationConfig
from tests import golden_inputs
from tests.common import TINY, read_examples
from tests.tasks.task_helpers import first_batch


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
    dataset = find_task(task_name)
    examples = read_examples(dataset, str(shared / "data" / folder), "dev")[: len(expected)]
    for example, row in zip(examples, expected, strict=True):
        assert (example.text_a, example.text_b) == (row["text_a"], row["text_b"])
    tokenizer = bert_tf.FullTokenizer(published_vocab)
    batch = features_of(examples, tokenizer, dataset.labels, expected[0]["max_seq_length"])
    for name in ("input_ids", "input_mask", "segment_ids"):
        np.testing.assert_array_equal(batch[name], [row[name] for row in expected])
    np.testing.assert_array_equal(batch["label_ids"], [row["label_id"] for row in expected])
    assert len(expected) == 200
