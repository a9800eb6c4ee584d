"""Charts, and the HTML page of attention."""

import base64
import html
import json
import re
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import pipelines
from bert_tf.pipelines.feature_extraction import EmbeddedText, TextVectors
from bert_tf.tasks.fill_mask.pipeline import MaskPredictions


@pytest.fixture(scope="module")
def attention():
    """Attention over tokens that need escaping in HTML or charts."""
    tokens = ["[CLS]", "</script>", "<b>", "&amp;", '"', "@@DATA@@", "$x^$", "你", "[SEP]"]
    rng = np.random.default_rng(0)
    values = rng.dirichlet(np.ones(9), size=(2, 3, 9)).astype("float32")
    return TextVectors(0, tokens, [0, 5], values)


def test_page(attention, tmp_path):
    path = tmp_path / "page.html"
    pipelines.write_attention_page(str(path), attention, [0, 1, 7])
    page = path.read_text("utf-8")
    # No external resources, no unescaped text, no unfilled placeholders.
    sources = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]{1,30})""", page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    urls = set(re.findall(r"https?://[^\"' ]*", page))
    assert urls == {"http://www.w3.org/2000/svg"}  # an XML namespace, which browsers do not load
    assert "default-src 'none'" in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "<b>" not in page
    title = re.search(r"<h1>(.*?)</h1>", page).group(1)
    assert html.unescape(title) == " ".join(attention.tokens[1:-1])
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert data["tokens"] == attention.tokens
    assert (data["layers"], data["heads"]) == ([0, 5], [0, 1, 7])
    values = np.frombuffer(base64.b64decode(data["values"]), "<u2") / 65535
    np.testing.assert_allclose(values.reshape(2, 3, 9, 9), attention.values, atol=1e-5)


@pytest.fixture(scope="module")
def charts(attention, tmp_path_factory):
    """A dict from function name to the pixels (rows, columns, 3) of its chart."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("charts")
    rng = np.random.default_rng(0)
    tokens = ["[CLS]", "$x^$", "<b>", "##ing", "a", "[SEP]"]
    text = EmbeddedText(tokens, range(6), [0, 0, 0, 1, 1, 1], *rng.normal(size=(4, 6, 16)))
    best = [("$a$", 0.5), ("b", 0.25)]
    predictions = [
        MaskPredictions(None, tokens, [1, 3], [best, best]),
        MaskPredictions(None, tokens, [], []),
    ]
    sentences = ["$x^$", "a long sentence " * 10, "b"]
    pipelines.draw_tokens(str(folder / "tokens"), [text, text])
    pipelines.draw_embeddings(str(folder / "embeddings"), text)
    pipelines.draw_mask_predictions(str(folder / "predictions"), predictions)
    pipelines.draw_similarities(str(folder / "similarities"), sentences, rng.normal(size=(3, 8)))
    pipelines.draw_attention(str(folder / "attention"), attention, [0, 1, 7])
    return {
        path.name: tf.io.decode_png(path.read_bytes(), channels=3).numpy()
        for path in folder.iterdir()
    }


@pytest.mark.parametrize(
    "name", ["tokens", "embeddings", "predictions", "similarities", "attention"]
)
def test_charts(charts, name):
    pixels = charts[name]
    assert min(pixels.shape[:2]) > (200 if name == "attention" else 100)
    assert max(pixels.shape[:2]) < 2000
    assert pixels.std() > 5  # not a single color


def test_bars_are_proportional_to_probabilities(charts):
    blue = (charts["predictions"].astype(int) == (0x6F, 0xA8, 0xDC)).all(-1).sum(1)
    lengths = sorted({int(n) for n in blue if n > 20})
    assert len(lengths) == 2 and abs(lengths[1] / lengths[0] - 2) < 0.1


def test_one_sentence_and_no_predictions(tmp_path):
    pytest.importorskip("matplotlib")
    pipelines.draw_similarities(str(tmp_path / "one.png"), ["a"], np.ones((1, 4)))
    pipelines.draw_mask_predictions(str(tmp_path / "none.png"), [])
    assert len(list(tmp_path.iterdir())) == 2


def test_error_without_matplotlib(attention, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    path = str(tmp_path / "chart.png")
    with pytest.raises(bert_tf.UserError, match=r"matplotlib .*pip install"):
        pipelines.draw_similarities(path, ["a"], np.ones((1, 4)))
    with pytest.raises(bert_tf.UserError, match=r"matplotlib .*pip install"):
        pipelines.draw_attention(path, attention, [0, 1, 7])
    assert not list(tmp_path.iterdir())
