#!/usr/bin/env python3
"""Measures a forward pass and a training step of one model in bert_tf and in other libraries.

Forward: the encoder alone, without dropout. Training: a classifier of 2 labels on top of it,
dropout 0.1, forward, backward, clipping to a global norm of 1, and an update of Adam with decoupled
weight decay. All weights are random, all texts the same, half a length to a whole one long.

What each library is given:

| | forward, bfloat16 | training, bfloat16 | optimizer |
| --- | --- | --- | --- |
| bert_tf | weights in bfloat16 | policy mixed_bfloat16 | its own, in the loop of `training` |
| bert_tf, Keras fit | | policy mixed_bfloat16 | Keras' AdamW, `train_on_batch` |
| keras-hub | weights in bfloat16 | policy mixed_bfloat16 | Keras' AdamW, `train_on_batch` |
| tf-models-official | weights in bfloat16 | policy mixed_bfloat16 | tf_keras' AdamW, as above |
| transformers | weights in bfloat16 | torch.autocast | torch's AdamW, fused |
| transformers, compiled | the same through torch.compile | | |

In all of them training keeps float32 weights and moments. Each library lives in a process of its
own, so that their threads do not meet, and they take turns, so that what else the machine does
falls on all alike.

    python benchmarks/step_time.py --turns=15 --official_python=OTHER_VENV/bin/python

tf-models-official wants a TensorFlow of its own, and so a Python of its own.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import numpy as np
from absl import app, flags

RATE, DECAY, CLIP = 1e-5, 0.01, 1.0
SEGMENTS, POSITIONS, LABELS = 2, 512, 2


class Job(NamedTuple):
    """What to measure: "forward" or "train", the Keras dtype, and the sizes."""

    mode: str
    dtype: str
    layers: int
    width: int
    heads: int
    intermediate: int
    vocab: int
    batch: int
    length: int

    @property
    def trains(self):
        return self.mode == "train"

    @property
    def policy(self):
        return f"mixed_{self.dtype}" if self.trains and self.dtype != "float32" else self.dtype


def features(job):
    """The batch: dict of int32 arrays under bert_tf's names."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(job.length // 2, job.length + 1, (job.batch, 1))
    mask = (np.arange(job.length) < lengths).astype("int32")
    shape = (job.batch, job.length)
    return {
        "input_ids": (rng.integers(1, job.vocab, shape) * mask).astype("int32"),
        "input_mask": mask,
        "segment_ids": (rng.integers(0, SEGMENTS, shape) * mask).astype("int32"),
        "label_ids": rng.integers(0, LABELS, job.batch).astype("int32"),
    }


def sizes(job):
    """The sizes as bert_tf and transformers call them."""
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
    """A forward pass in a graph that puts out just `outputs`."""
    import tensorflow as tf

    inputs = tf.nest.map_structure(tf.constant, inputs)

    @tf.function
    def forward(inputs):
        found = model(inputs, training=False)
        return [found[name] for name in outputs]

    return lambda: [value.numpy() for value in forward(inputs)]


def _keras_train(model, inputs, labels):
    import keras

    model.compile(
        optimizer=keras.optimizers.AdamW(RATE, weight_decay=DECAY, global_clipnorm=CLIP),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,  # XLA on a CPU loses the gain of bfloat16 and saves no time in float32
    )
    return lambda: model.train_on_batch(inputs, labels)


def bert_tf_way(job):
    import tensorflow as tf

    from bert_tf import BertConfig, modeling, optimization, tasks, training

    config, batch = BertConfig(**sizes(job)), features(job)
    if not job.trains:
        del batch["label_ids"]
        model = modeling.BertModel(config, dtype=job.policy)
        return _keras_forward(model, batch, ("sequence_output", "pooled_output"))
    strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
    with tempfile.TemporaryDirectory() as folder:
        trainer = training.Trainer(
            lambda: tasks.ClassificationTask(config, LABELS, dtype=job.policy), strategy, folder
        )
    optimizer = optimization.AdamWeightDecay(lambda step: tf.constant(RATE), DECAY)
    optimizer.build(training.checkpointing.weights(trainer.model))
    dataset = tf.data.Dataset.from_tensors(batch).repeat()
    batches = iter(strategy.experimental_distribute_dataset(dataset))
    step = training.TrainStep(trainer.task, optimizer, training.Options())
    run_step = tf.function(lambda: strategy.run(step.replica_step, args=(next(batches),))["loss"])
    return lambda: run_step().numpy()


def bert_tf_fit_way(job):
    if not job.trains:
        return None
    import keras

    from bert_tf import BertConfig, modeling

    batch = features(job)
    labels = batch.pop("label_ids")
    classifier = modeling.BertClassifier(BertConfig(**sizes(job)), LABELS, dtype=job.policy)
    logits = classifier(classifier.input)["logits"]
    return _keras_train(keras.Model(classifier.input, logits), batch, labels)


