"""Predictions for [MASK], compared with transformers."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertModel
from tests.common import TINY, WORDS, write_hugging_face
from tests.pipelines.conftest import run_pipeline_test
from tests.pipelines.pipeline_texts import encode

TEXTS = ["a [MASK] c", "[MASK] b ||| d [MASK] [MASK]", "j", "", "b a c"]


@pytest.fixture(scope="module")
def hugging_face_folder(model_folder, tmp_path_factory):
    """A Hugging Face folder of the model, without the next-sentence head."""
    source = checkpoints.open_checkpoint(str(model_folder))
    tensors = {name: source.tensor(name) for name in source.shapes if "relationship" not in name}
    path = str(tmp_path_factory.mktemp("hugging_face") / "masked_lm")
    config = checkpoints.load_config(str(model_folder))
    vocab_file = str(model_folder / "vocab.txt")
    architecture = checkpoints.write_hugging_face(path, tensors, config, vocab_file)
    assert architecture == "BertForMaskedLM"
    return path


@pytest.fixture(scope="module")
def pipeline(hugging_face_folder):
    return bert_tf.FillMask.from_preset(hugging_face_folder, num_best=3, max_seq_length=12)


def assert_best_equal(results, expected):
    """Compare the best words of the masks of two texts."""
    for best, expected_best in zip(results, expected, strict=True):
        assert [x["token_str"] for x in best] == [x["token_str"] for x in expected_best]
        scores = ([x["score"] for x in words] for words in (best, expected_best))
        np.testing.assert_allclose(*scores, atol=1e-5)


def test_predict_equals_the_pipeline_of_transformers(transformers, hugging_face_folder, pipeline):
    peer = transformers.pipeline("fill-mask", hugging_face_folder, device="cpu")
    texts = ["a [MASK] c", "[MASK] b d [MASK]"]
    for options in ({"top_k": 4}, {"targets": ["d", "f", "a"]}, {"targets": "e", "top_k": 2}):
        results = pipeline.predict(texts[:1], **options) + pipeline.predict(texts[1], **options)
        expected = [peer(texts[0], **options), *peer(texts[1], **options)]
        assert_best_equal(results, expected)
    assert (len(pipeline.predict(texts[0])), pipeline.predict("j")) == (3, [])
    for name, value in (("targets", ["d", "a b"]), ("targets", "xyz")):
        with pytest.raises(bert_tf.UserError, match=f"`{name}"):
            pipeline.predict(texts, **{name: value})


def test_predictions_are_those_of_the_model(pipeline):
    """A text with many masks has several records: only a few positions have all words in memory."""
    texts = [*TEXTS, *(" ".join(["[MASK]"] * n) for n in (9, 1, 10, 8))]
    for text, result in zip(texts, pipeline.stream(texts, 4), strict=True):
        assert result.tokens == ["[CLS]", *text.replace("|||", "[SEP]").split(), "[SEP]"]
        assert result.positions == [i for i, x in enumerate(result.tokens) if x == "[MASK]"]
        inputs = dict(zip(("input_ids", "segment_ids"), encode(result.tokens), strict=True))
        inputs["masked_lm_positions"] = result.positions
        outputs = pipeline.model({name: np.int32([x]) for name, x in inputs.items()})
        probabilities = tf.nn.softmax(outputs["masked_lm_logits"][0]).numpy()
        expected = [
            [{"token_str": WORDS[i], "score": row[i]} for i in np.argsort(-row)[:3]]
            for row in probabilities
        ]
        assert_best_equal(result.best, expected)


def test_command(run_script, model_folder, pipeline, tmp_path, monkeypatch, capsys):
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    log = run_script(
        "bert-tf fill-mask", f"--init_checkpoint={model_folder}", f"--input_file={tmp_path}/in.txt",
        f"--output_file={tmp_path}/out.jsonl", "--max_seq_length=12", "--num_best=3",
        "--batch_size=2",
    )  # fmt: skip
    assert "3 texts contain no [MASK]" in log
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["linex_index"] for line in lines] == list(range(5))
    for line, result in zip(lines, pipeline.stream(TEXTS), strict=True):
        assert (line["tokens"], line["positions"]) == (result.tokens, result.positions)
        assert_best_equal(line["best"], result.best)
    with open(tmp_path / "in.txt") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        run_script("bert-tf fill-mask", f"--init_checkpoint={model_folder}", "--max_seq_length=12")
    assert capsys.readouterr().out.count("\n  token ") == 4


def test_a_model_without_masked_lm_head_is_an_error(tmp_path):
    path = write_hugging_face(tmp_path / "hf", BertModel(TINY), [*WORDS, *"klmnopq"])
    with pytest.raises(bert_tf.UserError, match=f"`preset`: .*cls/predictions/.* {path}"):
        bert_tf.FillMask.from_preset(path, max_seq_length=12)


@pytest.mark.slow
def test_preset_and_export(pipeline, tmp_path):
    def served(answer):
        best = answer["best"]
        return best[0] if len(best) == 1 else best

    texts = {"text": [text for text in TEXTS if "|||" not in text]}
    run_pipeline_test(pipeline, texts, tmp_path, served=served, num_best=3, max_seq_length=12)
