"""Exported models skip padding and compute in half precision."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import configs
from bert_tf.serving import prepared_model
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tokenization.settings import INPUTS
from tests.common import TINY
from tests.serving.conftest import BUCKETS
from tests.serving.serving_models import make_servable, model_of, padded_ids, task_config


@pytest.mark.parametrize(
    ("serving_config", "expected"),
    [
        (configs.ServingConfig(), True),
        (configs.ServingConfig(skip_padding=False), False),
        # Converters, compilers and devices with static shapes lack the operations.
        (configs.ServingConfig("ids"), False),
        (configs.ServingConfig("ids", skip_padding=True), True),
        (configs.ServingConfig(sequence_buckets=BUCKETS), False),
        (configs.ServingConfig(sequence_buckets=BUCKETS, skip_padding=True), True),
        (configs.ServingConfig(weights="int8"), True),
    ],
)
def test_when_padding_is_left_out(serving_config, expected, vocab_file):
    servable = make_servable("encoder", vocab_file, serving_config)
    inputs, mask = padded_ids(servable)
    vectors = servable.serve_ids(inputs)["sequence_output"].numpy()
    assert (vectors[mask == 1] != 0).any(-1).all()
    assert (vectors[mask == 0] == 0).all() == expected


@pytest.mark.parametrize("max_constant_bytes", [0, 1e8])
def test_half_precision_is_that_of_keras(max_constant_bytes, vocab_file, monkeypatch):
    """Weights are converted once rather than in each call, and the model stays unchanged."""
    monkeypatch.setattr(prepared_model, "_MAX_CONSTANT_BYTES", max_constant_bytes)
    mixed = bert_tf.BertModel(model_of("encoder").config, dtype="mixed_bfloat16")
    mixed.set_weights(model_of("encoder").get_weights())
    inputs, _ = padded_ids(make_servable("encoder", vocab_file, configs.ServingConfig()))
    expected = mixed(inputs, training=False)["pooled_output"]
    types = {None: ("bfloat16", "float32"), "bfloat16": ("bfloat16",) * 2,
             "float32": ("float32",) * 2}  # fmt: skip
    for dtype, (compute_type, weight_type) in types.items():
        serving_config = configs.ServingConfig(dtype=dtype)
        model, call, *_ = prepare_model(mixed, task_config("encoder", vocab_file), serving_config)
        assert (model is mixed) == (dtype is None)
        assert model.compute_dtype == compute_type and model.variable_dtype == weight_type
        pooled = call(inputs)["pooled_output"]
        assert pooled.dtype == compute_type
        values = (tf.cast(x, tf.float32) for x in (pooled, expected))
        np.testing.assert_allclose(*values, atol=0.05)
    assert mixed.variable_dtype == "float32"


def test_float64(vocab_file):
    """TensorFlow's fused normalization lacks float64."""
    model = bert_tf.BertModel(TINY, dtype="float64")
    config = task_config("encoder", vocab_file)
    _, call, *_ = prepare_model(model, config, configs.ServingConfig())
    inputs = {name: tf.ones((2, 3), tf.int32) for name in INPUTS}
    pooled = tf.function(call)(inputs)["pooled_output"]
    np.testing.assert_allclose(pooled, model(inputs)["pooled_output"], atol=1e-6)


@pytest.mark.slow
def test_keras_quantized_models_keep_their_precision(vocab_file):
    config = task_config("encoder", vocab_file)
    model = bert_tf.BertModel(model_of("encoder").config)
    model.quantize("int8")
    assert prepare_model(model, config, configs.ServingConfig(dtype="float32")).model is model
    with pytest.raises(bert_tf.UserError, match="`dtype=bfloat16`"):
        prepare_model(model, config, configs.ServingConfig(dtype="bfloat16"))
