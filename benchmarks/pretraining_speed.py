#!/usr/bin/env python3
"""Compare the speed of pre-training from records to weights: examples per second.

    python benchmarks/pretraining_speed.py --input_file='data/*.tfrecord' \
      --official_python=OTHER_VENV/bin/python

bert_tf is `run_pretraining.py` itself. keras-hub has only masked words, without next sentences;
tf-models-official (`BertPretrainer`) has both. These two are trained with `fit` and AdamW, and read
the same records through `tf.data`: shuffled, batched, parsed and prefetched. All use the same model
with random weights, dropout 0.1 and clipping to a global norm of 1. Each run is a process of its
own, the libraries take turns, and the first step, which traces, is excluded.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "Records of create_pretraining_data.py.", required=True)
flags.DEFINE_list("libraries", ["bert_tf", "keras-hub", "tf-models-official"], "Libraries.")
flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "Types to compute in.")
flags.DEFINE_integer("layers", 12, "Number of layers.")
flags.DEFINE_integer("hidden_size", 768, "Hidden size; heads have size 64.")
flags.DEFINE_integer("vocab_size", 30522, "Size of the vocabulary.")
flags.DEFINE_integer("batch_size", 32, "Examples in a batch.")
flags.DEFINE_integer("max_seq_length", 128, "Sequence length of the records.")
flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked words of a record.")
flags.DEFINE_integer("num_steps", 9, "Number of steps in a run.")
flags.DEFINE_integer("turns", 3, "Number of runs of each library.")
flags.DEFINE_string("official_python", None, "Python interpreter with tf-models-official.")
flags.DEFINE_string("library", None, "Run only this library; used by the script itself.")

_SCRIPT = os.path.join(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "run_pretraining.py"
)
RATE, DECAY, CLIP = 1e-5, 0.01, 1.0


def sizes():
    """Return the sizes of the model with the names of the release."""
    return {
        "vocab_size": FLAGS.vocab_size,
        "hidden_size": FLAGS.hidden_size,
        "num_hidden_layers": FLAGS.layers,
        "num_attention_heads": FLAGS.hidden_size // 64,
        "intermediate_size": 4 * FLAGS.hidden_size,
    }


def bert_tf_speed(dtype):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "bert_config.json")
        with open(config, "w", encoding="utf-8") as writer:
            json.dump(sizes(), writer)
        command = [sys.executable, _SCRIPT, "--do_train", f"--dtype={dtype}"]
        command += [f"--{name}={FLAGS[name].value}" for name in (
            "input_file", "max_seq_length", "max_predictions_per_seq")]  # fmt: skip
        command += [
            f"--bert_config_file={config}",
            f"--train_batch_size={FLAGS.batch_size}",
            f"--num_train_steps={FLAGS.num_steps}",
            f"--learning_rate={RATE}",
            "--num_warmup_steps=0",
            f"--output_dir={folder}/run",
        ]
        subprocess.run(command, check=True, stdout=2)
        events = EventAccumulator(os.path.join(folder, "run")).Reload()
        # The first report is after the first loop of steps.
        first, *_ = events.Tensors("learning_rate")
        last, seconds = first.step, 0.0
        for event in events.Tensors("examples_per_second"):
            speed = float(make_ndarray(event.tensor_proto))
            seconds += FLAGS.batch_size * (event.step - last) / speed
            last = event.step
        return FLAGS.batch_size * (last - first.step) / seconds


def batches(names):
    """Return batches (inputs, labels, weights) for `fit`, the inputs by the names of a library."""
    import tensorflow as tf

    length, count = FLAGS.max_seq_length, FLAGS.max_predictions_per_seq
    features = {
        "input_ids": tf.io.FixedLenFeature(length, tf.int64),
        "input_mask": tf.io.FixedLenFeature(length, tf.int64),
        "segment_ids": tf.io.FixedLenFeature(length, tf.int64),
        "masked_lm_positions": tf.io.FixedLenFeature(count, tf.int64),
        "masked_lm_ids": tf.io.FixedLenFeature(count, tf.int64),
        "masked_lm_weights": tf.io.FixedLenFeature(count, tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature(1, tf.int64),
    }

    def convert(records):
        x = tf.io.parse_example(records, features)
        inputs = {new: tf.cast(x[old], tf.int32) for old, new in names.items()}
        is_next, is_real = x["next_sentence_labels"], tf.ones_like(x["masked_lm_weights"][:, 0])
        return inputs, (x["masked_lm_ids"], is_next), (x["masked_lm_weights"], is_real)

    paths = tf.io.gfile.glob(FLAGS.input_file)
    data = tf.data.TFRecordDataset(paths).repeat().shuffle(1000)
    data = data.batch(FLAGS.batch_size, drop_remainder=True)
    return data.map(convert, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def fit_speed(keras, model, data):
    """Return the examples per second of `fit` after its first step."""
    times = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            times.append(time.perf_counter())

    model.fit(data, epochs=1, steps_per_epoch=FLAGS.num_steps, callbacks=[Clock()], verbose=0)
    return FLAGS.batch_size * (len(times) - 1) / (times[-1] - times[0])


def compile_options(keras):
    return {
        "optimizer": keras.optimizers.AdamW(RATE, weight_decay=DECAY, global_clipnorm=CLIP),
        "jit_compile": False,  # see step_time.py
    }


def keras_hub_speed(dtype):
    import keras
    import keras_hub

    config = sizes()
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=config["vocab_size"],
        num_layers=config["num_hidden_layers"],
        num_heads=config["num_attention_heads"],
        hidden_dim=config["hidden_size"],
        intermediate_dim=config["intermediate_size"],
        max_sequence_length=512,
        dtype="float32" if dtype == "float32" else f"mixed_{dtype}",
    )
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, **compile_options(keras))
    names = {
        "input_ids": "token_ids",
        "input_mask": "padding_mask",
        "segment_ids": "segment_ids",
        "masked_lm_positions": "mask_positions",
    }
    data = batches(names).map(lambda x, labels, weights: (x, labels[0], weights[0]))
    return fit_speed(keras, model, data)


def official_speed(dtype):
    import tf_keras as keras
    from official.nlp.modeling import models, networks

    if dtype != "float32":
        keras.mixed_precision.set_global_policy(f"mixed_{dtype}")
    config = sizes()
    encoder = networks.BertEncoder(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        intermediate_size=config["intermediate_size"],
        max_sequence_length=512,
    )
    model = models.BertPretrainer(encoder, 2, FLAGS.max_predictions_per_seq)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = {"masked_lm": loss, "classification": loss}
    model.compile(loss=losses, **compile_options(keras))
    names = {
        "input_ids": "input_word_ids",
        "input_mask": "input_mask",
        "segment_ids": "input_type_ids",
        "masked_lm_positions": "masked_lm_positions",
    }
    data = batches(names).map(
        lambda x, *values: (x, *(dict(zip(losses, pair, strict=True)) for pair in values))
    )
    return fit_speed(keras, model, data)


SPEEDS = {
    "bert_tf": bert_tf_speed,
    "keras-hub": keras_hub_speed,
    "tf-models-official": official_speed,
}


def main(_):
    if FLAGS.library:
        print(SPEEDS[FLAGS.library](*FLAGS.dtypes))
        return
    names = list(FLAGS.libraries)
    if not FLAGS.official_python and "tf-models-official" in names:
        names.remove("tf-models-official")
        print("tf-models-official is left out: --official_python is not given\n")
    print("| | | examples per second | from - to | time, bert_tf is 1 |")
    print("| --- | --- | --- | --- | --- |", flush=True)
    for dtype in FLAGS.dtypes:
        speeds = {name: [] for name in names}
        for _ in range(FLAGS.turns):
            for name in names:
                python = FLAGS.official_python if name == "tf-models-official" else sys.executable
                command = [python, *sys.argv, f"--library={name}", f"--dtypes={dtype}"]
                output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                speeds[name].append(float(output.stdout.split()[-1]))
        for name, values in speeds.items():
            pairs = zip(speeds[names[0]], values, strict=True)
            print(
                f"| {dtype} | {name} | {statistics.median(values):.2f} | {min(values):.2f} - "
                f"{max(values):.2f} | {statistics.median(a / b for a, b in pairs):.2f} |",
                flush=True,
            )


if __name__ == "__main__":
    app.run(main)