def keras_hub_way(job):
    import keras_hub

    batch = features(job)
    backbone = keras_hub.models.BertBackbone(
        vocabulary_size=job.vocab,
        num_layers=job.layers,
        num_heads=job.heads,
        hidden_dim=job.width,
        intermediate_dim=job.intermediate,
        max_sequence_length=POSITIONS,
        num_segments=SEGMENTS,
        dtype=job.policy,
    )
    labels = batch.pop("label_ids")
    names = ("token_ids", "padding_mask", "segment_ids")
    batch = dict(zip(names, batch.values(), strict=True))
    if job.trains:
        classifier = keras_hub.models.BertTextClassifier(backbone, LABELS, preprocessor=None)
        return _keras_train(classifier, batch, labels)
    return _keras_forward(backbone, batch, ("sequence_output", "pooled_output"))


def official_way(job):
    import tf_keras
    from official.nlp.modeling import models, networks

    tf_keras.mixed_precision.set_global_policy(job.policy)
    batch = features(job)
    labels = batch.pop("label_ids")
    encoder = networks.BertEncoder(
        vocab_size=job.vocab,
        hidden_size=job.width,
        num_layers=job.layers,
        num_attention_heads=job.heads,
        intermediate_size=job.intermediate,
        max_sequence_length=POSITIONS,
        type_vocab_size=SEGMENTS,
        dict_outputs=True,
    )
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


def transformers_way(job, compiled=False):
    import torch
    import transformers

    prepare = torch.compile if compiled else lambda model: model
    # The activation is the release's form, as the others have it.
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
                found = forward(**batch)
            return found.last_hidden_state, found.pooler_output

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


LAYER_COMBINATIONS = {
    "bert_tf": bert_tf_way,
    "bert_tf, Keras fit": bert_tf_fit_way,
    "keras-hub": keras_hub_way,
    "tf-models-official": official_way,
    "transformers": transformers_way,
    "transformers, compiled": lambda job: transformers_way(job, compiled=True),
}

FLAGS = flags.FLAGS
flags.DEFINE_multi_enum(
    "contestant", list(LAYER_COMBINATIONS), list(LAYER_COMBINATIONS), "Which to measure, repeated."
)
flags.DEFINE_list("modes", ["forward", "train"], "What to measure.")
flags.DEFINE_list("dtypes", ["float32", "bfloat16"], "In which precisions.")
for _name, _default in zip(Job._fields[2:], (12, 768, 12, 3072, 30522, 8, 128), strict=True):
    flags.DEFINE_integer(_name, _default, "A size of the model or the batch.")
flags.DEFINE_integer("turns", 15, "How often each takes its turn.")
flags.DEFINE_string("official_python", None, "Python that has tf-models-official.")
flags.DEFINE_string("serve", None, "Be the contestant of that job, which is JSON.")


def serve(name, job):
    """A contestant's process: for each line that comes a step, and back its milliseconds.

    Those of the clock, and those of the processor in all threads, which other work disturbs less.
    """
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what libraries print is no answer
    way = LAYER_COMBINATIONS[name](job)
    for _ in range(3 if way else 0):  # traces, compiles, and makes the optimizer's moments
        way()
    print(json.dumps(way is not None), file=answers)
    for _ in sys.stdin if way else ():
        wall, cpu = time.perf_counter(), time.process_time()
        way()
        spent = (time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000
        print(json.dumps(spent), file=answers)


def measure(names, job, turns):
    """Dict from name to what `serve` sent, one of each turn, of those that have such a job."""
    processes = {}
    for name in names:
        python = FLAGS.official_python if name == "tf-models-official" else sys.executable
        command = [python, __file__, f"--serve={json.dumps([name, *job])}"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        # One after the other, so that none disturbs another's start.
        line = process.stdout.readline()
        if not line:
            sys.exit(f"{name} does not start; its last lines say why")
        if json.loads(line):
            processes[name] = process
        else:
            process.communicate()
    spent = {name: [] for name in processes}
    for _ in range(turns):
        for name, process in processes.items():
            process.stdin.write("\n")
            spent[name].append(json.loads(process.stdout.readline()))
    for process in processes.values():
        process.communicate()
    return spent


def main(_):
    if FLAGS.serve:
        name, *job = json.loads(FLAGS.serve)
        return serve(name, Job(*job))
    names = list(dict.fromkeys(FLAGS.contestant))
    if not FLAGS.official_python and "tf-models-official" in names:
        names.remove("tf-models-official")
        print("tf-models-official is left out: --official_python is not given\n")
    given = [getattr(FLAGS, name) for name in Job._fields[2:]]
    first = names[0]
    print(f"| | | milliseconds | from - to | ratio to {first} | of the processor | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |", flush=True)
    for mode in FLAGS.modes:
        for dtype in FLAGS.dtypes:
            found = measure(names, Job(mode, dtype, *given), FLAGS.turns)
            # Two columns of each contestant: by the clock, by the processor.
            found = {name: list(zip(*spent, strict=True)) for name, spent in found.items()}
            for name, (wall, cpu) in found.items():
                ratios = [ratio(found[name][i], found[first][i]) for i in range(2)]
                print(
                    f"| {mode}, {dtype} | {name} | {statistics.median(wall):.0f} | "
                    f"{min(wall):.0f} - {max(wall):.0f} | {ratios[0]:.2f} | "
                    f"{statistics.median(cpu):.0f} | {ratios[1]:.2f} |",
                    flush=True,
                )


def ratio(others, ours):
    """The median ratio turn by turn, so that a busy moment of the machine falls on both."""
    return statistics.median(other / our for other, our in zip(others, ours, strict=True))


if __name__ == "__main__":
    app.run(main)
