"""Hugging Face folders, compared with `transformers` and a real pre-trained model."""

import json
import pickle

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.configs import ModelConfig
from bert_tf.modeling import (
    BertClassifier,
    BertModel,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)
from tests.common import TINY, WORDS, features
from tests.common import tiny as config
from tests.modeling.conftest import load_with_transformers, run_with_transformers

safetensors = pytest.importorskip("safetensors.numpy")


HEADS = [
    (BertPretrainer, "BertForPreTraining"),
    (BertModel, "BertModel"),
    (lambda c: BertClassifier(c, 3), "BertForSequenceClassification"),
    (BertSpanLabeler, "BertForQuestionAnswering"),
    (lambda c: BertTokenClassifier(c, 4), "BertForTokenClassification"),
]


@pytest.mark.parametrize(
    ("make", "name", "act"),
    [
        *((*head, "gelu_erf") for head in HEADS),
        # Besides the encoder, only the masked-LM head has an activation.
        (*HEADS[0], "relu"),
        pytest.param(*HEADS[0], "gelu", marks=pytest.mark.slow),
    ],
)
def test_every_head_both_ways(transformers, tmp_path, make, name, act):
    model = make(config(hidden_act=act, initializer_range=0.5))
    variables = checkpoints.weights(model)
    rng = np.random.default_rng(0)  # zeros and ones would hide unused biases and scales
    for variable in variables.values():
        variable.assign_add(rng.normal(scale=0.1, size=variable.shape).astype("float32"))
    tensors = {key: variable.numpy() for key, variable in variables.items()}
    folder = str(tmp_path / "written")
    given = name if name == "BertForTokenClassification" else None
    written = checkpoints.write_hugging_face(folder, tensors, model.config, architecture=given)
    assert written == name
    batch = {**features(), "masked_lm_positions": np.tile(np.arange(8, dtype="int32"), (3, 1))}
    outputs = {k: np.asarray(v) for k, v in model(batch).items() if not isinstance(v, list)}
    reference = load_with_transformers(transformers, folder, name)
    expected = run_with_transformers(reference, batch)
    output_names = {
        "sequence_output": "last_hidden_state", "pooled_output": "pooler_output",
        "masked_lm_logits": "prediction_logits", "next_sentence_logits": "seq_relationship_logits",
        "logits": "logits", "start_logits": "start_logits", "end_logits": "end_logits",
    }  # fmt: skip
    common = [(a, b) for a, b in output_names.items() if a in outputs and b in expected]
    for key, expected_key in common:
        np.testing.assert_allclose(
            outputs[key], expected[expected_key], atol=1e-4, rtol=0, err_msg=key
        )
    num_outputs = {"BertModel": 2, "BertForPreTraining": 2, "BertForQuestionAnswering": 2}
    assert len(common) == num_outputs.get(name, 1)

    # Folders written by transformers: one file, shards, old names.
    reference.save_pretrained(tmp_path / "single")
    reference.save_pretrained(tmp_path / "shards", max_shard_size="10KB")
    assert len(list((tmp_path / "shards").glob("*.safetensors"))) > 1
    old = tmp_path / "old"
    old.mkdir()
    arrays = safetensors.load_file(tmp_path / "single" / "model.safetensors")
    for new, past in (("Norm.weight", "Norm.gamma"), ("Norm.bias", "Norm.beta")):
        arrays = {key.replace(new, past): value for key, value in arrays.items()}
    safetensors.save_file(arrays, old / "model.safetensors")
    (old / "config.json").write_text((tmp_path / "single" / "config.json").read_text())
    for path in ("single", "shards", "old"):
        assert checkpoints.load_config(str(tmp_path / path)).hidden_act == act
        for variable in variables.values():
            variable.assign(np.zeros(variable.shape))
        # Some classes have no pooler.
        checkpoints.warm_start(model, str(tmp_path / path), require_all=True)
        for key, variable in variables.items():
            if "pooler" not in key or "pooler" in str(reference):
                np.testing.assert_array_equal(variable, tensors[key], err_msg=key)


def test_half_precision_is_read_as_float32(folder, tensors):
    import ml_dtypes

    arrays = safetensors.load_file(folder / "model.safetensors")
    for dtype in ("float16", ml_dtypes.bfloat16):
        half = {key: value.astype(dtype) for key, value in arrays.items()}
        safetensors.save_file(half, folder / "model.safetensors")
        source = checkpoints.open_checkpoint(str(folder))
        name = "bert/encoder/layer_0/output/dense/kernel"
        assert source.tensor(name).dtype == np.float32
        np.testing.assert_array_equal(
            source.tensor(name), tensors[name].astype(dtype).astype("float32")
        )


