"""Training `SentenceEncoder`; losses and scores are compared with sentence-transformers."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.tasks.sentence_embedding.losses import make_loss
from bert_tf.tasks.sentence_embedding.options import SentenceEmbeddingData
from bert_tf.tasks.sentence_embedding.search import search_scores
from tests.common import WORDS, tiny
from tests.pipelines.conftest import write_release_folder
from tests.training.training_helpers import mirrored, one_device

RNG = np.random.default_rng(0)
TEXTS = [" ".join(RNG.choice([*"abcdefghij"], 5)) for _ in range(48)]
SHUFFLED = [" ".join(RNG.permutation(text.split())) for text in TEXTS]
OTHERS = SHUFFLED[::-1]
SCORES = [len({*a.split()} & {*b.split()}) / 5 for a, b in zip(TEXTS, OTHERS, strict=True)]


def make(folder, strategy=None, **options):
    keras.utils.set_random_seed(0)
    with (strategy or one_device()).scope():
        return bert_tf.SentenceEncoder.from_preset(str(folder), max_seq_length=8, **options)


@pytest.fixture(scope="module")
def peer():
    """The losses of sentence-transformers, applied to vectors instead of a model."""
    module = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    import torch

    class Vectors(torch.nn.Module):
        def forward(self, features):
            return {"sentence_embedding": features}

        def preprocess(self, *_):
            raise NotImplementedError

    return module, Vectors()


@pytest.mark.parametrize(
    "name", ["contrastive", "symmetric", "hard", "cosent", "cosine", "triplet"]
)
@pytest.mark.parametrize("dims", [(), (4, 12)])
def test_losses_are_those_of_sentence_transformers(peer, name, dims):
    """Compares values and gradients."""
    losses, model = peer
    import torch

    columns = 3 if name in ("hard", "triplet") else 2
    vectors = RNG.normal(size=(9, columns, 12)).astype("float32")
    scores = RNG.integers(0, 6, 9).astype("float32") / 5
    make_peer = {
        "contrastive": losses.MultipleNegativesRankingLoss,
        "hard": losses.MultipleNegativesRankingLoss,
        "symmetric": functools.partial(
            losses.MultipleNegativesRankingLoss,
            directions=("query_to_doc", "doc_to_query"),
            partition_mode="per_direction",
        ),
        "cosent": losses.CoSENTLoss,
        "cosine": losses.CosineSimilarityLoss,
        "triplet": losses.TripletLoss,
    }[name]
    own = {"symmetric": "contrastive", "hard": "contrastive"}.get(name, name)
    options = SentenceEmbeddingData(loss=own, symmetric=name == "symmetric", matryoshka_dims=dims)
    loss = make_loss(options, 12, columns, own in ("cosent", "cosine"))
    total, leaves = 0.0, torch.tensor(vectors, requires_grad=True)
    for size in dims or (12,):
        parts = [leaves[:, i, :size] for i in range(columns)]
        total = total + make_peer(model)(parts, torch.tensor(scores))
    total.backward()
    x = tf.constant(vectors)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = tf.reduce_mean(loss(tf.constant(scores), x, None))
    np.testing.assert_allclose(value, total.item(), rtol=1e-5)
    np.testing.assert_allclose(tape.gradient(value, x), leaves.grad, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("ids", "moved"),
    [
        ([0, 2, 9], {1: 0, 0: 1}),  # the same text: its partner is left out, and for the answer too
        ([3, 1, 9], {1: 0, 0: 1}),
        ([3, 0, 9], {1: 0}),
        ([3, 9, 1], {2: 0}),
        ([3, 9, 0], {2: 0}),
    ],
)
def test_right_answers_are_not_candidates(ids, moved):
    """The loss of the first example is as if they were opposite to its text, or to its answer."""
    vectors = RNG.normal(size=(3, 3, 12)).astype("float32")
    opposite = vectors.copy()
    for column, other in moved.items():
        opposite[1, column] = -vectors[0, other]
    loss = make_loss(SentenceEmbeddingData(symmetric=True), 12, 3, False)
    found = loss(None, vectors, np.array([[0, 1, 7], ids, [4, 5, 6]]))
    expected = loss(None, opposite, None)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-6)


def test_scores_are_those_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    queries, documents = (RNG.normal(size=(n, 4)) for n in (7, 30))
    relevant = [RNG.choice(30, size, replace=False) for size in (1, 2, 3, 12, 1, 5, 2)]
    cosines = queries @ documents.T
    truth = np.zeros((7, 30))
    for row, numbers in zip(truth, relevant, strict=True):
        row[numbers] = 1
    for k in (1, 5, 10, 30):
        found = search_scores(queries, documents, relevant, k)
        assert found[f"ndcg@{k}"] == pytest.approx(metrics.ndcg_score(truth, cosines, k=k))
        orders = np.argsort(-cosines).tolist()
        ranks = [min(map(order.index, x)) for order, x in zip(orders, relevant, strict=True)]
        expected = np.mean([1 / (rank + 1) if rank < k else 0 for rank in ranks])
        assert found[f"mrr@{k}"] == pytest.approx(expected)
    assert found["recall@30"] == 1
    with pytest.raises(bert_tf.UserError, match=r"`relevant`: item 0 is .*from 0 to 29"):
        search_scores(queries[:1], documents, [[30]])


def test_fit_on_pairs(encoder_folder):
    encoder = make(encoder_folder)
    search = functools.partial(encoder.evaluate_search, TEXTS, SHUFFLED, [[i] for i in range(48)])
    before = search()["mrr@10"]
    options = {"epochs": 2, "batch_size": 16, "learning_rate": 1e-3, "validation_split": 0.25,
               "symmetric": True, "verbose": 0}  # fmt: skip
    history = encoder.fit((TEXTS * 4, SHUFFLED * 4), **options).history
    assert history["loss"][-1] < history["loss"][0] and "val_loss" in history
    assert search()["mrr@10"] > before + 0.2


@pytest.mark.parametrize("loss", [None, pytest.param("cosine", marks=pytest.mark.slow)])
def test_fit_on_scores(encoder_folder, loss):
    encoder = make(encoder_folder, pooling="cls")
    pairs = list(zip(TEXTS, OTHERS, strict=True))
    before = encoder.evaluate(pairs, SCORES)["spearman"]
    stop = keras.callbacks.EarlyStopping("val_spearman", patience=99)
    options = {"loss": loss, "validation_data": (pairs, SCORES), "epochs": 2, "batch_size": 16,
               "learning_rate": 2e-3, "callbacks": [stop], "verbose": 0}  # fmt: skip
    history = encoder.fit(pairs * 4, SCORES * 4, **options).history
    assert history["val_spearman"][-1] > before + 0.1
    assert encoder.evaluate(pairs, SCORES)["spearman"] == history["val_spearman"][-1]
    cosines = [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        for a, b in zip(encoder.encode(TEXTS), encoder.encode(OTHERS), strict=True)
    ]
    expected = np.corrcoef(cosines, SCORES)[0, 1]
    assert history["val_pearson"][-1] == pytest.approx(expected, abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["triplet", "contrastive"])
def test_fit_on_triplets(encoder_folder, loss):
    pd = pytest.importorskip("pandas")
    encoder = make(encoder_folder)
    triplets = pd.DataFrame({"text": TEXTS, "similar": SHUFFLED, "other": OTHERS})
    history = encoder.fit(triplets, loss=loss, epochs=4, batch_size=16, learning_rate=1e-3,
                          matryoshka_dims=[4, 16], verbose=0).history  # fmt: skip
    assert history["loss"][-1] < history["loss"][0]


@pytest.mark.slow  # test_fit_equals_loop.py has whole batches
def test_two_devices_make_the_same_steps(encoder_folder):
    """Candidates, in mini-batches, are gathered from all devices."""
    weights = []
    for strategy, size in ((one_device(), None), (mirrored(2), 5)):
        encoder = make(encoder_folder, strategy=strategy)
        encoder.compile(keras.optimizers.SGD(0.1))
        encoder.fit((TEXTS, OTHERS), epochs=1, batch_size=16, shuffle=False, symmetric=True,
                    mini_batch_size=size, verbose=0)  # fmt: skip
        weights.append(encoder.model.get_weights())
    for a, b in zip(*weights, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)


@pytest.mark.slow
def test_an_optimizer_made_outside_fits_the_default_strategy(encoder_folder, monkeypatch):
    """On one device the pipeline uses the strategy in which users create optimizers."""
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    monkeypatch.setattr("bert_tf.training.strategy.make_strategy", lambda **_: strategy)
    encoder = bert_tf.SentenceEncoder.from_preset(str(encoder_folder), max_seq_length=8)
    encoder.compile(bert_tf.optimization.AdamWeightDecay(1e-3))
    history = encoder.fit((TEXTS[:4], SHUFFLED[:4]), batch_size=4, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.parametrize(
    ("mini_batch_size", "dropout"), [(5, 0.0), pytest.param(24, 0.1, marks=pytest.mark.slow)]
)
def test_mini_batches_make_the_same_steps(tmp_path, mini_batch_size, dropout):
    """The steps equal whole-batch steps; a single mini-batch also has the same dropout."""
    sizes = {"vocab_size": len(WORDS), "num_hidden_layers": 1}
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": dropout}
    write_release_folder(tmp_path, tiny(**sizes, **rates))
    weights = []
    for size in (None, mini_batch_size):
        encoder = make(tmp_path)
        encoder.compile(keras.optimizers.SGD(0.1))
        encoder.fit((TEXTS, OTHERS), epochs=1, batch_size=24, shuffle=False, mini_batch_size=size,
                    verbose=0)  # fmt: skip
        weights.append(encoder.model.get_weights())
    for value, expected in zip(*weights, strict=True):
        np.testing.assert_allclose(value, expected, atol=2e-6)
