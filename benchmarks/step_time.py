#!/usr/bin/env python3
"""Measure a forward pass and a training step of one model in bert_tf and in other libraries.

Forward: the encoder alone, without dropout. Training: a classifier of 2 labels on top of it,
dropout 0.1, forward, backward, clipping to a global norm of 1, and an update of Adam with decoupled
weight decay. Weights are random. The lengths of the sequences are spread evenly from half to all of
`--length`, which leaves a quarter of padding; with `--shortest=1` all are full.

The settings of each library:

| | forward, bfloat16 | training, bfloat16 | optimizer |
| --- | --- | --- | --- |
| bert_tf | weights in bfloat16 | policy mixed_bfloat16 | its own, in the loop of `training` |
| bert_tf, Keras fit | | policy mixed_bfloat16 | its own, `train_on_batch` with its losses |
| keras-hub | weights in bfloat16 | policy mixed_bfloat16 | Keras' AdamW, `train_on_batch` |
| tf-models-official | weights in bfloat16 | policy mixed_bfloat16 | tf_keras' AdamW, as above |
| transformers | weights in bfloat16 | torch.autocast | torch's AdamW, fused |
| transformers, compiled | the same through torch.compile | | |

Training keeps weights and moments in float32 everywhere.

    python benchmarks/step_time.py --turns=15 --official_python=OTHER_VENV/bin/python

tf-models-official requires a different TensorFlow, and therefore its own environment.
"""

import json
import os
import statistics
import sys
import tempfile
import time
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import helpers
import numpy as np
from absl import app, flags

RATE, DECAY, CLIP = 1e-5, 0.01, 1.0
SEGMENTS, POSITIONS, LABELS = 2, 512, 2


class Job(NamedTuple):
    """A measurement: "forward" or "train", the Keras dtype, and the sizes."""

    mode: str
    dtype: str
    layers: int
    width: int
    heads: int
    intermediate: int
    vocab: int
    batch: int
    length: int
    shortest: float

    @property
    def trains(self):
        return self.mode == "train"

    @property
    def policy(self):
        return f"mixed_{self.dtype}" if self.trains and self.dtype != "float32" else self.dtype


def features(job):
    """Return the batch as a dict of int32 arrays with bert_tf's names."""
    rng = np.random.default_rng(0)
    lengths = np.linspace(max(1, job.length * job.shortest), job.length, job.batch).astype(int)
    mask = (np.arange(job.length) < lengths[:, None]).astype("int32")
    shape = (job.batch, job.length)
    return {
        "input_ids": (rng.integers(1, job.vocab, shape) * mask).astype("int32"),
        "input_mask": mask,
        "segment_ids": (rng.integers(0, SEGMENTS, shape) * mask).astype("int32"),
        "label_ids": rng.integers(0, LABELS, job.batch).astype("int32"),
    }


def sizes(job):
    """Return the sizes with the names of bert_tf and transformers."""
    return {
        "vocab_size": job.vocab,
        "hidden_size": job.width,
        "num_hidden_layers": job.layers,
        "num_attention_heads": job.heads,
        "intermediate_size": job.intermediate,
        "max_position_embeddings": POSITIONS,
        "type_vocab_size": SEGMENTS,
    }


def _keras_forward(model, inputs, outputs):
    """Return a function that runs a forward pass in a graph with only these outputs."""
    import tensorflow as tf

    inputs = tf.nest.map_structure(tf.constant, inputs)

    @tf.function
    def forward(inputs):
        results = model(inputs, training=False)
        return [results[name] for name in outputs]

    return lambda: [value.numpy() for value in forward(inputs)]


def _keras_train(model, inputs, labels):
    import keras

    model.compile(
        optimizer=keras.optimizers.AdamW(RATE, weight_decay=DECAY, global_clipnorm=CLIP),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,  # on a CPU, XLA is slower in bfloat16 and not faster in float32
    )
    return lambda: model.train_on_batch(inputs, labels)


