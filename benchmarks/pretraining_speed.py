#!/usr/bin/env python3
"""Compare the speed of pre-training from records to weights: examples per second.

    python benchmarks/pretraining_speed.py --input_file='data/*.tfrecord' --turns=3 \
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

import helpers
import step_time
from absl import app, flags

FLAGS = flags.FLAGS  # step_time.py defines more flags: sizes, dtypes, turns, library
flags.DEFINE_string("input_file", None, "Records of create_pretraining_data.py.", required=True)
flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked words of a record.")
flags.DEFINE_integer("num_steps", 9, "Number of steps in a run.")


def bert_tf_speed(job):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    with tempfile.TemporaryDirectory() as folder:
        config = os.path.join(folder, "bert_config.json")
        with open(config, "w", encoding="utf-8") as writer:
            json.dump(step_time.sizes(job), writer)
        command = [
            sys.executable,
            os.path.join(helpers.ROOT, "run_pretraining.py"),
            "--do_train",
            f"--dtype={job.dtype}",
            f"--input_file={FLAGS.input_file}",
            f"--max_seq_length={job.length}",
            f"--max_predictions_per_seq={FLAGS.max_predictions_per_seq}",
            f"--bert_config_file={config}",
            f"--train_batch_size={job.batch}",
            f"--num_train_steps={FLAGS.num_steps}",
            f"--learning_rate={step_time.RATE}",
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
            seconds += job.batch * (event.step - last) / speed
            last = event.step
        return job.batch * (last - first.step) / seconds


def batches(job, *names):
    """Return batches (inputs, labels, weights) for `fit`.

    `names` are the names of the inputs in a library: ids, mask, segments, masked positions.
    """
    import tensorflow as tf

    length, count = job.length, FLAGS.max_predictions_per_seq
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
        # The first features, in the same order.
        inputs = {
            name: tf.cast(x[key], tf.int32) for name, key in zip(names, features, strict=False)
        }
        is_next, is_real = x["next_sentence_labels"], tf.ones_like(x["masked_lm_weights"][:, 0])
        return inputs, (x["masked_lm_ids"], is_next), (x["masked_lm_weights"], is_real)

    paths = tf.io.gfile.glob(FLAGS.input_file)
    data = tf.data.TFRecordDataset(paths).repeat().shuffle(1000)
    data = data.batch(job.batch, drop_remainder=True)
    return data.map(convert, tf.data.AUTOTUNE).prefetch(tf.data.AUTOTUNE)


def fit_speed(job, keras, model, loss, data):
    """Return the examples per second of `fit` after its first step."""
    rate, decay, clip = step_time.RATE, step_time.DECAY, step_time.CLIP
    optimizer = keras.optimizers.AdamW(rate, weight_decay=decay, global_clipnorm=clip)
    model.compile(optimizer, loss, jit_compile=False)  # see step_time.py
    times = []

    class Clock(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            times.append(time.perf_counter())

    model.fit(data, epochs=1, steps_per_epoch=FLAGS.num_steps, callbacks=[Clock()], verbose=0)
    return job.batch * (len(times) - 1) / (times[-1] - times[0])


def keras_hub_speed(job):
    import keras
    import keras_hub

    backbone = step_time.keras_hub_backbone(job)
    model = keras_hub.models.BertMaskedLM(backbone, preprocessor=None)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    data = batches(job, "token_ids", "padding_mask", "segment_ids", "mask_positions")
    data = data.map(lambda x, labels, weights: (x, labels[0], weights[0]))
    return fit_speed(job, keras, model, loss, data)


def official_speed(job):
    import tf_keras
    from official.nlp.modeling import models

    encoder = step_time.official_encoder(job)
    model = models.BertPretrainer(encoder, step_time.LABELS, FLAGS.max_predictions_per_seq)
    loss = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    losses = {"masked_lm": loss, "classification": loss}
    names = ("input_word_ids", "input_mask", "input_type_ids", "masked_lm_positions")
    data = batches(job, *names).map(
        lambda x, *values: (x, *(dict(zip(losses, pair, strict=True)) for pair in values))
    )
    return fit_speed(job, tf_keras, model, losses, data)


SPEEDS = {
    "bert_tf": bert_tf_speed,
    "keras-hub": keras_hub_speed,
    "tf-models-official": official_speed,
}


def main(_):
    if FLAGS.serve:
        name, job = json.loads(FLAGS.serve)
        return helpers.serve(lambda: (SPEEDS[name](step_time.Job(*job)), None))
    names = [name for name in step_time.selected_libraries() if name in SPEEDS]
    helpers.print_head("", "", "examples per second", "from - to", "time, bert_tf is 1")
    for dtype in FLAGS.dtypes:
        job = step_time.job_of_flags("train", dtype)
        speeds = {name: [] for name in names}
        for _ in range(FLAGS.turns):
            for name in names:
                python = FLAGS.official_python if name == "tf-models-official" else sys.executable
                worker = helpers.Worker(name, job, python=python)
                speeds[name].append(worker.first)
                worker.close()
        for name, values in speeds.items():
            helpers.print_row(
                dtype, name, f"{statistics.median(values):.2f}",
                f"{min(values):.2f} - {max(values):.2f}",
                f"{helpers.ratio(speeds[names[0]], values):.2f}",
            )  # fmt: skip


if __name__ == "__main__":
    app.run(main)
