"""The files of a preset, and the settings of sentence-transformers folders."""

import dataclasses
import json
import pathlib
import shutil

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.tasks.sentence_embedding.task import encoder_settings
from bert_tf.tokenization.settings import resolve_settings


def test_wrong_presets(model_folder, tmp_path):
    shutil.copy(model_folder / "bert_config.json", tmp_path)
    with pytest.raises(bert_tf.UserError, match=r"`preset`: there is no vocab\.txt or token"):
        bert_tf.FillMask.from_preset(tmp_path)
    assert checkpoints.resolve(model_folder) == checkpoints.resolve(str(model_folder))


def test_files_and_settings(model_folder):
    model_files = checkpoints.resolve(model_folder)
    assert dataclasses.asdict(model_files) == {
        "checkpoint": str(model_folder),
        "config": str(model_folder / "bert_config.json"),
        "vocab_file": str(model_folder / "vocab.txt"),
        "tokenizer_settings": resolve_settings(),
    }
    cased = checkpoints.resolve(model_files, do_lower_case=False)
    assert cased.tokenizer_settings == resolve_settings(do_lower_case=False)
    assert checkpoints.resolve(model_folder, do_lower_case=False) == cased
    assert checkpoints.resolve(cased) == cased


@pytest.mark.parametrize(
    ("name", "do_lower_case"),
    [("wwm_cased_L-24_H-1024_A-16", False), ("multilingual_L-2_H-3_A-4", True)],
)
def test_casing_of_a_published_model(model_folder, tmp_path, caplog, name, do_lower_case):
    caplog.set_level("INFO", "bert_tf")
    folder = tmp_path / name
    shutil.copytree(model_folder, folder)
    for path in (folder, folder / "bert_model.ckpt"):
        caplog.clear()
        tokenizer = checkpoints.resolve(path).tokenizer
        assert tokenizer.basic_tokenizer.do_lower_case is do_lower_case
        messages = [message for message in caplog.messages if message.startswith("text is")]
        assert messages == [f"text is {'' if do_lower_case else 'not '}lower-cased"]
    # Settings next to the weights take precedence over the name.
    settings = {"do_lower_case": not do_lower_case}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert checkpoints.resolve(folder).do_lower_case is not do_lower_case


def test_unknown_casing_is_reported(model_folder, caplog):
    tokenizer = checkpoints.resolve(model_folder).tokenizer
    assert tokenizer.basic_tokenizer.do_lower_case
    assert f"{model_folder} " in caplog.text and "`do_lower_case=True`" in caplog.text


def test_settings_of_a_sentence_transformers_folder(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")

    def options(**given):
        return encoder_settings(str(tmp_path), given)

    assert options() == {"pooling": "mean", "normalize": False}
    modules_file = tmp_path / "modules.json"
    paths = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense"}
    modules = [
        {"type": f"sentence_transformers.models.{name}", "path": path}
        for name, path in paths.items()
    ]
    modules_file.write_text(json.dumps(modules))
    with pytest.raises(bert_tf.UserError, match=rf"{modules_file}: .*Dense"):
        options()
    modules_file.write_text(json.dumps(modules[:2]))
    (tmp_path / "1_Pooling").mkdir()
    config = tmp_path / "1_Pooling" / "config.json"
    config.write_text(json.dumps({"pooling_mode_cls_token": True, "word_embedding_dimension": 3}))
    assert options() == {"pooling": "cls", "layer": -1, "normalize": False}
    assert options(pooling="cls") == options() and "overrides" not in caplog.text
    assert options(pooling="max") == {**options(), "pooling": "max"}
    assert f"`pooling=max` overrides the setting: {tmp_path} has cls" in caplog.text
    config.write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    with pytest.raises(bert_tf.UserError, match=f"{tmp_path}: .*pooling_mode_weightedmean_tokens"):
        options()
    assert options(pooling="mean")["pooling"] == "mean"
    assert "`pooling=mean` overrides the setting" in caplog.text and "weightedmean" in caplog.text
    # A partially downloaded folder, and a folder without that module.
    config.unlink()
    message = f"^{config} does not exist, although modules.json lists it; `pooling` overrides it$"
    with pytest.raises(bert_tf.UserError, match=message):
        options()
    assert options(pooling="cls")["pooling"] == "cls"
    modules_file.write_text(json.dumps(modules[:1]))
    assert options() == {"pooling": "mean", "layer": -1, "normalize": False}
    modules_file.write_text("{}{")
    with pytest.raises(bert_tf.UserError, match=f"{modules_file}, line 1: invalid JSON"):
        options()


@pytest.mark.parametrize("given", [None, 8])
def test_length_of_a_model_with_fewer_positions_than_the_default(model_folder, given):
    for pipeline in (bert_tf.SentenceEncoder, bert_tf.FillMask, bert_tf.TokenVectors):
        loaded = pipeline.from_preset(model_folder, max_seq_length=given)
        assert loaded.config.max_seq_length == (given or 12)
    classifier = bert_tf.TextClassifier.from_preset(model_folder, ["x", "y"], max_seq_length=given)
    assert classifier.config.max_seq_length == (given or 12)


def test_a_loaded_model_no_longer_needs_its_folder(model_folder, tmp_path, monkeypatch, eagerly):
    """A new folder with a different vocabulary in its place has no effect."""
    (tmp_path / "a").mkdir()
    monkeypatch.chdir(tmp_path / "a")
    shutil.copytree(model_folder, "model")
    options = {"labels": ["x", "y"]}
    expected = bert_tf.TextClassifier.from_preset("model", **options)
    classifier = bert_tf.TextClassifier.from_preset("model", **options)
    classifier.model.set_weights(expected.model.get_weights())
    text = pathlib.Path("model/vocab.txt").read_text()
    answers = expected.predict(["a b"])
    pathlib.Path("model/vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nb\na\n")
    assert classifier.predict(["a b"]) == answers
    (tmp_path / "b").mkdir()
    monkeypatch.chdir(tmp_path / "b")
    classifier.save_to_preset(tmp_path / "saved")
    assert (tmp_path / "saved" / "vocab.txt").read_text() == text
