"""Checks for every model of `bert_tf.modeling`, and helpers to run models."""

import keras
import numpy as np
import tensorflow as tf

from bert_tf.modeling import (
    BertClassifier,
    BertModel,
    BertMultipleChoice,
    BertPretrainer,
    BertSpanLabeler,
    BertTokenClassifier,
)
from tests.common import NO_DROPOUT, enlarge_weights, features

LABELS = {"num_labels": 3}
# The arguments of each model in addition to its config.
MODELS = {
    BertClassifier: LABELS,
    BertModel: {"with_attention_probs": True},
    BertMultipleChoice: {},
    BertPretrainer: {},
    BertSpanLabeler: {},
    BertTokenClassifier: LABELS,
}
_OF_SEQUENCES = ("pooled_output", "masked_lm_logits", "next_sentence_logits")


class BackboneTest:
    """Checks of files, clones, half precision and skipped padding of a model.

    Args:
      make: function from a dtype policy, None for float32, to a model without dropout; the
        weights are always the same.
      batch: dict of the model's inputs, with padding.
      folder: a `pathlib.Path` for files.
    """

    def __init__(self, make, batch, folder):
        self.make, self.batch, self.folder = make, batch, folder

    def keras_file(self, dtype=None):
        """A `.keras` file keeps the class and the outputs; test_saving.py freezes layers."""
        model, path = self.make(dtype), self.folder / "model.keras"
        model.save(path)
        loaded = keras.saving.load_model(path)
        assert type(loaded) is type(model)
        assert_same_outputs(loaded, model, self.batch)

    def keras_file_of_half_precision(self):
        """The file of a model in half precision keeps them too."""
        self.keras_file("mixed_bfloat16")

    def clone(self):
        """A clone with the same weights has the same outputs."""
        model = self.make(None)
        clone = keras.models.clone_model(model)
        clone.set_weights(model.get_weights())
        assert_same_outputs(clone, model, self.batch)

    def half_precision(self):
        """Outputs in half precision are similar, and heads output float32."""
        model = self.make(None)
        expected = of_tokens(model(self.batch), self.batch)
        largest = max(float(tf.reduce_max(tf.abs(x))) for x in expected.values())
        for dtype in ("mixed_bfloat16", "mixed_float16"):
            half = self.make(dtype)
            half.set_weights(model.get_weights())
            outputs = half(self.batch)
            assert isinstance(model, BertModel) or {x.dtype for x in outputs.values()} == {
                tf.float32
            }
            for name, value in of_tokens(outputs, self.batch).items():
                np.testing.assert_allclose(value, expected[name], atol=0.05 * largest, rtol=0)

    def skipped_padding(self):
        """Skipping padding does not change outputs and gradients."""
        model = self.make(None)
        outputs, gradients = outputs_and_gradients(model, self.batch)
        others, other_gradients = outputs_and_gradients(model, self.batch, skip_padding=True)
        assert outputs.keys() == others.keys()
        for name, value in outputs.items():
            np.testing.assert_allclose(others[name], value, atol=1e-5, rtol=1e-5, err_msg=name)
        assert gradients.keys() == other_gradients.keys()
        for name, value in gradients.items():
            limit = 2e-6 * max(float(tf.reduce_max(tf.abs(value))), 1.0)
            np.testing.assert_allclose(
                other_gradients[name], value, atol=limit, rtol=1e-5, err_msg=name
            )


CHECKS = ("keras_file", "keras_file_of_half_precision", "clone", "half_precision",
          "skipped_padding")  # fmt: skip


def padded_batch():
    """Return four sequences: of different lengths, one with a gap, one that is all padding."""
    batch = features(batch=4)
    mask = np.zeros_like(batch["input_mask"])
    mask[0, :8], mask[1, :5], mask[2, [0, 3]] = 1, 1, 1
    positions = np.array([[1, 7], [4, 2], [3, 0], [0, 0]], "int32")
    return {**batch, "input_mask": mask, "masked_lm_positions": positions}


def make_model(model_class, dtype=None, config=NO_DROPOUT):
    """Return a model with large weights and no dropout, and a batch for it."""
    keras.utils.set_random_seed(3)
    model = model_class(config, dtype=dtype, **MODELS[model_class])
    enlarge_weights(model)
    batch = padded_batch()
    if model_class is BertMultipleChoice:
        batch = {name: value.reshape(2, 2, -1) for name, value in batch.items()}
    return model, batch


def of_tokens(outputs, batch):
    """Return outputs as a flat dict, without padding and all-padding sequences."""
    mask, values = batch["input_mask"], {}
    for name, value in outputs.items():
        for i, x in enumerate(value if isinstance(value, list) else [value]):
            x = tf.cast(x, tf.float32)
            if mask.ndim == 3:  # two choices of two examples
                x = x[0]
            elif name == "attention_probs":
                x = tf.boolean_mask(tf.transpose(x, (0, 2, 1, 3)), mask == 1)
            elif name in _OF_SEQUENCES or (len(x.shape) == 2 and name == "logits"):
                x = x[:-1]
            else:
                x = tf.boolean_mask(x, mask == 1)
            values[f"{name}_{i}"] = x
    return values


def outputs_and_gradients(model, batch, **arguments):
    """Return the outputs at tokens, and the gradients of a randomly weighted sum of them."""
    specs = {
        name: tf.TensorSpec((value.shape[0], *[None] * (value.ndim - 1)), value.dtype)
        for name, value in batch.items()
    }
    rng = np.random.default_rng(0)
    weights = {
        name: rng.normal(size=x.shape).astype("float32")
        for name, x in sorted(of_tokens(model(batch), batch).items())
    }

    @tf.function(input_signature=[specs], autograph=False)
    def run(inputs):
        with tf.GradientTape() as tape:
            outputs = of_tokens(model(inputs, training=True, **arguments), batch)
            loss = sum(tf.reduce_sum(x * weights[name]) for name, x in outputs.items())
        variables = {v.path: v.value for v in model.trainable_variables}
        gradients = tape.gradient(loss, variables)
        return outputs, {
            name: tf.convert_to_tensor(x) for name, x in gradients.items() if x is not None
        }

    return run(batch)


def assert_same_outputs(model, expected_model, batch=None):
    """Assert that two models give the same outputs and types for a batch, default `features`."""
    batch = {name: x for name, x in (batch or features()).items() if name in model.input}
    outputs, expected = (keras.tree.flatten(m(batch)) for m in (model, expected_model))
    for a, b in zip(outputs, expected, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def load_with_transformers(transformers, path, name="BertModel"):
    """Load a folder with `transformers`, requiring that all weights match."""
    model, info = getattr(transformers, name).from_pretrained(path, output_loading_info=True)
    assert not any(info.values()), info
    return model.eval()


def run_with_transformers(model, batch):
    """Return the outputs of a `transformers` model as a dict of arrays."""
    import torch

    tensors = {"input_ids": batch["input_ids"], "attention_mask": batch["input_mask"]}
    if "DistilBert" not in type(model).__name__:
        tensors["token_type_ids"] = batch["segment_ids"]
    with torch.no_grad():
        outputs = model(**{name: torch.tensor(value).long() for name, value in tensors.items()})
    return {name: value.numpy() for name, value in outputs.items() if hasattr(value, "numpy")}
