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
    again = bert_tf.BertTokenizer.from_config(layer.get_config())
    assert dict(layer.graph_tokenizer.settings) == dict(again.graph_tokenizer.settings) == SETTINGS
    assert first_id(again) == PIECES.index("über")
    for source in (os.path.join(folder, "tokenizer.json"), folder):
        make = bert_tf.BertTokenizer if source != folder else bert_tf.BertTokenizer.from_preset
        assert first_id(make(source, strip_accents=True)) == PIECES.index("uber")
