"""Sentence vectors of a real model, nearest neighbors, and the exported SavedModel."""

import dataclasses
import importlib
import itertools
import json

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoints
from bert_tf.tasks.sentence_embedding.search import NearestNeighbors
from tests.modeling.conftest import load_with_transformers
from tests.pipelines.pipeline_texts import LINES

SENTENCES = [
    "A man is eating pasta.",
    "Somebody has noodles for dinner",
    "",
    "The stock market fell sharply on Monday, analysts said; Zürich lost 3.5 %.",
    "A woman plays the violin",
    "Ein Mann isst Nudeln. 一个男人在吃面",
    "a ||| b",
]


def make(folder, **options):
    return bert_tf.SentenceEncoder.from_preset(str(folder), max_seq_length=12, **options)


@pytest.fixture(scope="module")
def expected(transformers, minilm):
    """The real model's vectors of `SENTENCES`, from transformers."""
    import torch

    tokenizer = transformers.AutoTokenizer.from_pretrained(minilm)
    model = load_with_transformers(transformers, minilm)
    vectors = []
    for sentence in SENTENCES:
        with torch.no_grad():
            hidden = model(**tokenizer([sentence], return_tensors="pt")).last_hidden_state[0]
        vectors.append(torch.nn.functional.normalize(hidden.mean(0), dim=0).numpy())
    return vectors


def test_command_equals_transformers(expected, minilm, run_script, tmp_path, capsys):
    (tmp_path / "in.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    log = run_script(
        "bert-tf embed", f"--init_checkpoint={minilm}", f"--input_file={tmp_path}/in.txt",
        f"--output_file={tmp_path}/out.npy", "--query=A man eats noodles", "--num_nearest=2",
        "--query=a violinist plays", "--batch_size=4", "--distribution_strategy=one_device",
    )  # fmt: skip
    assert "pooling=mean, layer=-1, normalize=True, max_seq_length=256" in log
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected, atol=1e-5, rtol=0)
    queries = [lines.splitlines() for lines in capsys.readouterr().out.strip().split("\n\n")]
    assert [lines[0] for lines in queries] == ["A man eats noodles", "a violinist plays"]
    neighbors = [[line.split("  ")[2] for line in lines[1:]] for lines in queries]
    assert neighbors[0] == [SENTENCES[0], SENTENCES[1]]
    assert neighbors[1][0] == SENTENCES[4]


