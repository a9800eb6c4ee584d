"""Hugging Face folders, compared with `transformers` and a real pre-trained model."""

import json
import pickle

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import (
    BertClassifier,
    BertModel,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)
from tests.common import TINY, features
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
        *(
            pytest.param(*head, act, marks=pytest.mark.slow)
            for head in HEADS[1:]
            for act in ("gelu", "relu")
        ),
    ],
)
def test_every_head_both_ways(transformers, tmp_path, make, name, act):
    model = make(config(hidden_act=act, initializer_range=0.5))
    tensors = {key: v.numpy() for key, v in checkpoints.weights(model).items()}
    rng = np.random.default_rng(0)  # zeros and ones would hide unused biases and scales
    tensors = {k: v + 0.1 * rng.normal(size=v.shape).astype("float32") for k, v in tensors.items()}
    for key, variable in checkpoints.weights(model).items():
        variable.assign(tensors[key])
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
    for new, past in (("weight", "gamma"), ("bias", "beta")):
        new, past = f"LayerNorm.{new}", f"LayerNorm.{past}"
        arrays = {key.replace(new, past): value for key, value in arrays.items()}
    safetensors.save_file(arrays, old / "model.safetensors")
    (old / "config.json").write_text((tmp_path / "single" / "config.json").read_text())
    variables = checkpoints.weights(model)
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
        (weights, b"some text", "safetensors"),
        (weights, safetensors.save({f"x.{x}": y for x, y in arrays.items()}), " x."),
        (weights, safetensors.save(one_layer), "lacks bert/encoder/layer_1/output/dense/kernel"),
        (weights, safetensors.save({**arrays, **decoder}),
         "decoder.weight .*bert.embeddings.word_embeddings.weight"),
        (index, b'{"weight_map": {"a": "one.safetensors"}}', "one.safetensors .*missing"),
        (index, b'{"weight_map": {"a": "../one.safetensors"}}', "outside the folder"),
        (index, b"{", "index.json, line 1"),
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
