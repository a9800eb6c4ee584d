"""Predictions for [MASK], compared with transformers."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertModel
from bert_tf.tasks.fill_mask import pipeline as fill_mask
from tests.common import WORDS, write_vocab
from tests.modeling.conftest import load_with_transformers
from tests.modeling.test_accelerators import unfit
from tests.pipelines.conftest import run_pipeline_test
from tests.pipelines.pipeline_texts import encode
from tests.training.training_helpers import mirrored

TEXTS = ["a [MASK] c", "[MASK] b ||| d [MASK] [MASK]", "j", "", "b a c"]
TOKENS = [["[CLS]", *text.replace("|||", "[SEP]").split(), "[SEP]"] for text in TEXTS]


@pytest.fixture(scope="module")
def hugging_face_folder(model_folder, tmp_path_factory):
    """A Hugging Face folder of the model, without the next-sentence head."""
    source = checkpoints.open_checkpoint(str(model_folder))
    tensors = {name: source.tensor(name) for name in source.shapes if "relationship" not in name}
    path = str(tmp_path_factory.mktemp("hugging_face") / "masked_lm")
    config = checkpoints.load_config(str(model_folder))
    architecture = checkpoints.write_hugging_face(
        path, tensors, config, str(model_folder / "vocab.txt")
    )
    assert architecture == "BertForMaskedLM"
    return path


@pytest.fixture(scope="module")
def pipeline(hugging_face_folder):
    return bert_tf.FillMask.from_preset(
        hugging_face_folder, num_best=3, batch_size=4, max_seq_length=12
    )


def log_probabilities(model, tokens):
    """Return the log-probability of each word at each position, from transformers."""
    import torch

    ids, segment_ids = encode(tokens)
    with torch.no_grad():
        outputs = model(torch.tensor([ids]), token_type_ids=torch.tensor([segment_ids]))
    return torch.log_softmax(outputs.logits[0], -1).numpy()


def assert_best_equal(results, expected):
    """Compare two texts' lists of (token, probability)."""
    for best, expected_best in zip(results, expected, strict=True):
        assert [token for token, _ in best] == [token for token, _ in expected_best]
        np.testing.assert_allclose([x for _, x in best], [x for _, x in expected_best], atol=1e-5)


def test_equals_transformers(transformers, hugging_face_folder, pipeline):
    model = load_with_transformers(transformers, hugging_face_folder, "BertForMaskedLM")
    results = list(pipeline.predict(TEXTS))
    assert [result.text.index for result in results] == list(range(5))
    for result, tokens in zip(results, TOKENS, strict=True):
        assert result.tokens == tokens
        assert result.positions == [i for i, x in enumerate(tokens) if x == "[MASK]"]
        probabilities = np.exp(log_probabilities(model, tokens))
        expected = [
            [(WORDS[i], probabilities[position][i]) for i in np.argsort(-probabilities[position])]
            for position in result.positions
        ]
        assert_best_equal(result.best, [best[:3] for best in expected])


def test_probabilities_are_computed_in_chunks(pipeline, monkeypatch):
    """Only one chunk of positions has the probabilities of all words in memory."""
    texts = [" ".join(["[MASK]"] * n) for n in (9, 1, 10, 3)]
    expected = list(pipeline.predict(texts))
    monkeypatch.setattr(fill_mask, "_CHUNK_SIZE", 4)
    shapes = []
    head = type(pipeline.model.get_layer("masked_lm"))
    call = head.call

    def recorded_call(self, sequence_output, masked_lm_positions=None, training=False):
        shapes.append(tuple(sequence_output.shape[:2]))
        return call(self, sequence_output, masked_lm_positions, training)

    monkeypatch.setattr(head, "call", recorded_call)
    chunked = bert_tf.FillMask(
        pipeline.model, pipeline.tokenizer, 3, batch_size=4, max_seq_length=12
    )
    for a, b, n in zip(expected, chunked.predict(texts), (9, 1, 10, 3), strict=True):
        assert a.positions == b.positions == list(range(1, 1 + n))
        assert_best_equal(b.best, a.best)
    assert shapes == [(1, 4)]


