"""Checkpoint conversion: exact round trips, config and vocabulary, resized tables, errors."""

import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.device_check.checks import RECORDED
from bert_tf.modeling import BertPretrainer
from tests.common import TINY, WORDS, features, read_tensors, tiny, write_vocab


def test_round_trip_through_hugging_face_is_bit_exact(tmp_path, caplog):
    config = bert_tf.BertConfig.from_json_file(str(RECORDED / "bert_config.json"))
    start = str(RECORDED / "bert_model.ckpt")
    checkpoints.convert(start, str(tmp_path / "a"), "release", config)
    assert "warning: found no vocabulary next to" in caplog.text
    checkpoints.convert(str(tmp_path / "a"), str(tmp_path / "b"), "hugging_face")
    checkpoints.convert(str(tmp_path / "b"), str(tmp_path / "c"), "release")
    expected = read_tensors(start)
    expected.pop("global_step")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        variables = [
            tf.compat.v1.get_variable(name, shape=value.shape) for name, value in expected.items()
        ]
        saver = tf.compat.v1.train.Saver(variables)
        for folder in "ac":
            saver.restore(session, str(tmp_path / folder / "bert_model.ckpt"))
            for variable in variables:
                np.testing.assert_array_equal(session.run(variable), expected[variable.op.name])
    for folder in "ac":
        written = json.loads((tmp_path / folder / "bert_config.json").read_text())
        original = json.loads((RECORDED / "bert_config.json").read_text())
        assert original.items() <= written.items()


def test_optimizer_state_is_left_out_by_default(release, tmp_path, caplog):
    caplog.set_level("INFO")
    checkpoints.convert(release, str(tmp_path / "less"), "release")
    assert "skipped 93 optimizer variables" in caplog.text
    checkpoints.convert(release, str(tmp_path / "all"), "release", keep_optimizer=True)
    assert read_tensors(tmp_path / "all").keys() == read_tensors(release).keys()
    assert len(read_tensors(tmp_path / "less")) == 46
    assert (tmp_path / "less" / "vocab.txt").read_text() == "[PAD]\n[UNK]\n"
    assert bert_tf.BertConfig.from_json_file(str(tmp_path / "less" / "bert_config.json")) == TINY


def test_more_positions_and_words(release, tmp_path):
    out = tmp_path / "out"
    checkpoints.convert(release, str(out), "release", max_position_embeddings=30, vocab_size=53)
    before, after = read_tensors(release), read_tensors(out)
    positions = "bert/embeddings/position_embeddings"
    assert after[positions].shape == (30, 16)
    for first in (0, 12):
        np.testing.assert_array_equal(after[positions][first : first + 12], before[positions])
    np.testing.assert_array_equal(after[positions][24:], before[positions][:6])
    config = bert_tf.BertConfig.from_json_file(str(out / "bert_config.json"))
    assert (config.max_position_embeddings, config.vocab_size) == (30, 53)
    larger = BertPretrainer(config)
    checkpoints.warm_start(larger, str(out))
    model = BertPretrainer(TINY)
    checkpoints.warm_start(model, release)
    np.testing.assert_allclose(
        model(features())["masked_lm_logits"],
        larger(features())["masked_lm_logits"][:, :, :50],
        atol=1e-6,
    )
    new = after["bert/embeddings/word_embeddings"][50:]
    assert len(np.unique(new, axis=0)) == 3
    again = tmp_path / "again"
    checkpoints.convert(release, str(again), "release", vocab_size=53)
    np.testing.assert_array_equal(read_tensors(again)["bert/embeddings/word_embeddings"][50:], new)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"vocab_size": 10**12}, "vocab_size"),
        ({"vocab_size": 40}, "`vocab_size=40`.* 50"),
        ({"keep_optimizer": True, "vocab_size": 60}, "`keep_optimizer`"),
        ({"keep_optimizer": True, "to_format": "hugging_face"}, "`keep_optimizer`"),
        ({"architecture": "GPT2", "to_format": "hugging_face"}, "`architecture=GPT2`"),
        ({"vocab_file": "vocab.txt"}, "`vocab_file`.* 5 .*, expected 50"),
        ({"config": tiny(hidden_size=32)}, r"\(50, 16\), expected \(50, 32\)"),
        ({"path": "none"}, "`input`.*none"),
        ({"output_dir": "a[1]"}, r"`output_dir`: a\[1\] contains \[ \]"),
        ({"output_dir": "."}, r"`output_dir`: \. "),
    ],
)
def test_errors(release, tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    write_vocab(tmp_path, WORDS[:5])
    arguments = {"path": release, "output_dir": "out", "to_format": "release", **options}
    with pytest.raises(bert_tf.UserError, match=message):
        checkpoints.convert(**arguments)
    assert not (tmp_path / "out").exists()
