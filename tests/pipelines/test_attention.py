"""Attention of every head, beside `transformers`, and what is drawn of it."""

import base64
import html
import json
import re
import sys

import numpy as np
import pytest
from bert_tf.pipelines.tokens import TextVectors
from test_hugging_face import transformers  # noqa: F401
from test_token_vectors import LINES, TOKENS, WORDS, folder  # noqa: F401

import bert_tf
from bert_tf import checkpoints, pipelines


@pytest.fixture(scope="module")
def attention(folder):  # noqa: F811
    return pipelines.Attention.from_preset(str(folder), batch_size=4, max_seq_length=12)


def test_equals_transformers(transformers, folder, attention):  # noqa: F811
    import torch

    checkpoints.convert(str(folder), str(folder / "theirs"), "hugging_face")
    model = transformers.BertModel.from_pretrained(folder / "theirs", attn_implementation="eager")
    for found, tokens in zip(attention(LINES), TOKENS, strict=True):
        ids = [WORDS.index(token) for token in tokens.split()]
        first = ids.index(3) + 1
        segments = [0] * first + [1] * (len(ids) - first)
        with torch.no_grad():
            expected = model(
                torch.tensor([ids]),
                token_type_ids=torch.tensor([segments]),
                output_attentions=True,
            ).attentions
        assert found.tokens == tokens.split()
        expected = np.concatenate([x.numpy() for x in expected])
        np.testing.assert_allclose(found.values, expected, atol=1e-5, rtol=0)
        np.testing.assert_allclose(found.values.sum(-1), 1.0, atol=1e-5)


def test_layers_and_heads_are_chosen(folder, attention):  # noqa: F811
    some = pipelines.Attention.from_preset(
        str(folder), layers=[-1, 0], heads=[1], batch_size=4, max_seq_length=12
    )
    assert (some.layers, some.heads) == ([5, 0], [1])
    (all_found,), (found,) = attention(["a b"]), some(["a b"])
    np.testing.assert_allclose(found.values, all_found.values[[5, 0]][:, [1]], atol=1e-6)
    for wrong, message in (
        ({"heads": [2]}, "--heads: there is no head 2, the model has 2: 0 to 1"),
        ({"layers": [-7]}, "--layers: there is no layer -7, the model has 6: 0 to 5"),
        ({"heads": []}, "--heads: at least one was expected"),
    ):
        with pytest.raises(bert_tf.UserError, match=message):
            pipelines.Attention.from_preset(str(folder), max_seq_length=12, **wrong)


@pytest.fixture
def hostile():
    """Attention over tokens that a page or a picture could take for something else."""
    tokens = ["[CLS]", "</script>", "<b>", "&amp;", '"', "@@DATA@@", "$x^$", "你", "[SEP]"]
    rng = np.random.default_rng(0)
    values = rng.dirichlet(np.ones(9), size=(2, 3, 9)).astype("float32")
    return TextVectors(0, tokens, [0, 5], values)


def test_page(hostile, tmp_path):
    path = tmp_path / "page.html"
    pipelines.write_page(str(path), hostile, [0, 1, 7])
    page = path.read_text("utf-8")
    # Nothing from elsewhere, nothing unescaped, nothing left to fill in.
    sources = re.findall(r"""(?:src|href)\s*=\s*["']?([^"'\s>]{1,30})""", page)
    assert len(sources) == 6
    assert all(source.startswith("data:image/png;base64,") for source in sources)
    urls = set(re.findall(r"https?://[^\"' ]*", page))
    assert urls == {"http://www.w3.org/2000/svg"}  # the name of the format, it is not loaded
    assert "default-src 'none'" in page
    assert page.count("<script") == page.count("</script>") == 2
    assert "<b>" not in page
    title = re.search(r"<h1>(.*?)</h1>", page).group(1)
    assert html.unescape(title) == " ".join(hostile.tokens[1:-1])
    data = json.loads(re.search(r'id="data">(.*?)</script>', page).group(1))
    assert data["tokens"] == hostile.tokens
    assert (data["layers"], data["heads"]) == ([0, 5], [0, 1, 7])

    values = np.frombuffer(base64.b64decode(data["values"]), "<u2") / 65535
    np.testing.assert_allclose(values.reshape(2, 3, 9, 9), hostile.values, atol=1e-5)


def test_picture(hostile, tmp_path):
    pytest.importorskip("matplotlib")
    import tensorflow as tf

    path = tmp_path / "picture.png"
    pipelines.draw(str(path), hostile, [0, 1, 7])
    pixels = tf.io.decode_png(path.read_bytes(), channels=3).numpy()
    assert min(pixels.shape[:2]) > 200
    assert pixels.std() > 5  # not one colour


def test_without_matplotlib_the_error_says_so(hostile, tmp_path, monkeypatch):
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "picture.png"
    with pytest.raises(bert_tf.UserError, match=r"needs the package matplotlib .*: pip"):
        pipelines.draw(str(path), hostile, [0, 1, 7])
    assert not list(tmp_path.iterdir())