def bert_tf_step(job):
    from bert_tf import BertConfig, checkpoints, configs, modeling, optimization, training
    from bert_tf.cli.tensorflow_start import keep_freed_memory
    from bert_tf.tasks.classification.objective import ClassificationObjective

    config, batch = BertConfig(**sizes(job)), features(job)
    if not job.trains:
        del batch["label_ids"]
        model = modeling.BertModel(config, dtype=job.policy)
        return _keras_forward(model, batch, ("sequence_output", "pooled_output"))
    keep_freed_memory()  # as the scripts do
    import tensorflow as tf  # after bert_tf, which sets an environment variable for it

    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with tempfile.TemporaryDirectory() as folder:
        loop = training.Loop(
            lambda: ClassificationObjective(
                modeling.BertClassifier(config, LABELS, dtype=job.policy)
            ),
            training.TensorFlowEngine(strategy),
            folder,
        )
    optimizer = optimization.AdamWeightDecay(RATE, DECAY)
    optimizer.build(checkpoints.weights(loop.model))
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    step = training.make_train_step(loop.objective, optimizer, configs.TrainConfig())
    run_step = tf.function(lambda: strategy.run(step, args=(next(batches),))["loss"])
    return lambda: run_step().numpy()


def bert_tf_fit_step(job):
    if not job.trains:
        return None
    from bert_tf import BertConfig, modeling, optimization
    from bert_tf.tasks.classification.objective import ClassificationObjective

    batch = features(job)
    model = modeling.BertClassifier(BertConfig(**sizes(job)), LABELS, dtype=job.policy)
    model.objective, model.skip_padding = ClassificationObjective(model), True
    model.compile(optimization.AdamWeightDecay(RATE, DECAY))
    return lambda: model.train_on_batch(batch)


def keras_hub_backbone(job):
    import keras_hub

    return keras_hub.models.BertBackbone(
        vocabulary_size=job.vocab,
        num_layers=job.layers,
        num_heads=job.heads,
        hidden_dim=job.width,
        intermediate_dim=job.intermediate,
        max_sequence_length=POSITIONS,
        num_segments=SEGMENTS,
        dtype=job.policy,
    )


def keras_hub_step(job):
    import keras_hub

    batch, backbone = features(job), keras_hub_backbone(job)
    labels = batch.pop("label_ids")
    names = ("token_ids", "padding_mask", "segment_ids")
    batch = dict(zip(names, batch.values(), strict=True))
    if job.trains:
        classifier = keras_hub.models.BertTextClassifier(backbone, LABELS, preprocessor=None)
        return _keras_train(classifier, batch, labels)
    return _keras_forward(backbone, batch, ("sequence_output", "pooled_output"))


def official_encoder(job, **options):
    import tf_keras
    from official.nlp.modeling import networks

    tf_keras.mixed_precision.set_global_policy(job.policy)
    return networks.BertEncoder(
        vocab_size=job.vocab,
        hidden_size=job.width,
        num_layers=job.layers,
        num_attention_heads=job.heads,
        intermediate_size=job.intermediate,
        max_sequence_length=POSITIONS,
        type_vocab_size=SEGMENTS,
        **options,
    )


