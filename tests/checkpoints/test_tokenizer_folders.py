"""Folders written by current transformers, with `tokenizer.json` and without `vocab.txt`."""

import json

import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.configs import ModelConfig
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


def test_conversion_to_the_release(transformers, tmp_path, caplog):
    save(transformers, tmp_path / "a", strip_accents=False)
    checkpoints.convert(str(tmp_path / "a"), str(tmp_path / "b"), "release")
    assert (tmp_path / "b" / "vocab.txt").read_text(encoding="utf-8").split() == PIECES
    assert "strip_accents=False" in caplog.text


def test_what_is_given_takes_precedence(transformers, tmp_path, caplog):
    folder = str(tmp_path / "hf")
    save(transformers, folder, do_lower_case=False, strip_accents=True)
    tokenizer = checkpoints.resolve(ModelConfig(model=folder)).tokenizer
    assert tokenizer.encode("Über") == [PIECES.index("Uber")]
    given = ModelConfig(init_checkpoint=folder, strip_accents=False)
    assert checkpoints.resolve(given).tokenizer.encode("Über") == [PIECES.index("Über")]
    assert f"`strip_accents=False` overrides True in the metadata of {folder}/tok" in caplog.text


def test_an_own_vocabulary_replaces_an_unsupported_tokenizer(transformers, tmp_path, caplog):
    folder = tmp_path / "hf"
    save(transformers, folder)
    values = json.loads((folder / "tokenizer_config.json").read_text())
    values["tokenizer_class"] = "BertJapaneseTokenizer"
    (folder / "tokenizer_config.json").write_text(json.dumps(values))
    message = 'tokenizer_config.json: tokenizer_class is "BertJapaneseTokenizer"'
    with pytest.raises(bert_tf.UserError, match=message):
        checkpoints.resolve(ModelConfig(init_checkpoint=str(folder)))
    vocab_file = tmp_path / "vocab.txt"
    vocab_file.write_text("\n".join(PIECES) + "\n", encoding="utf-8")
    checkpoints.resolve(ModelConfig(init_checkpoint=str(folder), vocab_file=str(vocab_file)))
    assert f'{message}, which is not supported; expected "BertTokenizer"; ' in caplog.text


def test_fields_of_other_programs_are_not_checked(tmp_path):
    config = {"id2label": {"0": 0, "1": 1}, "labels": 3, "task_type": None, "scores": 1}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert checkpoints.read_settings(str(tmp_path)) == {"do_lower_case": False}
