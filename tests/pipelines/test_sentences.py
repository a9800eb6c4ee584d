"""Sentence vectors, beside a real sentence model's own, and as a SavedModel in a fresh process."""

import json
import subprocess
import sys

import numpy as np
import pytest
from test_hugging_face import minilm, theirs, transformers  # noqa: F401
from test_token_vectors import LINES, TOKENS, encoder, folder, outputs  # noqa: F401

import bert_tf
from bert_tf import pipelines
from bert_tf.pipelines.sentences import said_beside

SENTENCES = [
    "A man is eating pasta.",
    "Somebody has noodles for dinner",
    "",
    "The stock market fell sharply on Monday, analysts said; Zürich lost 3.5 %.",
    "A woman plays the violin",
    "Ein Mann isst Nudeln. 一个男人在吃面",
    "a ||| b",
]


def test_real_model_script_and_saved_model(root, transformers, minilm, tmp_path):  # noqa: F811
    """Its own vectors three ways: by transformers, by the script, by TensorFlow alone."""
    import torch

    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = theirs(transformers, minilm)
    expected = []
    for sentence in SENTENCES:
        batch = tokenizer([sentence], return_tensors="pt")
        with torch.no_grad():
            hidden = model(**batch).last_hidden_state[0]
        expected.append(torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy())
    (tmp_path / "in.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "bert_tf",
            "embed",
            f"--init_checkpoint={minilm}",
            f"--input_file={tmp_path}/in.txt",
            f"--output_file={tmp_path}/out.npy",
            f"--export_dir={tmp_path}/export",
            "--query=A man eats noodles",
            "--num_nearest=2",
            "--batch_size=4",
            "--interactive",
        ],
        input="\na violinist plays\n",
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "pooling=mean, layer=-1, normalize=True, max_seq_length=256" in done.stderr
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5, rtol=0)
    queries = [lines.splitlines() for lines in done.stdout.strip().split("\n\n")]
    assert [lines[0] for lines in queries] == ["A man eats noodles", "a violinist plays"]
    nearest = [[line.split("  ")[2] for line in lines[1:]] for lines in queries]
    assert nearest[0] == [SENTENCES[0], SENTENCES[1]]
    assert nearest[1][0] == SENTENCES[4]

    program = """
import json, sys
import tensorflow as tf
import tensorflow_text
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
found = serve(text=tf.constant(json.loads(sys.argv[2])))["vectors"]
assert serve(text=tf.constant([], tf.string))["vectors"].shape == (0, 384)
assert not [name for name in sys.modules if name.startswith("bert_tf")]
print(json.dumps(found.numpy().tolist()))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, f"{tmp_path}/export/1", json.dumps(SENTENCES)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["mean", "max", "cls"])
def test_poolings(encoder, outputs, pooling):  # noqa: F811
    plain = [i for i, line in enumerate(LINES) if "|||" not in line]
    lines = [LINES[i] for i in plain]
    pool = {"mean": lambda x: x.mean(0), "max": lambda x: x.max(0), "cls": lambda x: x[0]}[pooling]
    for layer, normalize in ((-2, False), (-1, True)):
        sentences = bert_tf.SentenceEncoder(
            *encoder, pooling, layer, normalize, batch_size=4, max_seq_length=12
        )
        expected = np.array([pool(outputs[i][0][layer]) for i in plain])
        if normalize:
            expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
        np.testing.assert_allclose(sentences.encode(lines), expected, atol=1e-5, rtol=0)
    assert sentences.encode([]).shape == (0, 16)


def test_array_of_another_length_than_was_said_does_not_appear(tmp_path):
    with (
        pytest.raises(bert_tf.UserError, match="3 rows were expected, 2 came"),
        pipelines.array_writer(str(tmp_path / "a.npy"), 3, 4) as write,
    ):
        write(np.zeros(4))
        write(np.zeros(4))
    assert not list(tmp_path.iterdir())


def test_nearest():
    rng = np.random.default_rng(0)
    vectors, queries = rng.normal(size=(3000, 8)), rng.normal(size=(3, 8))
    nearest = pipelines.Nearest(queries, 4)
    for i, vector in enumerate(vectors):
        nearest.add(vector, f"text {i}")
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (queries, vectors)]
    for found, row in zip(nearest.found(), unit[0] @ unit[1].T, strict=True):
        order = np.argsort(-row)[:4]
        assert [neighbour.index for neighbour in found] == order.tolist()
        assert [neighbour.item for neighbour in found] == [f"text {i}" for i in order]
        np.testing.assert_allclose([x.similarity for x in found], row[order], atol=1e-6)


def test_what_a_folder_says_of_its_vectors(tmp_path):
    said = said_beside
    assert said(str(tmp_path)) == {}
    kinds = {"Transformer": "", "Pooling": "1_Pooling", "Dense": "2_Dense"}
    modules = [{"type": f"sentence_transformers.models.{x}", "path": kinds[x]} for x in kinds]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(bert_tf.UserError, match="the module Dense is not known here"):
        said(str(tmp_path))
    (tmp_path / "modules.json").write_text(json.dumps(modules[:2]))
    (tmp_path / "1_Pooling").mkdir()
    config = tmp_path / "1_Pooling" / "config.json"
    config.write_text(json.dumps({"pooling_mode_cls_token": True, "word_embedding_dimension": 3}))
    assert said(str(tmp_path)) == {"pooling": "cls", "layer": -1, "normalize": False}
    config.write_text(json.dumps({"pooling_mode_weightedmean_tokens": True}))
    with pytest.raises(bert_tf.UserError, match="weightedmean_tokens, is not known here"):
        said(str(tmp_path))
    (tmp_path / "modules.json").write_text("{}{")
    with pytest.raises(bert_tf.UserError, match="a list of modules"):
        said(str(tmp_path))


@pytest.mark.parametrize(
    ("options", "message"),
    [({"layer": 6}, "no layer 6, the model has 6"), ({"pooling": "sum"}, "'sum' is not one of")],
)
def test_mistakes(encoder, options, message):  # noqa: F811
    with pytest.raises(bert_tf.UserError, match=message):
        bert_tf.SentenceEncoder(*encoder, max_seq_length=12, **options)
