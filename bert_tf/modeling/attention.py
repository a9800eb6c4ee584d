"""Attention on NVIDIA GPUs with JAX in half precision, which does not keep the probabilities.

Without dropout, cuDNN computes attention in a single kernel. With dropout, the backward pass
computes the probabilities again, which takes less memory than keeping them.

Shapes: B batch, S sequence, N heads, D width of a head.
"""

import re

import keras
from keras import ops

from bert_tf.modeling import cpu_graph

# "xla" computes the same on other devices.
IMPLEMENTATION = "cudnn"
# The lowest compute capability with cuDNN's kernel.
_LEAST_CAPABILITY = 8.0


def capability():
    """Return the compute capability of the NVIDIA GPU that JAX uses, 0.0 without one."""
    if keras.backend.backend() != "jax":
        return 0.0
    import jax

    device = jax.config.jax_default_device or jax.devices()[0]
    text = str(getattr(device, "compute_capability", ""))
    return float(text) if re.fullmatch(r"\d+\.\d+", text) else 0.0  # AMD's versions have letters


def drops_probs(dtype):
    """Return whether attention in this dtype should not keep the probabilities."""
    is_half = dtype in ("bfloat16", "float16")
    return is_half and not cpu_graph.is_portable() and capability() >= _LEAST_CAPABILITY


def can_fuse(query, key):
    """Return whether cuDNN supports the shapes; it needs an even length for gradients."""
    _, length, _, width = key.shape
    is_even = isinstance(length, int) and length % 2 == 0
    return is_even and query.shape[1] == length and width % 8 == 0 and width <= 128


def fused(query, key, value, input_mask):
    """Return the context of queries, keys and values, all (B, S, N, D); `input_mask` is (B, S)."""
    import jax

    batch, length = input_mask.shape
    # cuDNN accepts a mask for each query only.
    mask = ops.cast(input_mask, "bool")[:, None, None]
    mask = ops.broadcast_to(mask, (batch, 1, length, length))
    return jax.nn.dot_product_attention(query, key, value, mask=mask, implementation=IMPLEMENTATION)
