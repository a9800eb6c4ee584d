"""Guesses of masked words and pseudo-perplexity, beside `transformers`."""

import json
import math
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from test_hugging_face import theirs, transformers  # noqa: F401
from test_modeling import TINY
from test_token_vectors import WORDS, folder  # noqa: F401
from test_tpu import unfit

import bert_tf
from bert_tf import checkpoints
from bert_tf.modeling import BertModel, BertPretrainer
from bert_tf.pipelines import fill_mask as masked_words

TEXTS = ["a [MASK] c", "[MASK] b ||| d [MASK] [MASK]", "j", "", "b a c"]
TOKENS = ["a [MASK] c", "[MASK] b [SEP] d [MASK] [MASK]", "j", "", "b a c"]


@pytest.fixture(scope="module")
def hugging_face(folder):  # noqa: F811
    """The same weights as a Hugging Face folder, without the head for the next sentence."""
    source = checkpoints.open_checkpoint(str(folder))
    tensors = {name: source.tensor(name) for name in source.shapes if "relationship" not in name}
    path = str(folder / "masked_lm")
    config = checkpoints.load_config(str(folder))
    kind = checkpoints.write_hugging_face(path, tensors, config, str(folder / "vocab.txt"))
    assert kind == "BertForMaskedLM"
    return path


@pytest.fixture(scope="module")
def words(hugging_face):
    return bert_tf.FillMask.from_preset(hugging_face, num_best=3, batch_size=4, max_seq_length=12)


def log_probabilities(model, tokens):
    """Of every word at every place, by transformers."""
    import torch

    ids = [WORDS.index(token) for token in ["[CLS]", *tokens, "[SEP]"]]
    first = ids.index(3) + 1
    segments = [0] * first + [1] * (len(ids) - first)
    with torch.no_grad():
        logits = model(torch.tensor([ids]), token_type_ids=torch.tensor([segments])).logits[0]
    return torch.log_softmax(logits, -1).numpy()


def test_equals_transformers(transformers, hugging_face, words):  # noqa: F811
    model = theirs(transformers, hugging_face, "BertForMaskedLM")
    all_found = list(words.guess(TEXTS))
    assert [found.text.index for found in all_found] == list(range(5))
    for found, tokens in zip(all_found, TOKENS, strict=True):
        assert found.tokens == ["[CLS]", *tokens.split(), "[SEP]"]
        assert found.places == [i for i, x in enumerate(found.tokens) if x == "[MASK]"]
        expected = np.exp(log_probabilities(model, tokens.split()))
        assert len(found.best) == len(found.places)
        for place, best in zip(found.places, found.best, strict=True):
            order = np.argsort(-expected[place])[:3]
            assert [word for word, _ in best] == [WORDS[i] for i in order]
            np.testing.assert_allclose([x for _, x in best], expected[place][order], atol=1e-5)

    scores = list(words.score(["", "b a c", "j ||| a b", ""]))
    tokens = [[], ["b", "a", "c"], ["j", "[SEP]", "a", "b"], []]
    for score, sentence in zip(scores, tokens, strict=True):
        total = 0.0
        for i, token in enumerate(sentence):
            if token != "[SEP]":
                masked = [*sentence[:i], "[MASK]", *sentence[i + 1 :]]
                total += log_probabilities(model, masked)[i + 1][WORDS.index(token)]
        assert score.num_tokens == len(sentence) - sentence.count("[SEP]")
        assert score.log_probability == pytest.approx(total, abs=1e-4)
        if score.num_tokens:
            assert score.perplexity == pytest.approx(math.exp(-total / score.num_tokens), rel=1e-4)
        else:
            assert math.isnan(score.perplexity)


def test_a_text_full_of_masks_is_looked_at_in_pieces(words, monkeypatch):
    """Of the probabilities of all words only those of a few places are there at a time."""
    texts = [" ".join(["[MASK]"] * n) for n in (9, 1, 10, 3)]
    expected = list(words.guess(texts))
    monkeypatch.setattr(masked_words, "_PIECE", 4)
    seen = []
    head = type(words.model.get_layer("masked_lm"))
    call = head.call

    def counted(self, sequence_output, masked_lm_positions):
        seen.append(tuple(masked_lm_positions.shape))
        return call(self, sequence_output, masked_lm_positions)

    monkeypatch.setattr(head, "call", counted)
    again = bert_tf.FillMask(words.model, words.tokenizer, 3, batch_size=4, max_seq_length=12)
    for a, b in zip(expected, again.guess(texts), strict=True):
        assert a.places == b.places == list(range(1, 1 + len(a.places)))
        for best, other in zip(a.best, b.best, strict=True):
            assert [word for word, _ in best] == [word for word, _ in other]
            np.testing.assert_allclose([x for _, x in best], [x for _, x in other], atol=1e-5)
    assert seen == [(1, 4)]


def test_a_mask_in_a_text_is_not_scored(words, caplog):
    plain, with_mask = words.score(["b a", "b [MASK] a [MASK]"])
    assert (plain.num_tokens, with_mask.num_tokens) == (2, 2)
    assert plain.log_probability != pytest.approx(with_mask.log_probability, abs=1e-3)
    assert "2 [MASK] stood in the texts, they are not scored" in caplog.text


