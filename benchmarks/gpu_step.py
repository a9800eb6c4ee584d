"""Time training steps and predictions of a BERT classifier on a GPU, in mixed bfloat16.

    python benchmarks/gpu_step.py --size=large --max_seq_length=512
    python benchmarks/gpu_step.py --library=transformers --size=large --max_seq_length=512

bert_tf runs Keras' `fit` on JAX; transformers runs with torch.compile and scaled dot-product
attention. No sequence has padding. The steps include dropout, clipping and the optimizer.
"""

import os
import statistics
import time

import numpy as np
from absl import app, flags

FLAGS = flags.FLAGS
SIZES = {"tiny": (2, 128, 2), "base": (12, 768, 12), "large": (24, 1024, 16)}
STEPS = 40

flags.DEFINE_enum("library", "bert_tf", ["bert_tf", "transformers"], "Library to measure.")
flags.DEFINE_enum("size", "base", SIZES, "Size of the model.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in an example.")


def main(_):
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, 30000, (FLAGS.batch_size, FLAGS.max_seq_length)).astype("int32")
    labels = rng.integers(0, 2, FLAGS.batch_size).astype("int32")
    layers, hidden, heads = SIZES[FLAGS.size]
    sizes = {
        "vocab_size": 30522,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "intermediate_size": 4 * hidden,
    }
    make = make_transformers if FLAGS.library == "transformers" else make_bert_tf
    train, predict, peak_bytes = make(sizes, ids, labels)
    start = time.perf_counter()
    train()
    first = time.perf_counter() - start
    step = statistics.median(seconds(train) for _ in range(3)) / STEPS
    predict()
    prediction = statistics.median(seconds(predict) for _ in range(30))
    batch = f"{FLAGS.batch_size} x {FLAGS.max_seq_length}"
    print("| library | model | batch | first steps, s | step, ms | prediction, ms | memory, GB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {FLAGS.library} | {FLAGS.size} | {batch} | {first:.1f} | {1e3 * step:.1f} | "
        f"{1e3 * prediction:.2f} | {peak_bytes() / 1e9:.1f} |"
    )


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def make_bert_tf(sizes, ids, labels):
    """Return functions that train `STEPS` steps, predict, and return the peak of the memory."""
    os.environ["KERAS_BACKEND"] = "jax"
    import jax
    import keras

    import bert_tf

    model = bert_tf.BertClassifier(bert_tf.BertConfig(**sizes), 2, dtype="mixed_bfloat16")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(bert_tf.AdamWeightDecay(2e-5), {"logits": loss})
    batch = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, _):
            return batch, {"logits": labels}

    call = jax.jit(lambda *x: model.stateless_call(*x, training=False)[0])
    on_device = jax.device_put(batch)
    device = jax.devices()[0]

    def predict():
        groups = (model.trainable_variables, model.non_trainable_variables)
        jax.block_until_ready(call(*([v.value for v in x] for x in groups), on_device))

    return (
        lambda: model.fit(Batches(), verbose=0),
        predict,
        lambda: (device.memory_stats() or {}).get("peak_bytes_in_use", 0),
    )


def make_transformers(sizes, ids, labels):
    """Return the functions of `make_bert_tf` for PyTorch."""
    import torch
    import transformers

    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = transformers.BertConfig(
        **sizes, hidden_act="gelu_pytorch_tanh", attn_implementation="sdpa"
    )
    model = transformers.BertForSequenceClassification(config).to(device)
    compiled = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, fused=True)
    ids, labels = (torch.tensor(x).long().to(device) for x in (ids, labels))
    batch = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    batch["token_type_ids"] = torch.zeros_like(ids)

    def wait():
        if device == "cuda":
            torch.cuda.synchronize()

    def train():
        model.train()
        for _ in range(STEPS):
            with torch.autocast(device, torch.bfloat16):
                loss = compiled(**batch, labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        wait()

    def predict():
        model.eval()
        with torch.no_grad(), torch.autocast(device, torch.bfloat16):
            compiled(**batch)
        wait()

    return train, predict, lambda: torch.cuda.max_memory_allocated() if device == "cuda" else 0


if __name__ == "__main__":
    app.run(main)
