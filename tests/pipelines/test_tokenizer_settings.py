"""Pipelines, their saved files and `BertTokenizer` use the settings of `tokenizer.json`."""

import os

import pytest

import bert_tf
from bert_tf.modeling import BertPretrainer
from tests.common import TINY, WORDS, write_hugging_face

pytest.importorskip("tensorflow_text")

PIECES = [*WORDS, "uber", "über", "Über", "Uber"]
PIECES += [f"w{index}" for index in range(TINY.vocab_size - len(PIECES))]
SETTINGS = {
    "do_lower_case": True,
    "strip_accents": False,
    "tokenize_chinese_chars": False,
    "max_input_chars_per_word": 5,
}


@pytest.fixture
def folder(tmp_path):
    """A Hugging Face folder without `vocab.txt`."""
    path = write_hugging_face(tmp_path / "hf", BertPretrainer(TINY), PIECES, **SETTINGS)
    os.remove(os.path.join(path, "vocab.txt"))
    return path


def first_id(tokenizer, text="Über"):
    """Return the first id of a `FullTokenizer` or a `BertTokenizer`."""
    if isinstance(tokenizer, bert_tf.FullTokenizer):
        return tokenizer.encode(text)[0]
    return int(tokenizer([text])["input_ids"][0, 1])


def test_task_pipelines(folder, tmp_path):
    make = bert_tf.TextClassifier
    pipeline = make.from_preset(folder, labels=["a", "b"])
    assert pipeline.config.tokenizer_settings == SETTINGS
    assert first_id(pipeline.tokenizer) == PIECES.index("über")
    served = bert_tf.serving.Predictor(pipeline.export(tmp_path / "export", warm_up=False))
    assert SETTINGS.items() <= served.metadata.items()
    pipeline.save_to_preset(tmp_path / "saved")
    again = make.from_preset(tmp_path / "saved")
    assert again.config.tokenizer_settings == SETTINGS
    # An explicit casing leaves the other settings unchanged.
    cased = make.from_preset(tmp_path / "saved", do_lower_case=False)
    assert cased.config.tokenizer_settings == {**SETTINGS, "do_lower_case": False}
    assert first_id(cased.tokenizer) == PIECES.index("Über")


def test_layer(folder):
    layer = bert_tf.BertTokenizer.from_preset(folder, max_seq_length=8)
    assert dict(layer.graph_tokenizer.settings) == SETTINGS
    again = bert_tf.BertTokenizer.from_config(layer.get_config())
    assert dict(again.graph_tokenizer.settings) == SETTINGS
    assert first_id(again) == PIECES.index("über")
    path = os.path.join(folder, "tokenizer.json")
    assert first_id(bert_tf.BertTokenizer(path)) == PIECES.index("über")
    assert first_id(bert_tf.BertTokenizer(path, strip_accents=True)) == PIECES.index("uber")
    layer = bert_tf.BertTokenizer.from_preset(folder, strip_accents=True)
    assert first_id(layer) == PIECES.index("uber")


def test_saved_text_pipelines(folder, tmp_path):
    fill_mask = bert_tf.FillMask.from_preset(folder, max_seq_length=8)
    assert fill_mask.tokenizer.settings == SETTINGS
    fill_mask.save_to_preset(tmp_path / "saved")
    os.remove(tmp_path / "saved" / "vocab.txt")
    tokenizer = bert_tf.FillMask.from_preset(tmp_path / "saved", max_seq_length=8).tokenizer
    assert (tokenizer.settings, tokenizer.vocab) == (SETTINGS, fill_mask.tokenizer.vocab)