def test_hugging_face_config_round_trip():
    values = {"model_type": "bert", "vocab_size": 50, "layer_norm_eps": 1e-5}
    exact = bert_tf.BertConfig.from_dict(values)
    assert (exact.hidden_act, exact.layer_norm_eps) == ("gelu_erf", 1e-5)
    assert bert_tf.BertConfig.from_dict(exact.to_dict()) == exact
    assert bert_tf.BertConfig.from_dict(exact.to_hugging_face()) == exact
    tanh = bert_tf.BertConfig.from_dict({**values, "hidden_act": "gelu_pytorch_tanh"})
    assert tanh.hidden_act == "gelu"
    assert bert_tf.BertConfig.from_dict({"vocab_size": 50}).hidden_act == "gelu"


@pytest.fixture(scope="module")
def tensors():
    return {key: v.numpy() for key, v in checkpoints.weights(BertPretrainer(TINY)).items()}


@pytest.fixture
def folder(tensors, tmp_path):
    path = tmp_path / "folder"
    checkpoints.write_hugging_face(str(path), tensors, TINY)
    return path


def test_broken_folders(folder, tmp_path):
    weights = folder / "model.safetensors"
    index = folder / "model.safetensors.index.json"
    whole, arrays = weights.read_bytes(), safetensors.load_file(weights)
    decoder = {"cls.predictions.decoder.weight": np.zeros((50, 16), "float32")}
    one_layer = {key: value for key, value in arrays.items() if "layer.1.output" not in key}
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps("never loaded"))
    model = BertPretrainer(TINY)
    for path, content, message in (
        (weights, whole[: len(whole) // 2], "safetensors"),
        (weights, safetensors.save({f"x.{x}": y for x, y in arrays.items()}), " x."),
        (weights, safetensors.save(one_layer), "lacks bert/encoder/layer_1/output/dense/kernel"),
        (weights, safetensors.save({**arrays, **decoder}),
         "decoder.weight .*bert.embeddings.word_embeddings.weight"),
        (index, b'{"weight_map": {"a": "one.safetensors"}}', "one.safetensors .*missing"),
        (index, b'{"weight_map": {"a": "../one.safetensors"}}', "outside the folder"),
        (folder / "other", b"", "save_pretrained"),
    ):  # fmt: skip
        for file in (weights, index):
            file.unlink(missing_ok=True)
        path.write_bytes(content)
        with pytest.raises(bert_tf.UserError, match=message):
            checkpoints.warm_start(model, str(folder))
    weights.write_bytes(whole)
    (folder / "config.json").unlink()
    with pytest.raises(bert_tf.UserError, match="`bert_config_file`"):
        checkpoints.convert(str(folder), str(tmp_path / "out"), "release")


def test_casing_and_architecture_are_kept(folder, tmp_path):
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    checkpoints.convert(str(folder), str(tmp_path / "a"), "hugging_face")
    assert '"do_lower_case": false' not in (tmp_path / "a" / "config.json").read_text()
    with pytest.raises(bert_tf.UserError, match=r"`do_lower_case=True`: expected False"):
        checkpoints.convert(str(folder), str(tmp_path / "b"), "hugging_face", do_lower_case=True)

    tagger = {n: v.numpy() for n, v in checkpoints.weights(BertTokenClassifier(TINY, 3)).items()}
    architecture = "BertForTokenClassification"
    checkpoints.write_hugging_face(str(tmp_path / "t"), tagger, TINY, architecture=architecture)
    checkpoints.convert(str(tmp_path / "t"), str(tmp_path / "t2"), "hugging_face")
    written = json.loads((tmp_path / "t2" / "config.json").read_text())
    assert written["architectures"] == [architecture]


def test_config_next_to_the_weights_differs(folder, caplog):
    with pytest.raises(bert_tf.UserError, match=r"num_attention_heads=2, expected 4"):
        checkpoints.warm_start(BertPretrainer(config(num_attention_heads=4)), str(folder))
    checkpoints.warm_start(BertPretrainer(config(hidden_act="gelu_erf")), str(folder))
    assert "hidden_act=gelu, expected gelu_erf" in caplog.text


# Folders written by current transformers, with `tokenizer.json` and without `vocab.txt`.


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
def test_written_folders_have_the_same_settings(transformers, tmp_path, caplog, casing):
    settings = dict(zip(("do_lower_case", "strip_accents"), casing, strict=True))
    _, theirs = save(transformers, tmp_path / "a", tokenize_chinese_chars=False, **settings)
    checkpoints.convert(str(tmp_path / "a"), str(tmp_path / "b"), "hugging_face")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "b")
    assert again(TEXTS)["input_ids"] == theirs(TEXTS)["input_ids"]
    assert again.backend_tokenizer.to_str() == theirs.backend_tokenizer.to_str()
    with open(tmp_path / "b" / "tokenizer.json", encoding="utf-8") as reader:
        assert json.load(reader) == json.loads(theirs.backend_tokenizer.to_str())
    assert checkpoints.read_settings(str(tmp_path / "b"))["strip_accents"] is casing[1]
    checkpoints.convert(str(tmp_path / "a"), str(tmp_path / "c"), "release")
    assert (tmp_path / "c" / "vocab.txt").read_text(encoding="utf-8").split() == PIECES
    assert ("do not support strip_accents=False" in caplog.text) == casing[0]


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
