"""Time training steps and predictions of a BERT classifier on a GPU, in mixed bfloat16.

    python benchmarks/gpu_step.py --size=large --max_seq_length=512
    python benchmarks/gpu_step.py --library=transformers --size=large --max_seq_length=512

bert_tf and keras-hub run in Keras' `fit`, on JAX or with `--backend=tensorflow`; transformers runs
with torch.compile and scaled dot-product attention. No sequence has padding. The steps include
dropout, clipping and the optimizer.
"""

import os
import statistics
import time

import numpy as np
from absl import app, flags

FLAGS = flags.FLAGS
SIZES = {"tiny": (2, 128, 2), "base": (12, 768, 12), "large": (24, 1024, 16)}
STEPS = 40

flags.DEFINE_enum("library", "bert_tf", ["bert_tf", "keras_hub", "transformers"], "Library.")
flags.DEFINE_enum("backend", "jax", ["jax", "tensorflow"], "Backend of Keras.")
flags.DEFINE_bool("xla", True, "Whether TensorFlow compiles with XLA.")
flags.DEFINE_enum("size", "base", SIZES, "Size of the model.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
flags.DEFINE_integer("max_seq_length", 128, "Tokens in an example.")


def main(_):
    FLAGS.xla |= FLAGS.backend == "jax"  # always compiles
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
    make = make_transformers if FLAGS.library == "transformers" else make_keras
    train, predict, peak_bytes = make(sizes, ids, labels)
    start = time.perf_counter()
    train()
    first = time.perf_counter() - start
    step = statistics.median(seconds(train) for _ in range(3)) / STEPS
    predict()
    prediction = statistics.median(seconds(predict) for _ in range(30))
    name = FLAGS.library
    if name != "transformers":
        name += f", {FLAGS.backend}" + ("" if FLAGS.xla else " without XLA")
    batch = f"{FLAGS.batch_size} x {FLAGS.max_seq_length}"
    print("| library | model | batch | first steps, s | step, ms | prediction, ms | memory, GB |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    print(
        f"| {name} | {FLAGS.size} | {batch} | {first:.1f} | {1e3 * step:.1f} | "
        f"{1e3 * prediction:.2f} | {peak_bytes() / 1e9:.1f} |"
    )


def seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def make_keras(sizes, ids, labels):
    """Return functions that train `STEPS` steps, predict, and return the peak of the memory."""
    os.environ["KERAS_BACKEND"] = FLAGS.backend
    import keras

    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    batch = {"segment_ids": np.zeros_like(ids)}
    if FLAGS.library == "bert_tf":
        import bert_tf

        model = bert_tf.BertClassifier(bert_tf.BertConfig(**sizes), 2, dtype="mixed_bfloat16")
        optimizer = bert_tf.AdamWeightDecay(2e-5)
        batch = {**batch, "input_ids": ids, "input_mask": np.ones_like(ids)}
        loss, labels = {"logits": loss}, {"logits": labels}
    else:
        from keras_hub.models import BertBackbone, BertTextClassifier

        backbone = BertBackbone(
            sizes["vocab_size"],
            sizes["num_hidden_layers"],
            sizes["num_attention_heads"],
            sizes["hidden_size"],
            sizes["intermediate_size"],
            dtype="mixed_bfloat16",
        )
        model = BertTextClassifier(backbone, 2, dtype="mixed_bfloat16")
        optimizer = keras.optimizers.AdamW(2e-5, weight_decay=0.01, global_clipnorm=1.0)
        batch = {**batch, "token_ids": ids, "padding_mask": np.ones_like(ids)}
    model.compile(optimizer, loss, metrics=None, jit_compile=FLAGS.xla)

    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return STEPS

        def __getitem__(self, _):
            return batch, labels

    if FLAGS.backend == "jax":
        import jax

        call = jax.jit(lambda *x: model.stateless_call(*x, training=False)[0])
        on_device = jax.device_put(batch)

        def predict():
            groups = (model.trainable_variables, model.non_trainable_variables)
            jax.block_until_ready(call(*([v.value for v in x] for x in groups), on_device))

        def peak_bytes():
            return (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use", 0)

    else:
        import tensorflow as tf

        call = tf.function(model, autograph=False, jit_compile=FLAGS.xla)
        on_device = {name: tf.constant(x) for name, x in batch.items()}

        def predict():
            return [np.asarray(x) for x in keras.tree.flatten(call(on_device))]

        def peak_bytes():
            gpus = tf.config.list_logical_devices("GPU")
            return tf.config.experimental.get_memory_info("GPU:0")["peak"] if gpus else 0

    # The `fit` of keras-hub takes no `PyDataset`.
    return lambda: keras.Model.fit(model, Batches(), verbose=0), predict, peak_bytes


def make_transformers(sizes, ids, labels):
    """Return the functions of `make_keras` for PyTorch."""
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
