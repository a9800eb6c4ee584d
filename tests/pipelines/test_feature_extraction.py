"""Token vectors equal the model's outputs; attention equals transformers'."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.configs.model import LAYER_COMBINATIONS
from bert_tf.data import batching, records
from bert_tf.tasks.token_vectors.task import TextVectors, array_writer, json_line
from bert_tf.training import prediction
from bert_tf.training.tensorflow_engine import TensorFlowEngine
from tests.pipelines.conftest import model_outputs
from tests.pipelines.pipeline_texts import LINES, TOKENS, encode
from tests.training.training_helpers import mirrored


def vectors(folder, **options):
    return bert_tf.TokenVectors.from_preset(str(folder), **{"max_seq_length": 12, **options})


def test_script_writes_the_format_of_the_release(run_script, model_folder, outputs, tmp_path):
    log = run_script(
        "extract_features", f"--input_file={model_folder}/texts.txt", "--layers=-1,0,-2",
        f"--bert_config_file={model_folder}/bert_config.json",
        f"--init_checkpoint={model_folder}/bert_model.ckpt",
        f"--vocab_file={model_folder}/vocab.txt", f"--output_file={tmp_path}/out.jsonl",
        "--max_seq_length=12", "--do_lower_case", "--batch_size=2", "--nouse_one_hot_embeddings",
    )  # fmt: skip
    assert "input: 1 of 6 texts (16.7%) have more than 12 tokens and are truncated, " in log
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    for i, (line, tokens) in enumerate(zip(lines, TOKENS, strict=True)):
        result = json.loads(line)
        assert list(result) == ["linex_index", "features"]
        assert result["linex_index"] == i
        assert [token["token"] for token in result["features"]] == tokens
        for position, token in enumerate(result["features"]):
            assert list(token) == ["token", "layers"]
            assert [layer["index"] for layer in token["layers"]] == [-1, 0, -2]
            for layer in token["layers"]:
                assert list(layer) == ["index", "values"]
                assert layer["values"] == [round(x, 6) for x in layer["values"]]
                expected = outputs[i][0][layer["index"]][position]
                np.testing.assert_allclose(layer["values"], expected, atol=1e-5, rtol=0)


WEIGHTS = [0.5, 0.25, 1.0, 2.0, 0.75]


@pytest.mark.parametrize("is_weighted", [pytest.param(False, marks=pytest.mark.slow), True])
def test_layer_combinations(deep_model_folder, is_weighted):
    def weighted_sum(layers):
        weights = WEIGHTS[: len(layers)] if is_weighted else [1 / len(layers)] * len(layers)
        return np.einsum("l,lth->th", weights, np.array(layers))

    expected = {
        "embeddings": lambda layers, embeddings: embeddings,
        "second_to_last": lambda layers, _: layers[-2],
        "last": lambda layers, _: layers[-1],
        "concat_last_four": lambda layers, _: np.concatenate(layers[-4:], -1),
        "weighted_sum_last_four": lambda layers, _: weighted_sum(layers[-4:]),
        "weighted_sum_all": lambda layers, _: weighted_sum(layers),
    }
    assert set(expected) == set(LAYER_COMBINATIONS)
    deep_outputs = model_outputs(deep_model_folder)[:2]
    for name in LAYER_COMBINATIONS:
        weights = None
        if is_weighted:
            if not name.startswith("weighted"):
                continue
            weights = WEIGHTS[: 4 if "four" in name else 5]
        pipeline = vectors(deep_model_folder, layer_combination=name, layer_weights=weights)
        for text, outputs in zip(pipeline.predict(LINES[:2]), deep_outputs, strict=True):
            assert text.layers == [name]
            np.testing.assert_allclose(text.values[:, 0], expected[name](*outputs), atol=2e-5)


def test_words(model_folder, outputs, caplog):
    for pooling in ("first", "mean"):
        texts = vectors(model_folder, words=pooling).predict(LINES, 4)
        assert texts[2].tokens == ["d", "|||", "e", "f", "g"]
        assert texts[1].values.shape == (0, 1, 16)
        assert texts[4].tokens == list("abcdefghij")  # "a b" is truncated
        jab = outputs[3][0][-1][1:4]
        expected = jab[0] if pooling == "first" else jab.mean(0)
        np.testing.assert_allclose(texts[3].values[0, 0], expected, atol=1e-5)
        np.testing.assert_allclose(texts[0].values[2, 0], outputs[0][0][-1][4], atol=1e-5)
    text = vectors(model_folder, words="first").predict("a \u200b b")
    assert text.tokens == ["a", "b"]
    assert "1 words without tokens" in caplog.text


def test_strategies_agree_and_order_is_kept(model_folder, monkeypatch):
    rng = np.random.default_rng(0)
    lines = [" ".join(rng.choice(list("abcdefghij"), rng.integers(0, 10))) for _ in range(75)]
    expected = vectors(model_folder).predict(lines, 4)
    assert [x.tokens for x in expected] == [["[CLS]", *x.split(), "[SEP]"] for x in lines]
    with mirrored(2).scope():
        on_two = vectors(model_folder)
    # Several windows, each sorted by length.
    monkeypatch.setattr(prediction, "_MAX_WINDOW_BATCHES", 4)
    for a, b in zip(expected, on_two.predict(lines, 3), strict=True):
        assert a.tokens == b.tokens
        np.testing.assert_allclose(a.values, b.values, atol=1e-5)


def test_input_is_streamed_and_its_errors_are_passed_on(model_folder):
    num_read = 0

    def texts():
        nonlocal num_read
        for i in itertools.count():
            num_read += 1
            if i == 1000:
                raise bert_tf.UserError("line 1000")
            yield "a b"

    stream = vectors(model_folder).stream(texts(), 4)
    next(stream)
    assert num_read <= 500
    with pytest.raises(bert_tf.UserError, match=r"^line 1000$"):
        list(stream)


def test_attention_equals_transformers(transformers, model_folder, tmp_path):
    import torch

    checkpoints.convert(str(model_folder), str(tmp_path / "model"), "hugging_face")
    model = transformers.BertModel.from_pretrained(tmp_path / "model", attn_implementation="eager")
    attention = bert_tf.BertModel.from_preset(str(model_folder), with_attention_probs=True)
    for tokens in TOKENS:
        ids, segment_ids = encode(tokens)
        inputs = {"input_ids": np.array([ids]), "segment_ids": np.array([segment_ids])}
        probabilities = [x.numpy() for x in attention(inputs)["attention_probs"]]
        options = {"token_type_ids": torch.tensor([segment_ids]), "output_attentions": True}
        with torch.no_grad():
            expected = model(torch.tensor([ids]), **options).attentions
        expected = [x.numpy() for x in expected]
        np.testing.assert_allclose(probabilities, expected, atol=1e-5, rtol=0)


@pytest.mark.slow
def test_a_tagger_learns_on_features(run_script, deep_model_folder, tmp_path, capsys):
    sentences = "a O\nb B-X\nc O\n\nb B-X\nj O\n\n"
    (tmp_path / "train.txt").write_text(sentences * 200)
    (tmp_path / "dev.txt").write_text(sentences)
    run_script(
        "-m examples.ner_features", f"--data_dir={tmp_path}", f"--model={deep_model_folder}",
        "--combinations=weighted_sum_all", "--units=32", "--epochs=10",
    )  # fmt: skip
    assert "F1 100.0%, precision 100.0%, recall 100.0%" in capsys.readouterr().out


def test_numbers_are_rounded_as_by_python():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(50, 1, 200)).astype("float32")
    values[0, 0] = np.arange(200) / 128  # ties
    values[1, 0] = -np.arange(200) / 2**20
    values[2, 0] *= 1e-6
    line = json_line(0, TextVectors(["a"] * 50, [-1], values))
    for token, row in zip(json.loads(line)["features"], values, strict=True):
        assert token["layers"][0]["values"] == [round(float(x), 6) for x in row[0]]


def test_an_array_with_missing_rows_is_an_error(tmp_path):
    path = tmp_path / "new"
    with (
        pytest.raises(bert_tf.UserError, match=f"{path}: found 2 rows, expected 3"),
        array_writer(str(path), 3, 4) as write,
    ):
        write(np.zeros(4))
        write(np.zeros(4))
    assert not list(tmp_path.iterdir())


def test_short_rows_form_larger_batches():
    sizes = [(0, x) for x in (6, 1, 1, 1, 2, 3, 9)]
    batches = batching.batches_by_tokens([*sizes, (1, 1)], 6, 2, 4)
    assert list(batches) == [[1, 2, 3], [4, 5], [0, 6], [7]]


@pytest.mark.parametrize(
    ("multiple", "traced", "size", "shape"),
    [(8, (None, None), 8, (1, 8)), (None, (4, 12), 12, (4, 12))],
)
def test_batches_are_as_small_as_possible(monkeypatch, multiple, traced, size, shape):
    """On TPU all batches have one static shape; elsewhere a single text is a batch of one."""
    schema = {name: records.PRETRAINING[name] for name in ("input_ids", "input_mask")}
    shapes = []

    def model(batch, **_):
        shapes.append(tuple(batch["input_ids"].shape))
        return batch["input_ids"]

    engine = TensorFlowEngine(tf.distribute.get_strategy())
    monkeypatch.setattr(engine, "length_multiple", lambda *_: multiple)
    runner = prediction.BatchRunner(lambda ids, _: {"ids": ids}, model, engine, schema, {"S": 12})
    rows = [np.array([2, *[5] * i, 3]) for i in range(6)]
    features = [{"input_ids": ids, "input_mask": np.ones_like(ids)} for ids in rows]
    results = list(runner.run(enumerate(features), 4, "counting"))
    assert [item for item, _ in results] == list(range(6))
    padded = [[*ids, *[0] * (size - len(ids))] for ids in rows]
    assert [values["ids"].tolist() for _, values in results] == padded
    assert set(shapes) == {traced}
    assert runner._make_batch(features[:1], 4)["input_ids"].shape == shape
