"""Folders written by current transformers, with `tokenizer.json` and without `vocab.txt`."""

import json

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.configs import FineTuneConfig, ModelConfig, TrainConfig
from bert_tf.tasks.registry import TASKS, load_config
from bert_tf.training import fine_tuning
from tests.common import TINY, WORDS

PIECES = [*WORDS, "uber", "über", "Über", "Uber", "中", "文", "中文"]
PIECES += [f"w{index}" for index in range(TINY.vocab_size - len(PIECES))]
TEXTS = ["über a b", "Über c", "中文 d", "Uber ab e"]


def save(transformers, folder, name="BertForSequenceClassification", **settings):
    """Save a random model with its tokenizer; return both."""
    import torch

    torch.manual_seed(0)
    values = {**TINY.to_dict(), "initializer_range": 0.3}
    model = getattr(transformers, name)(transformers.BertConfig(**values)).eval()
    vocab = {piece: index for index, piece in enumerate(PIECES)}
    tokenizer = transformers.BertTokenizer(vocab=vocab, **settings)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer


@pytest.mark.parametrize("casing", [(True, False), (False, True)])
def test_written_folders_have_the_same_settings(transformers, tmp_path, casing):
    settings = dict(zip(("do_lower_case", "strip_accents"), casing, strict=True))
    _, theirs = save(transformers, tmp_path / "a", tokenize_chinese_chars=False, **settings)
    checkpoints.convert(str(tmp_path / "a"), str(tmp_path / "b"), "hugging_face")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "b")
    assert again(TEXTS)["input_ids"] == theirs(TEXTS)["input_ids"]
    assert again.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()
    with open(tmp_path / "b" / "tokenizer.json", encoding="utf-8") as reader:
        assert json.load(reader) == json.loads(theirs.backend_tokenizer.to_str())
    assert checkpoints.read_settings(str(tmp_path / "b"))["strip_accents"] is casing[1]