def official_step(job):
    import tf_keras
    from official.nlp.modeling import models

    # A classifier reads only the first position of the last layer.
    output_range = 1 if job.trains else None
    batch = features(job)
    encoder = official_encoder(job, dict_outputs=True, output_range=output_range)
    labels = batch.pop("label_ids")
    names = ("input_word_ids", "input_mask", "input_type_ids")
    batch = dict(zip(names, batch.values(), strict=True))
    if not job.trains:
        return _keras_forward(encoder, batch, ("sequence_output", "pooled_output"))
    classifier = models.BertClassifier(encoder, LABELS)
    classifier.compile(
        optimizer=tf_keras.optimizers.AdamW(RATE, weight_decay=DECAY, global_clipnorm=CLIP),
        loss=tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    return lambda: classifier.train_on_batch(batch, labels)


def transformers_step(job, compiled=False):
    import torch
    import transformers

    prepare = torch.compile if compiled else lambda model: model
    # The release's form of GELU, which the other libraries use.
    config = transformers.BertConfig(
        **sizes(job), num_labels=LABELS, hidden_act="gelu_pytorch_tanh"
    )
    names = ("input_ids", "attention_mask", "token_type_ids", "labels")
    values = [torch.tensor(x, dtype=torch.long) for x in features(job).values()]
    batch = dict(zip(names, values, strict=True))
    if not job.trains:
        del batch["labels"]
        forward = prepare(transformers.BertModel(config).eval().to(getattr(torch, job.dtype)))

        def infer():
            with torch.inference_mode():
                outputs = forward(**batch)
            return outputs.last_hidden_state, outputs.pooler_output

        return infer
    model = transformers.BertForSequenceClassification(config).train()
    forward = prepare(model)
    optimizer = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY, fused=True)

    def train():
        with torch.autocast("cpu", torch.bfloat16, enabled=job.dtype == "bfloat16"):
            loss = forward(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return train


LIBRARIES = {
    "bert_tf": bert_tf_step,
    "bert_tf, Keras fit": bert_tf_fit_step,
    "keras-hub": keras_hub_step,
    "tf-models-official": official_step,
    "transformers": transformers_step,
    "transformers, compiled": lambda job: transformers_step(job, compiled=True),
}

FLAGS = flags.FLAGS
flags.DEFINE_multi_enum(
    "library", list(LIBRARIES), list(LIBRARIES), "Library to measure; may be repeated."
)
flags.DEFINE_list("modes", ["forward", "train"], "What to measure.")
flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "Precisions to measure.")
for _name, _default in zip(Job._fields[2:-1], (12, 768, 12, 3072, 30522, 8, 128), strict=True):
    flags.DEFINE_integer(_name, _default, "Size of the model or the batch.")
flags.DEFINE_float(
    "shortest", 0.5, "Length of the shortest sequence, as a share of `--length`.", 0, 1
)
flags.DEFINE_integer("turns", 15, "Number of turns of each library.")
flags.DEFINE_string("official_python", None, "Python interpreter with tf-models-official.")
flags.DEFINE_string("serve", None, "Settings of a worker; used by the script itself.")


def start(name, job):
    """Return whether a library has the mode, and a function that returns the times of a step.

    They are the milliseconds of wall-clock time, and of processor time of all threads, which other
    work affects less.
    """
    step = LIBRARIES[name](job)
    for _ in range(3 if step else 0):  # traces, compiles, and creates the optimizer's moments
        step()

    def answer(_):
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        return (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000

    return step is not None, answer


def measure(names, job, turns):
    """Return a dict from each library that has the mode to the times of its turns."""
    pythons = {"tf-models-official": FLAGS.official_python}
    workers = {x: helpers.Worker(x, job, python=pythons.get(x, sys.executable)) for x in names}
    spent = {name: [] for name, worker in workers.items() if worker.first}
    for _ in range(turns):
        for name, times in spent.items():
            times.append(workers[name].ask())
    for worker in workers.values():
        worker.close()
    return spent


def selected_libraries():
    """Return the names in --library that can run, each once."""
    names = list(dict.fromkeys(FLAGS.library))
    if not FLAGS.official_python and "tf-models-official" in names:
        names.remove("tf-models-official")
        print("tf-models-official is left out: --official_python is not given\n")
    return names


def job_of_flags(mode, dtype):
    return Job(mode, dtype, *(getattr(FLAGS, name) for name in Job._fields[2:]))


def main(_):
    if FLAGS.serve:
        name, job = json.loads(FLAGS.serve)
        return helpers.serve(lambda: start(name, Job(*job)))
    names = selected_libraries()
    first = names[0]
    columns = ("milliseconds", "from - to", f"ratio to {first}", "processor time", "ratio")
    helpers.print_head("", "", *columns)
    for mode in FLAGS.modes:
        for dtype in FLAGS.dtypes:
            times = measure(names, job_of_flags(mode, dtype), FLAGS.turns)
            # Two columns for each library: wall-clock and processor time.
            times = {name: list(zip(*spent, strict=True)) for name, spent in times.items()}
            for name, (wall, cpu) in times.items():
                ratios = [helpers.ratio(times[name][i], times[first][i]) for i in range(2)]
                helpers.print_row(
                    f"{mode}, {dtype}", name, f"{statistics.median(wall):.0f}",
                    f"{min(wall):.0f} - {max(wall):.0f}", f"{ratios[0]:.2f}",
                    f"{statistics.median(cpu):.0f}", f"{ratios[1]:.2f}",
                )  # fmt: skip


if __name__ == "__main__":
    app.run(main)
