"""Compare Keras' `dot_product_attention` with the attention of `TransformerLayer` on JAX.

KERAS_BACKEND=jax python benchmarks/jax_attention.py
"""

import statistics
import time

import numpy as np
from keras import ops

HEADS, WIDTH = 12, 64  # of BERT-Base


def layer(query, key, value, mask):
    """Compute attention like `TransformerLayer`, of rows (B, S, N, D) with a mask (B, S)."""
    query, key, value = (ops.transpose(x, (0, 2, 1, 3)) for x in (query, key, value))
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2))) * WIDTH**-0.5
    is_padding = 1.0 - ops.expand_dims(ops.cast(mask, query.dtype), (1, 2))
    probs = ops.softmax(scores + is_padding * -10000.0)
    return ops.transpose(ops.matmul(probs, value), (0, 2, 1, 3))


def fused(query, key, value, mask):
    """Compute attention with Keras, which uses FlashAttention if the device supports it."""
    mask = ops.expand_dims(mask > 0, (1, 2))
    return ops.dot_product_attention(query, key, value, mask=mask, scale=WIDTH**-0.5)


def main():
    import jax
    import jax.numpy as jnp

    print(f"{jax.devices()[0]}; the time of dot_product_attention, divided by the layer's")
    print("| type | batch | forward | gradient | largest difference |")
    print("| --- | --- | --- | --- | --- |")
    for dtype in ("float32", "bfloat16"):
        for batch, length in ((8, 128), (4, 512)):
            rng = np.random.default_rng(0)
            shape = (batch, length, HEADS, WIDTH)
            rows = [jnp.asarray(rng.normal(size=shape), dtype) for _ in range(3)]
            lengths = np.linspace(length / 2, length, batch)[:, None]
            mask = jnp.asarray(np.arange(length) < lengths, "int32")
            functions = {}
            for function in (layer, fused):

                def loss(rows, function=function, mask=mask):
                    return function(*rows, mask).astype("float32").sum()

                def forward(rows, function=function, mask=mask):
                    return function(*rows, mask)

                functions[function, "forward"] = jax.jit(forward)
                functions[function, "gradient"] = jax.jit(jax.grad(loss))
            seconds = {key: [] for key in functions}
            outputs = {key: jax.block_until_ready(f(rows)) for key, f in functions.items()}
            for _ in range(11):
                for key, function in functions.items():
                    start = time.perf_counter()
                    for _ in range(5):
                        jax.block_until_ready(function(rows))
                    seconds[key].append(time.perf_counter() - start)
            ratios = [
                statistics.median(seconds[fused, kind]) / statistics.median(seconds[layer, kind])
                for kind in ("forward", "gradient")
            ]
            difference = outputs[fused, "forward"] - outputs[layer, "forward"]
            print(
                f"| {dtype} | {batch} x {length} | {ratios[0]:.2f} | {ratios[1]:.2f} | "
                f"{float(jnp.abs(difference).max()):.1g} |"
            )


if __name__ == "__main__":
    main()