def test_find_tokenizer(tmp_path):
    path = tmp_path / "cased_L-2_H-16_A-2"
    path.mkdir()
    with pytest.raises(bert_tf.UserError, match=r"no vocab\.txt or tokenizer\.json in "):
        bert_tf.FullTokenizer.from_preset(str(path))
    (path / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    # The name of a published model includes its casing.
    tokenizer = bert_tf.FullTokenizer.from_preset(str(path))
    assert tokenizer.encode("Über") == [PIECES.index("Über")]
    pytest.importorskip("tensorflow_text")
    ops = bert_tf.GraphTokenizer.from_preset(str(path), keep_special_tokens=True)
    assert ops.tokenize(["Über [MASK]"]).to_list() == [[PIECES.index("Über"), 4]]


def test_conversion_to_the_release(transformers, tmp_path, caplog):
    save(transformers, tmp_path / "a", strip_accents=False)
    checkpoints.convert(str(tmp_path / "a"), str(tmp_path / "b"), "release")
    assert (tmp_path / "b" / "vocab.txt").read_text(encoding="utf-8").split() == PIECES
    assert "strip_accents=False" in caplog.text


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("".join(f"{text}\t{index % 2}\n" for index, text in enumerate(TEXTS)))
    return str(path)


SPEC = TASKS["classification"]


def config_of(folder, output_dir, rows=None, **options):
    task_config = SPEC.config_class(
        max_seq_length=8, task_name="tsv", train_file=rows, dev_file=rows,
        text_columns=("0",), label_column=("1",), header="no",
    )  # fmt: skip
    train = TrainConfig(train_batch_size=4, num_train_epochs=1.0)
    model = ModelConfig(**{"init_checkpoint": folder, **options})
    return FineTuneConfig(output_dir, task_config, model, train=train, do_train=True, do_eval=True)


def fine_tune(*arguments, **options):
    return bert_tf.training.fine_tune(SPEC, config_of(*arguments, **options))


def load_tokenizer(*arguments, **options):
    config = config_of(*arguments, **options)
    return fine_tuning.load_model(config, SPEC.config_class).tokenizer


@pytest.mark.slow
def test_train_export_predict(transformers, tmp_path, rows, caplog):
    pytest.importorskip("tensorflow_text")
    caplog.set_level("INFO", "bert_tf")
    folder, run = str(tmp_path / "hf"), str(tmp_path / "run")
    _, theirs = save(transformers, folder, strip_accents=False, tokenize_chinese_chars=False)
    fine_tune(folder, run, rows)
    assert f"from {folder}: bert_config_file (config.json), vocab_file (tokenizer.json), " in (
        caplog.text
    )
    assert "do_lower_case=True, strip_accents=False, tokenize_chinese_chars=False" in caplog.text
    _, config = load_config(run)
    assert config.strip_accents is False and config.max_input_chars_per_word == 100
    assert bert_tf.FullTokenizer.from_preset(run).settings == config.tokenizer_settings

    caplog.clear()
    fine_tune(folder, run, rows)  # resumes the run and reuses the features
    assert f"reusing {run}/train.tf_record" in caplog.text
    with pytest.raises(bert_tf.UserError, match=r"different strip_accents \(False, now True\)"):
        fine_tune(folder, run, rows, strip_accents=True)
    # A new run starts from the weights of this run.
    assert load_tokenizer(None, "other", model=run).settings == config.tokenizer_settings
    assert load_tokenizer(run, "other").settings == config.tokenizer_settings

    model = SPEC.make_model(config)
    checkpoints.warm_start(model, run, require_all=True)
    servable = SPEC.make_servable(model, config, bert_tf.configs.ServingConfig(warm_up=False))
    exported = bert_tf.serving.export(servable, str(tmp_path / "exported"))
    with open(f"{exported}/assets.extra/model.json", encoding="utf-8") as reader:
        assert json.load(reader)["strip_accents"] is False
    import tensorflow as tf

    signatures = tf.saved_model.load(exported).signatures
    by_text = signatures["serving_default"](text=tf.constant(TEXTS))["logits"]
    inputs = theirs(TEXTS, padding=True, return_tensors="np")
    by_ids = signatures["ids"](
        input_ids=tf.constant(inputs["input_ids"], tf.int32),
        input_mask=tf.constant(inputs["attention_mask"], tf.int32),
        segment_ids=tf.constant(inputs["token_type_ids"], tf.int32),
    )["logits"]
    np.testing.assert_allclose(by_text, by_ids, atol=1e-5)


def test_what_is_given_takes_precedence(transformers, tmp_path, caplog):
    folder = str(tmp_path / "hf")
    save(transformers, folder, do_lower_case=False, strip_accents=True)
    assert load_tokenizer(None, "run", model=folder).encode("Über") == [PIECES.index("Uber")]
    tokenizer = load_tokenizer(folder, "run", strip_accents=False)
    assert tokenizer.encode("Über") == [PIECES.index("Über")]
    assert f"`strip_accents=False` overrides True in the metadata of {folder}/tok" in caplog.text
    with pytest.raises(bert_tf.UserError, match="`model`: 'nothing' is neither a folder nor one"):
        load_tokenizer(None, "run", model="nothing")


def test_casing_of_a_release_folder(tmp_path, tiny_config, caplog):
    caplog.set_level("INFO", "bert_tf")
    folder = tmp_path / "cased_L-2_H-16_A-2"
    folder.mkdir()
    (folder / "bert_config.json").write_text(tiny_config.to_json_string())
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    tokenizer = load_tokenizer(None, "run", model=str(folder))
    assert tokenizer.encode("Über") == [PIECES.index("Über")]
    files = "bert_config_file (bert_config.json), vocab_file (vocab.txt), do_lower_case=False"
    assert f"from {folder}: {files}\n" in caplog.text
    tokenizer = load_tokenizer(str(folder / "bert_model.ckpt"), "run", do_lower_case=True)
    assert tokenizer.encode("Über") == [PIECES.index("uber")]
    assert "but `do_lower_case=True` was given" in caplog.text


def test_an_own_vocabulary_replaces_an_unsupported_tokenizer(transformers, tmp_path, caplog):
    folder = tmp_path / "hf"
    save(transformers, folder)
    values = json.loads((folder / "tokenizer_config.json").read_text())
    values["tokenizer_class"] = "BertJapaneseTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    message = 'tokenizer_config.json: tokenizer_class is "BertJapaneseTokenizer"'
    with pytest.raises(bert_tf.UserError, match=message):
        load_tokenizer(str(folder), "run")
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    load_tokenizer(str(folder), "run", vocab_file=str(vocab_file))
    assert f"{message}, which is not supported; expected BertTokenizer; " in caplog.text


def test_fields_of_other_programs_are_not_checked(tmp_path):
    config = {"id2label": {"0": 0, "1": 1}, "labels": 3, "task_type": None, "scores": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert checkpoints.read_settings(str(tmp_path)) == {"do_lower_case": False}
