"""The three embeddings by themselves, and pictures of what a model makes of texts."""

import sys

import numpy as np
import pytest
import tensorflow as tf
from bert_tf.pipelines.embeddings import Parts
from test_token_vectors import LINES, TOKENS, WORDS, folder, outputs  # noqa: F401

import bert_tf
from bert_tf import pipelines
from bert_tf.modeling.layers import LayerNorm
from bert_tf.pipelines.fill_mask import Guesses


@pytest.fixture(scope="module")
def embeddings(folder):  # noqa: F811
    return pipelines.EmbeddingParts.from_preset(str(folder), batch_size=4, max_seq_length=12)


def test_parts_add_up_to_what_the_model_has(embeddings, outputs):  # noqa: F811
    layer = embeddings.model.embeddings
    for parts, tokens, (_, output) in zip(embeddings(LINES), TOKENS, outputs, strict=True):
        assert parts.tokens == tokens.split()
        ids = [WORDS.index(token) for token in parts.tokens]
        first = ids.index(3) + 1
        assert parts.input_ids == ids
        assert parts.segment_ids == [0] * first + [1] * (len(ids) - first)
        np.testing.assert_array_equal(parts.word, layer.word_embeddings.numpy()[ids])
        np.testing.assert_array_equal(
            parts.segment, layer.token_type_embeddings.numpy()[parts.segment_ids]
        )
        np.testing.assert_array_equal(parts.position, layer.position_embeddings.numpy()[: len(ids)])
        np.testing.assert_allclose(parts.output, output, atol=1e-5)
        added = layer.norm(parts.word + parts.segment + parts.position)
        assert isinstance(layer.norm, LayerNorm)
        np.testing.assert_allclose(parts.output, added, atol=1e-5)


# What a picture could take for something else, and no letters of its font.
HOSTILE = ["[CLS]", "$x^$", "<b>", "##ing", "a", "[SEP]"]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """What each function draws, by its name, as pixels (rows, columns, 3)."""
    pytest.importorskip("matplotlib")
    place = tmp_path_factory.mktemp("pictures")
    rng = np.random.default_rng(0)
    made = Parts(HOSTILE, range(6), [0, 0, 0, 1, 1, 1], *rng.normal(size=(4, 6, 16)))
    best = [("$a$", 0.5), ("b", 0.25)]
    guesses = [Guesses(None, HOSTILE, [1, 3], [best, best]), Guesses(None, HOSTILE, [], [])]
    sentences = ["$x^$", "a long sentence " * 10, "b"]
    pipelines.draw_tokens(str(place / "tokens"), [made, made])
    pipelines.draw_embeddings(str(place / "embeddings"), made)
    pipelines.draw_guesses(str(place / "guesses"), guesses)
    pipelines.draw_nearness(str(place / "nearness"), sentences, rng.normal(size=(3, 8)))
    return {
        path.name: tf.io.decode_png(path.read_bytes(), channels=3).numpy()
        for path in place.iterdir()
    }


@pytest.mark.parametrize("name", ["tokens", "embeddings", "guesses", "nearness"])
def test_pictures(pictures, name):
    pixels = pictures[name]
    assert min(pixels.shape[:2]) > 100 and max(pixels.shape[:2]) < 2000
    assert pixels.std() > 5  # not one colour


def test_likelier_words_have_longer_bars(pictures):
    blue = (pictures["guesses"].astype(int) == (0x6F, 0xA8, 0xDC)).all(-1).sum(1)
    lengths = sorted({int(n) for n in blue if n > 20})
    assert len(lengths) == 2 and abs(lengths[1] / lengths[0] - 2) < 0.1


def test_one_sentence_and_no_guess_can_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    pipelines.draw_nearness(str(tmp_path / "one.png"), ["a"], np.ones((1, 4)))
    pipelines.draw_guesses(str(tmp_path / "none.png"), [])
    assert len(list(tmp_path.iterdir())) == 2


def test_without_matplotlib_the_error_says_so(tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(bert_tf.UserError, match=r"needs the package matplotlib .*: pip"):
        pipelines.draw_nearness(str(tmp_path / "one.png"), ["a"], np.ones((1, 4)))
    assert not list(tmp_path.iterdir())
