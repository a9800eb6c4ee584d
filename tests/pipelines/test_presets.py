"""The files of a preset, and the settings of sentence-transformers folders."""

import json
import pathlib
import shutil

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.tasks.sentence_embedding.task import encoder_settings
from tests.common import QUICK_RUN, WORDS, tiny, write_files
from tests.pipelines.conftest import write_release_folder


def test_wrong_presets(model_folder, tmp_path):
    shutil.copy(model_folder / "bert_config.json", tmp_path)
    with pytest.raises(bert_tf.UserError, match=r"`preset`: there is no vocab\.txt or token"):
        bert_tf.FillMask.from_preset(tmp_path)
    shutil.copy(model_folder / "vocab.txt", tmp_path)
    for pipeline, given in ((bert_tf.FillMask, {}), (bert_tf.TextClassifier, {"num_classes": 2})):
        pipeline.from_preset(tmp_path, load_weights=False, **given)
        with pytest.raises(bert_tf.UserError, match="`preset`: found none in the folder"):
            pipeline.from_preset(tmp_path, **given)


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
        in_graph = bert_tf.GraphTokenizer.from_preset(str(path), keep_special_tokens=True)
        assert in_graph.tokenize(["[MASK] a A"]).to_list() == [[4, 5, 5 if do_lower_case else 1]]
    # Settings next to the weights take precedence over the name.
    settings = {"do_lower_case": not do_lower_case}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    assert checkpoints.resolve(folder).do_lower_case is not do_lower_case


@pytest.mark.parametrize(
    ("modules", "pooling", "expected"),
    [
        ("", {}, ("mean", "p")),
        ("Pooling", {"pooling_mode_cls_token": True, "word_embedding_dimension": 3}, ("cls", "p")),
        ("Pooling Normalize", {"pooling_mode": ["max", "new"]}, ("max,new", "p")),
        ("Pooling", {"pooling_mode": "max", "include_prompt": False}, r"config\.json: include_pr"),
        ("Pooling", None, r"config\.json: cannot be read"),
        ("Pooling Dense", {}, r"modules\.json: .*Dense"),
        ("Normalize Pooling", {}, r"modules\.json: .*in this order"),
    ],
)
def test_settings_of_a_sentence_transformers_folder(tmp_path, caplog, modules, pooling, expected):
    modules = [{"type": f"models.{x}", "path": x} for x in ("Transformer", *modules.split())]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    values = {"prompts": {"a": "p"}, "default_prompt_name": "a", "similarity_fn_name": "dot"}
    (tmp_path / "config_sentence_transformers.json").write_text(json.dumps(values))
    (tmp_path / "Pooling").mkdir()
    if pooling is not None:
        (tmp_path / "Pooling" / "config.json").write_text(json.dumps(pooling))
    if isinstance(expected, str):
        with pytest.raises(bert_tf.UserError, match=f"{tmp_path}.*{expected}"):
            encoder_settings(str(tmp_path), {})
        if pooling is None:
            assert encoder_settings(str(tmp_path), {"pooling": "max"})["pooling"] == "max"
        return
    settings = encoder_settings(str(tmp_path), {"layer": -1})
    assert (settings["pooling"], settings["prompt"]) == expected
    assert "similarity_fn_name dot" in caplog.text


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


def test_pairs_are_an_error(run_script, tmp_path):
    """A model with one segment id accepts single texts."""
    (tmp_path / "model").mkdir()
    sizes = {"vocab_size": len(WORDS), "type_vocab_size": 1, "max_position_embeddings": 32}
    folder = str(write_release_folder(tmp_path / "model", tiny(**sizes)))
    classifier = bert_tf.TextClassifier.from_preset(folder, labels=["x", "y"], max_seq_length=16)
    classifier.compile(run_eagerly=True)
    pairs, labels = [("a b", "c"), ("c", "d")], ["x", "y"]
    vectors = bert_tf.TokenVectors.from_preset(folder, max_seq_length=16)
    data = write_files(tmp_path, train__tsv="text_a\ttext_b\tlabel\na b\tc\tx\nc\td\ty\n")
    flags = f"--task_name=tsv --data_dir={data} --output_dir={tmp_path}/out --model={folder}"
    for call in (
        lambda: classifier.fit(pairs, labels),
        lambda: classifier.fit(["a", "b"], ["x", "y"], validation_data=(pairs, labels)),
        lambda: classifier.evaluate(pairs, labels),
        lambda: classifier.predict(pairs),
        lambda: bert_tf.QuestionAnswering.from_preset(folder, max_seq_length=16),
        lambda: vectors.predict(["a", "a ||| b"]),
        lambda: bert_tf.MultipleChoice.from_preset(folder),
        lambda: run_script("run_classifier", *flags.split(), "--do_train", *QUICK_RUN),
    ):
        with pytest.raises(bert_tf.UserError, match=r"^the model has 1 segment id .* single texts"):
            call()
    assert len(classifier.predict(["a", ("b", "")])) == 2
    assert not list((tmp_path / "out").glob("*"))
