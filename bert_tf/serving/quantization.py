"""Models whose weights take less room in a SavedModel.

The weights are kept in bfloat16 or in 8 bits and made float32 again where they are used, so what is
computed is what the float32 model with these rounded weights would compute. That makes the files a
half and a quarter as large; it does not make the model quicker.
"""

import numpy as np
import tensorflow as tf

WEIGHT_TYPES = ("float32", "bfloat16", "int8")

# Smaller ones (norms, biases) stay as they are: they are a thousandth of the whole.
_SMALLEST = 4096


class Compressed(tf.Module):
    """Stands for a Keras model: called as it is, with the same results but for rounding."""

    def __init__(self, model, kind):
        """Takes a model and one of `WEIGHT_TYPES`; the model's own weights are not touched.

        int8 is symmetric, with a scale for each word of a table and each output of a kernel: that
        of its greatest value (Jacob et al., arXiv:1712.05877, section 2, with zero point 0).
        """
        super().__init__()
        # Not the model itself: tf.Module would save its weights too.
        self._call = model.stateless_call
        self.kept, self._scales = [], []
        for variable in model.trainable_variables:
            value = variable.numpy()
            is_large = value.size >= _SMALLEST and value.ndim == 2
            scale = None
            if kind == "int8" and is_large:
                name = variable.path.split("/")[-1]
                axis = 1 if "embeddings" in name or name == "output_weights" else 0
                scale = np.abs(value).max(axis, keepdims=True) / 127
                scale = np.where(scale == 0, 1, scale).astype("float32")
                value = np.rint(value / scale).astype("int8")
            elif kind == "bfloat16" and is_large:
                value = tf.cast(value, tf.bfloat16)
            self.kept.append(tf.Variable(value, trainable=False, name=variable.path))
            self._scales.append(None if scale is None else tf.Variable(scale, trainable=False))
        self._others = [
            tf.Variable(variable.value, trainable=False)
            for variable in model.non_trainable_variables
        ]

    def __call__(self, inputs, training=False):
        """The outputs of the model, not in training."""
        weights = []
        for value, scale in zip(self.kept, self._scales, strict=True):
            weight = tf.cast(value, tf.float32)
            weights.append(weight if scale is None else weight * scale)
        outputs, _ = self._call(weights, self._others, inputs, training=False)
        return outputs
