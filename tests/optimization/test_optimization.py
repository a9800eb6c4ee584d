"""The optimizers equal the release's recorded steps, the papers' formulas and PyTorch's AdamW."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.device_check.checks import RECORDED
from bert_tf.optimization import OPTIMIZERS, LinearWarmupDecay, optimizers, rate_factors


def make(kind, weights, learning_rate, **options):
    """Return an optimizer and its variables, by name."""
    variables = {name: tf.Variable(value) for name, value in weights.items()}
    optimizer = OPTIMIZERS[kind](learning_rate, **options)
    optimizer.build(variables)
    return optimizer, variables


@pytest.mark.parametrize("compiled_size", [1, 2**14])
@pytest.mark.parametrize("case", ["adam_warmup", "adam_no_warmup"])
def test_equals_the_release(case, compiled_size, monkeypatch):
    monkeypatch.setattr(optimizers, "COMPILED_SIZE", compiled_size)
    golden = np.load(RECORDED / f"{case}.npz")
    rate, total, warmup, steps = golden["hyper"]
    names = [key.removeprefix("init|") for key in golden.files if key.startswith("init|")]
    rate = LinearWarmupDecay(float(rate), int(total), int(warmup))
    optimizer, variables = make("bert_adam", {x: golden[f"init|{x}"] for x in names}, rate)
    for i in range(int(steps)):
        gradients = {name: tf.constant(golden[f"grad{i}|{name}"]) for name in names}
        norm = optimizer.apply_reduced(gradients)
        np.testing.assert_allclose(norm, tf.linalg.global_norm(list(gradients.values())), rtol=1e-6)
        for name in names:
            np.testing.assert_allclose(
                variables[name], golden[f"weight{i}|{name}"], atol=1e-6, rtol=0
            )
    for name, slot in optimizer.slots.items():
        np.testing.assert_allclose(slot, golden[f"slot|{name}"], atol=1e-6, rtol=0)


def test_schedule():
    rate = LinearWarmupDecay(1.0, num_train_steps=10, num_warmup_steps=4)
    values = [float(rate(step)) for step in range(12)]
    expected = [0, 0.25, 0.5, 0.75, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0, 0]
    np.testing.assert_allclose(values, expected, atol=1e-6)
    assert float(LinearWarmupDecay(1.0, 10)(0)) == 1.0


@pytest.fixture(params=[1, 2**14], ids=["compiled", "not compiled"])
def start(request, monkeypatch):
    """Initial weights. Updates of large weights are compiled on a CPU."""
    monkeypatch.setattr(optimizers, "COMPILED_SIZE", request.param)
    rng = np.random.default_rng(0)
    shapes = {"a/kernel": (3, 4), "a/bias": (4,), "b/LayerNorm/gamma": (4,), "zeros/kernel": (2, 2)}
    values = {name: rng.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    values["zeros/kernel"][:] = 0.0
    return values


def test_adamw_equals_pytorch(start):
    torch = pytest.importorskip("torch")
    optimizer, variables = make("adamw", start, 0.1)
    weights = {name: torch.nn.Parameter(torch.tensor(value)) for name, value in start.items()}
    groups = [
        {"params": [weight], "weight_decay": 0.01 if name.endswith("kernel") else 0.0}
        for name, weight in weights.items()
    ]
    reference = torch.optim.AdamW(groups, lr=0.1, eps=1e-6)
    rng = np.random.default_rng(2)
    for _ in range(20):
        # Too small to be clipped.
        gradients = {n: 0.05 * rng.normal(size=v.shape).astype("float32") for n, v in start.items()}
        optimizer.apply_reduced({name: tf.constant(x) for name, x in gradients.items()})
        for name, weight in weights.items():
            weight.grad = torch.tensor(gradients[name])
        reference.step()
    for name, weight in weights.items():
        np.testing.assert_allclose(variables[name], weight.detach().numpy(), atol=2e-5)


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_weights_in_another_precision(start, dtype):
    """The update is computed in float32 or float64."""
    results = {}
    for kind in ("float32", dtype):
        optimizer, variables = make("adamw", {n: x.astype(kind) for n, x in start.items()}, 0.1)
        optimizer.apply_reduced({n: tf.cast(0.1 * x, kind) for n, x in start.items()})
        results[kind] = {n: tf.cast(x, "float64") for n, x in variables.items()}
        assert {x.dtype for x in variables.values()} == {tf.as_dtype(kind)}
    for name, value in results["float32"].items():
        np.testing.assert_allclose(results[dtype][name], value, atol=0.02)


def test_lamb(start):
    """You et al., algorithm 2."""
    optimizer, variables = make("lamb", start, 0.1)
    rng = np.random.default_rng(1)
    expected = {name: value.astype("float64") for name, value in start.items()}
    m, v = dict.fromkeys(start, 0.0), dict.fromkeys(start, 0.0)
    for step in (1, 2, 3):
        # Too small to be clipped.
        gradients = {name: 0.1 * rng.normal(size=value.shape) for name, value in start.items()}
        optimizer.apply_reduced({n: tf.constant(g, tf.float32) for n, g in gradients.items()})
        for name, g in gradients.items():
            m[name] = 0.9 * m[name] + 0.1 * g
            v[name] = 0.999 * v[name] + 0.001 * g**2
            weight, trust = expected[name], 1.0
            ratio = m[name] / (1 - 0.9**step) / (np.sqrt(v[name] / (1 - 0.999**step)) + 1e-6)
            if name.endswith("kernel"):
                ratio = ratio + 0.01 * weight
                if (norm := np.linalg.norm(weight)) > 0:
                    trust = norm / np.linalg.norm(ratio)
            expected[name] = weight - 0.1 * trust * ratio
            np.testing.assert_allclose(variables[name], expected[name], rtol=1e-5, atol=1e-6)


def test_layer_decay():
    names = {
        "bert/embeddings/word_embeddings": 0.5**3,
        "bert/embeddings_project/kernel": 0.5**3,  # ELECTRA
        "bert/encoder/layer_0/output/dense/kernel": 0.5**2,
        "bert/encoder/layer_1/output/dense/kernel": 0.5,
        "bert/encoder/layer_2/output/dense/kernel": 1.0,
        "bert/pooler/dense/kernel": 1.0,
        "output_weights": 1.0,
    }
    assert rate_factors(names, 0.5) == names
    ones = {name: np.ones(3, "float32") for name in names}
    for kind in OPTIMIZERS:
        steps = {}
        for layer_decay in (1.0, 0.5):
            optimizer, variables = make(kind, ones, 0.1, layer_decay=layer_decay)
            optimizer.apply_reduced({name: tf.constant([0.1, -0.2, 0.3]) for name in names})
            steps[layer_decay] = {name: 1.0 - v.numpy() for name, v in variables.items()}
        for name, factor in names.items():
            np.testing.assert_allclose(
                steps[0.5][name], factor * steps[1.0][name], atol=1e-6, err_msg=f"{kind} {name}"
            )


def test_a_step_without_gradients_changes_nothing():
    """As if no trained weight affects the loss."""
    optimizer, variables = make("bert_adam", {"kernel": np.ones(3, "float32")}, 0.1)
    assert optimizer.apply_reduced({}) == 0
    assert variables["kernel"].numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("kind", ["bert_adam", "lamb"])
def test_the_update_has_few_operations(kind):
    """A GPU launches each operation; BERT-Base has 75 large weights and 126 small ones."""
    shapes = {f"layer_{i}/kernel": (128, 128) for i in range(75)}
    shapes |= {f"layer_{i}/bias": (128,) for i in range(126)}
    optimizer, _ = make(kind, {name: np.zeros(x, "float32") for name, x in shapes.items()}, 0.1)
    update = tf.function(optimizer.apply_reduced, autograph=False)
    specs = {name: tf.TensorSpec(shape) for name, shape in shapes.items()}
    nodes = update.get_concrete_function(specs).graph.as_graph_def().node
    # Grappler removes identities and reshapes of vectors.
    free = {"Placeholder", "Const", "NoOp", "Identity", "Reshape"}
    assert len([node for node in nodes if node.op not in free]) <= 200
