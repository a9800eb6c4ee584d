"""Feature files are reused while their inputs and options stay the same."""

import json

import pytest

from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.data import ClassificationData
from bert_tf.tasks.classification.examples import Example
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tokenization import FullTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "soup"]


@pytest.fixture
def update(tmp_path, tiny_config):
    """Return a function that updates the features and returns the reason why they were stale."""

    def update(examples, tokenizer, max_seq_length=6, labels=("x", "y"), **options):
        config = ClassificationConfig(
            tiny_config, "", max_seq_length=max_seq_length, labels=labels, **options
        )
        data = ClassificationData(custom_dataset(), {"train": examples}, config)
        cache = data.features("train", str(tmp_path / "train.tf_record"), tokenizer)
        reason = cache.stale_reason
        if reason:
            cache.rebuild()
        assert cache.stale_reason is None
        return reason

    return update


def test_reuse(update, tmp_path, caplog):
    def tokenizer(words=WORDS, do_lower_case=True, **settings):
        (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n")
        return FullTokenizer(str(tmp_path / "vocab.txt"), do_lower_case, **settings)

    caplog.set_level("INFO", "bert_tf")
    first = tokenizer()
    examples = [Example("", "good", None, "x"), Example("", "bad", None, "y")]
    records, note = tmp_path / "train.tf_record", tmp_path / "train.tf_record.json"
    assert "does not exist" in update(examples, first)
    before = records.read_bytes()
    assert update(examples, first) is None
    assert f"reusing {records}" in caplog.text
    assert records.read_bytes() == before

    assert update(examples, first, 7).startswith("max_seq_length changed")
    assert update(examples, first, 7, ("y", "x")).startswith("labels changed")
    more = [*examples, Example("", "soup", None, "x")]
    expected = "data, examples, max_seq_length, labels changed"
    assert update(more, first).startswith(expected)
    relabeled = [*examples, Example("", "soup", None, "y")]
    assert update(relabeled, first).startswith("data changed")
    update(examples, first)
    larger = tokenizer([*WORDS, "spoon"])
    assert update(examples, larger).startswith("vocabulary changed")
    cased = tokenizer([*WORDS, "spoon"], do_lower_case=False)
    assert update(examples, cased).startswith("do_lower_case changed")
    stripped = tokenizer([*WORDS, "spoon"], do_lower_case=False, strip_accents=True)
    assert update(examples, stripped).startswith("strip_accents changed")
    assert update(examples, cased).startswith("strip_accents changed")  # to the default
    label_sets = [Example("", "good", None, ("x",)), Example("", "bad", None, ())]
    reason = update(label_sets, cased, task_type="multi_label")
    assert reason.startswith("data, task_type, schema changed")

    # Changed files, and files from elsewhere.
    update(examples, first)
    records.write_bytes(before + before)
    assert "file was changed" in update(examples, first)
    assert records.read_bytes() == before
    values = json.loads(note.read_text())
    del values["lengths"]
    note.write_text(json.dumps(values))
    assert update(examples, first) == f"{note} was changed since it was written"
    note.write_text("[1")
    assert f"{note} cannot be read" in update(examples, first)
    note.unlink()
    assert f"{note}, " in update(examples, first)
    assert json.loads(note.read_text())["examples"] == 2