def test_it_is_fit_for_a_tpu(words):
    """Static shapes all through, and operations that its compiler knows; see test_tpu.py."""
    shapes = dict.fromkeys(("input_ids", "input_mask", "segment_ids"), (4, 12))
    shapes |= {"places": (4, 2), "masked_ids": (4, 2)}
    batch = {name: tf.ones(shape, tf.int32) for name, shape in shapes.items()}
    for function in (words._best, words._likelihood):
        traced = tf.function(function).get_concrete_function(batch)
        count, found = unfit(traced.graph.as_graph_def(add_shapes=True))
        assert count > 200
        assert not found
    assert tf.function(words._best, jit_compile=True)(batch)


def test_strategies_agree(hugging_face, words):
    reduction = tf.distribute.ReductionToOneDevice()
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=reduction)
    other = bert_tf.FillMask.from_preset(
        hugging_face, strategy=strategy, num_best=3, batch_size=4, max_seq_length=12
    )
    for expected, found in zip(words.guess(TEXTS), other.guess(TEXTS), strict=True):
        assert found[:3] == expected[:3]
        for best, other_best in zip(expected.best, found.best, strict=True):
            assert [word for word, _ in best] == [word for word, _ in other_best]
    for expected, found in zip(words.score(TEXTS), other.score(TEXTS), strict=True):
        assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)


def test_script(root, folder, words, tmp_path):  # noqa: F811
    (tmp_path / "in.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    command = [
        sys.executable,
        "-m",
        "bert_tf",
        "fill-mask",
        f"--init_checkpoint={folder}",
        f"--input_file={tmp_path}/in.txt",
        "--max_seq_length=12",
        "--num_best=3",
        "--batch_size=2",
    ]
    done = subprocess.run(
        [*command, f"--output_file={tmp_path}/out.jsonl"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "3 texts have no [MASK] in them" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    for line, found in zip(lines, words.guess(TEXTS), strict=True):
        assert (line["linex_index"], line["tokens"]) == (found.text.index, found.tokens)
        assert [masked["position"] for masked in line["masked"]] == found.places
        for masked, best in zip(line["masked"], found.best, strict=True):
            assert [x["token"] for x in masked["best"]] == [token for token, _ in best]
            found_probabilities = [x["probability"] for x in masked["best"]]
            np.testing.assert_allclose(found_probabilities, [x for _, x in best], atol=1e-5)


def test_a_model_that_has_learnt_an_alphabet_knows_it(folder):  # noqa: F811
    """Trained to fill one gap in texts of five letters in their order."""
    model = BertPretrainer(TINY)
    optimizer = keras.optimizers.Adam(1e-2)
    first = WORDS.index("a")

    @tf.function
    def step():
        starts = tf.random.uniform((32, 1), 0, 6, tf.int32) + first
        letters = starts + tf.range(5)
        places = tf.random.uniform((32, 1), 0, 5, tf.int32)
        masked = tf.where(tf.range(5) == places, WORDS.index("[MASK]"), letters)
        ends = [tf.fill((32, 1), WORDS.index(end)) for end in ("[CLS]", "[SEP]")]
        ids = tf.concat([ends[0], masked, ends[1]], 1)
        batch = {"input_ids": ids, "input_mask": ids * 0 + 1, "segment_ids": ids * 0}
        batch["masked_lm_positions"] = places + 1
        wanted = tf.gather(letters, places, batch_dims=1)
        with tf.GradientTape() as tape:
            logits = model(batch, training=False)["masked_lm_logits"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(wanted, logits)
            loss = tf.reduce_mean(losses)
        variables = [v for name, v in checkpoints.weights(model).items() if "relation" not in name]
        variables = [v for v in variables if "pooler" not in v.path]
        gradients = map(tf.convert_to_tensor, tape.gradient(loss, variables))
        optimizer.apply_gradients(zip(gradients, variables, strict=True))
        return loss

    for _ in range(400):
        loss = step()
    assert loss < 0.2
    tokenizer = bert_tf.FullTokenizer(str(folder / "vocab.txt"), keep_special_tokens=True)
    words = bert_tf.FillMask(model, tokenizer, 2, batch_size=4, max_seq_length=12)
    for text, letter in (("c d [MASK] f g", "e"), ("[MASK] g h i j", "f")):
        (found,) = words.guess([text])
        word, probability = found.best[0][0]
        assert word == letter
        assert probability > 0.7
    ordered, mixed = words.score(["b c d e f", "f b d c e"])
    assert ordered.perplexity < 2 < mixed.perplexity


def test_a_model_without_the_head_is_refused(tmp_path):
    model = BertModel(TINY)
    tensors = {name: v.numpy() for name, v in checkpoints.weights(model).items()}
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(WORDS) + "\n")
    path = str(tmp_path / "encoder")
    checkpoints.write_hugging_face(path, tensors, TINY, str(vocab))
    with pytest.raises(bert_tf.UserError, match="has no head for masked words, it lacks cls/pred"):
        bert_tf.FillMask.from_preset(path, max_seq_length=12)