@pytest.mark.parametrize(
    ("poolings", "is_normalized", "options", "edits"),
    [
        ("lasttoken cls mean_sqrt_len_tokens", True, {"truncate_dim": 40}, {}),
        ("weightedmean max", False,
         {"prompts": {"x": "B i", "y": "c "}, "default_prompt_name": "x"}, {}),
        ("mean", False, {}, {"sentence_bert_config": {"max_seq_length": 6}}),
        *(pytest.param("mean", True, {}, x, marks=pytest.mark.slow) for x in (
            {"tokenizer_config": {"model_max_length": 7}},
            {"sentence_bert_config": {"do_lower_case": True},
             "tokenizer_config": {"do_lower_case": False}},
        )),
    ],
)  # fmt: skip
def test_sentence_transformers_folders(
    model_folder, tmp_path, poolings, is_normalized, options, edits
):
    """Folders of the newest version have the same vectors, before and after `save_to_preset`."""
    peer = pytest.importorskip("sentence_transformers")
    base, st = importlib.import_module("sentence_transformers.base.modules"), tmp_path / "st"
    checkpoints.convert(str(model_folder), str(tmp_path / "hf"), "hugging_face")
    pooling = peer.sentence_transformer.modules.Pooling(16, tuple(poolings.split()))
    transformer = base.Transformer(str(tmp_path / "hf"), do_lower_case=True)
    modules = [transformer, pooling, base.Normalize()]
    modules = modules if is_normalized else modules[:2]
    peer.SentenceTransformer(modules=modules, device="cpu", **options).save(str(st))
    for name, values in edits.items():
        path = st / f"{name}.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **values}))
    texts = ["a b c", "", "É Ab d", "j i h g f e d c b a"]
    model = peer.SentenceTransformer(str(st), device="cpu")
    expected = model.encode(texts)
    encoder = bert_tf.SentenceEncoder.from_preset(st)
    np.testing.assert_allclose(encoder.predict(texts), expected, atol=1e-5, rtol=0)
    shared = {"batch_size": 2, "normalize_embeddings": True, "show_progress_bar": False}
    prompts = [{"prompt": "d "}, *({"prompt_name": x} for x in options.get("prompts", ()))]
    for given, x in itertools.product(({**x, **shared} for x in prompts), (texts, texts[0])):
        np.testing.assert_allclose(encoder.encode(x, **given), model.encode(x, **given), atol=1e-5)
    similarities = encoder.similarity(expected, expected[0])
    np.testing.assert_allclose(similarities, model.similarity(expected, expected[0]), atol=1e-5)
    with pytest.raises(bert_tf.UserError, match="prompt_name=z"):
        encoder.encode(texts, prompt_name="z")
    encoder.save_to_preset(tmp_path / "saved")
    encoder.save_to_preset(tmp_path / "saved", overwrite=True)  # it has only our files
    again = peer.SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    np.testing.assert_allclose(again.encode(texts), expected, atol=1e-5, rtol=0)
    assert again.prompts.items() >= options.get("prompts", {}).items()
    served = bert_tf.serving.Predictor(encoder.export(tmp_path / "export"))
    vectors = [x["vectors"] for x in served([{"text": text} for text in texts])]
    np.testing.assert_allclose(vectors, expected, atol=1e-5, rtol=0)


def test_layers(model_folder, outputs, tmp_path):
    indices = [i for i, line in enumerate(LINES) if "|||" not in line]
    lines = [LINES[i] for i in indices]
    for layer, normalize in ((-2, False), (-1, True)):
        encoder = make(model_folder, pooling="max", layer=layer, normalize=normalize)
        expected = np.array([outputs[i][0][layer].max(0) for i in indices])
        if normalize:
            expected /= np.linalg.norm(expected, axis=-1, keepdims=True)
        np.testing.assert_allclose(encoder.encode(lines, 4), expected, atol=1e-5, rtol=0)
        encoder.save_to_preset(tmp_path / str(layer))
        loaded = bert_tf.SentenceEncoder.from_preset(tmp_path / str(layer))
        np.testing.assert_allclose(loaded.encode(lines), expected, atol=1e-5, rtol=0)
        assert loaded.config.bert_config.num_hidden_layers == layer % 2 + 1
        assert loaded.config.max_seq_length == 12
    assert encoder.encode([]).shape == (0, 16)
    encoder.config = dataclasses.replace(encoder.config, include_prompt=False)
    with pytest.raises(bert_tf.UserError, match=r"`prompt=b`.*include_prompt"):
        encoder.encode(lines, prompt="b")


def test_nearest_neighbors():
    rng = np.random.default_rng(0)
    queries = (vectors := rng.normal(size=(3000, 8)))[:100]
    neighbors = NearestNeighbors(queries, 4)
    for i, vector in enumerate(vectors):
        neighbors.add(vector, f"text {i}")
    unit = [x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (queries, vectors)]
    for results, cosines in zip(neighbors.results(), unit[0] @ unit[1].T, strict=True):
        order = np.argsort(-cosines)[:4]
        assert results[0].similarity <= 1  # although rounding gives 1.0000002
        assert [neighbor.index for neighbor in results] == order.tolist()
        assert [neighbor.item for neighbor in results] == [f"text {i}" for i in order]
        np.testing.assert_allclose([x.similarity for x in results], cosines[order], atol=1e-6)