@pytest.mark.slow
def test_fit_for_a_tpu(pipeline):
    """All shapes are static and XLA supports all operations; see test_accelerators.py."""
    shapes = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), (4, 12))
    shapes |= {"positions": (4, 2)}
    batch = {name: tf.ones(shape, tf.int32) for name, shape in shapes.items()}
    traced = tf.function(pipeline._compute_best).get_concrete_function(batch)
    num_nodes, problems = unfit(traced.graph.as_graph_def(add_shapes=True))
    assert num_nodes > 200
    assert not problems
    assert tf.function(pipeline._compute_best, jit_compile=True)(batch)


@pytest.mark.slow
def test_strategies_agree(pipeline, hugging_face_folder):
    on_two = bert_tf.FillMask.from_preset(
        hugging_face_folder, strategy=mirrored(2), num_best=3, batch_size=4, max_seq_length=12
    )
    for expected, result in zip(pipeline.predict(TEXTS), on_two.predict(TEXTS), strict=True):
        assert result[:3] == expected[:3]
        assert_best_equal(result.best, expected.best)


def test_command(run_script, model_folder, pipeline, tmp_path):
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    log = run_script(
        "bert-tf fill-mask",
        f"--init_checkpoint={model_folder}",
        f"--input_file={tmp_path}/in.txt",
        f"--output_file={tmp_path}/out.jsonl",
        "--max_seq_length=12",
        "--num_best=3",
        "--batch_size=2",
    )
    assert "3 texts contain no [MASK]" in log
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for line, result in zip(lines, pipeline.predict(TEXTS), strict=True):
        assert (line["linex_index"], line["tokens"]) == (result.text.index, result.tokens)
        assert [masked["position"] for masked in line["masked"]] == result.positions
        best = [[(x["token"], x["probability"]) for x in y["best"]] for y in line["masked"]]
        assert_best_equal(best, result.best)


def test_command_reads_standard_input(run_script, model_folder, tmp_path, monkeypatch, capsys):
    flags = [f"--init_checkpoint={model_folder}", "--max_seq_length=12"]
    (tmp_path / "in.txt").write_text("a [MASK]\nb ||| [MASK]\n")
    run_script("bert-tf fill-mask", *flags, f"--input_file={tmp_path}/in.txt")
    expected = capsys.readouterr().out
    assert expected
    with open(tmp_path / "in.txt") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        run_script("bert-tf fill-mask", *flags)
    assert capsys.readouterr().out == expected
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(bert_tf.UserError, match=r"--text or --input_file .* input is closed"):
        run_script("bert-tf fill-mask", *flags)


def test_a_model_without_masked_lm_head_is_an_error(tiny_config, tmp_path):
    tensors = {name: v.numpy() for name, v in checkpoints.weights(BertModel(tiny_config)).items()}
    path = str(tmp_path / "encoder")
    vocab_file = str(write_vocab(tmp_path, [*WORDS, *"klmnopq"]))
    checkpoints.write_hugging_face(path, tensors, tiny_config, vocab_file)
    with pytest.raises(bert_tf.UserError, match=f"`init_checkpoint`: .*cls/predictions/.* {path}"):
        bert_tf.FillMask.from_preset(path, max_seq_length=12)


@pytest.mark.slow
def test_preset_and_export(pipeline, tmp_path):

    def assert_same(results, expected):
        for result, other in zip(results, expected, strict=True):
            assert result.tokens == other.tokens
            assert_best_equal(result.best, other.best)

    def assert_served(answers, expected):
        for answer, result in zip(answers, expected, strict=True):
            assert answer["words"] == [[token for token, _ in best] for best in result.best]

    texts = {"text": [text for text in TEXTS if "|||" not in text]}
    checks = {"assert_same": assert_same, "assert_served": assert_served}
    run_pipeline_test(pipeline, texts, tmp_path, num_best=3, max_seq_length=12, **checks)
