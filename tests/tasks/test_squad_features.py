"""Windows of questions and contexts equal the release's, also after writing records."""

import hashlib
import json

import pytest
import tensorflow as tf

import bert_tf
from bert_tf.data import records
from bert_tf.tasks.question_answering import features, reading
from bert_tf.tasks.question_answering.config import QuestionAnsweringConfig
from tests.common import write_vocab
from tests.squad_helpers import letters, record_values
from tests.tasks.task_helpers import small_config


def described(window, tokenizer, config, unique_id, example_index):
    """Return a window in the form of the golden digests."""
    values = record_values(window, tokenizer.vocab, config.max_seq_length, unique_id)
    ids = values["input_ids"][: sum(values["input_mask"])]
    positions = range(window.offset, window.offset + window.length)
    return [
        unique_id,
        example_index,
        window.index,
        values["input_ids"],
        values["input_mask"],
        values["segment_ids"],
        window.start_position,
        window.end_position,
        window.is_impossible,
        tokenizer.convert_ids_to_tokens(ids),
        [(i, window.context.token_to_word[window.token_at(i)]) for i in positions],
        [(i, window.is_max_context(i)) for i in positions],
    ]


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("version", ["v1", "v2"])
def test_windows_are_those_of_the_release(recording, version, is_training):
    tokenizer = bert_tf.FullTokenizer(recording.vocab)
    config = recording.config
    sha, unique_id, example_index = hashlib.sha256(), features.FIRST_UNIQUE_ID, 0
    converter = features.FeatureConverter(tokenizer, config, is_training)
    source = reading.JsonSource(recording.data, "train_file")
    for paragraph in source.paragraphs():
        for _, windows, _ in converter(paragraph):
            for window in windows:
                row = described(window, tokenizer, config, unique_id, example_index)
                sha.update(json.dumps(row).encode())
                unique_id += 1
            example_index += 1
    kind = "train" if is_training else "eval"
    assert unique_id - features.FIRST_UNIQUE_ID == recording.settings[f"{kind}_features"]
    assert sha.hexdigest() == recording.settings[f"{kind}_sha256"]


@pytest.mark.parametrize("num_processes", [1, 2])
def test_records_hold_the_windows_in_order(tmp_path, num_processes, monkeypatch):
    monkeypatch.setattr(features, "_CHUNK", 100)
    tokenizer = bert_tf.FullTokenizer(str(write_vocab(tmp_path)))
    source = reading.JsonSource(str(letters(tmp_path / "data.json", has_negative=True)), "x")
    config = QuestionAnsweringConfig(
        max_seq_length=12, max_query_length=4, doc_stride=3, num_processes=num_processes
    ).resolve()
    for is_training in (True, False):
        path = str(tmp_path / "windows.tf_record")
        result = features.write_windows(path, source, tokenizer, config, is_training, 0)
        converter = features.FeatureConverter(tokenizer, config, is_training)
        windows = [w for p in source.paragraphs() for _, x, _ in converter(p) for w in x]
        assert result == {"windows": len(windows)} and len(windows) > 15
        expected = records.serialize(
            records.SQUAD_TRAINING if is_training else records.SQUAD,
            [
                record_values(window, tokenizer.vocab, 12, features.FIRST_UNIQUE_ID + i)
                for i, window in enumerate(windows)
            ],
        )
        assert list(tf.data.TFRecordDataset(path).as_numpy_iterator()) == expected


def test_the_longest_question_must_leave_space_for_a_window():
    with pytest.raises(bert_tf.UserError, match="`max_seq_length=12`"):
        QuestionAnsweringConfig(small_config(), max_seq_length=12, max_query_length=9)
