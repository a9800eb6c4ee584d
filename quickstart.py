#!/usr/bin/env python3
"""The whole path in a few minutes: text, vocabulary, pre-training, fine-tuning, a served model.

It needs no download: the text is made by `bert_tf.toy_corpus`. Every station runs one of the
scripts, with the command printed, and it ends in a table. The sizes are small; the path is the one
for a model of any size.
"""

import json
import os
import shutil
import subprocess
import sys
import time

from absl import flags

import bert_tf
from bert_tf import commands, toy_corpus
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("output_dir", "./quickstart_output", "Folder for everything; made anew.")
flags.DEFINE_integer("seed", 0, "Seed of the text and of the training.", lower_bound=0)
flags.DEFINE_integer("num_train_steps", 1500, "Steps of pre-training.", lower_bound=1)
flags.DEFINE_bool(
    "only_pretraining", False, "Stop with the pre-trained model, which is not evaluated then."
)

# By this file a folder is known as ours, to be removed and made anew.
MARK = "made_by_quickstart.txt"

VOCAB_SIZE = 2000
MAX_SEQ_LENGTH = 32
MAX_PREDICTIONS_PER_SEQ = 5  # 15 % of the sequence

# Without dropout and with larger first weights than the release's 0.02: a model as narrow as this
# one, that trains for minutes, learns sooner so.
CONFIG = {
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "intermediate_size": 512,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "initializer_range": 0.06,
}

# Run by an interpreter that has TensorFlow and nothing of ours, as a server would.
SERVE = """\
import json, sys, tensorflow as tf
model = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
rows = json.load(sys.stdin)
inputs = {name: tf.constant(values, tf.int32) for name, values in rows.items()}
json.dump(model(**inputs)["probabilities"].numpy().tolist(), sys.stdout)
assert "bert_tf" not in sys.modules
"""

# Run by an interpreter of its own, so that this one never waits for TensorFlow to be imported.
TOKENIZE = """\
import json, sys, bert_tf
tokenizer = bert_tf.FullTokenizer(sys.argv[1])
json.dump([tokenizer.tokenize(text) for text in json.load(sys.stdin)], sys.stdout)
"""


def main():
    start = time.monotonic()
    make_folder(FLAGS.output_dir)
    prepare()
    pretrain()
    if FLAGS.only_pretraining:
        return
    fine_tune()
    predictions = serve()
    table = report(predictions, time.monotonic() - start)
    print(f"\n{table}")
    with open(out("results.txt"), "w", encoding="utf-8") as writer:
        writer.write(table)


def out(*names):
    """A path in the output folder."""
    return os.path.join(FLAGS.output_dir, *names)


def make_folder(folder):
    """Makes the folder anew; removes nothing that an earlier quickstart did not make."""
    if os.path.exists(folder):
        if not os.path.isdir(folder):
            raise bert_tf.UserError(f"--output_dir: {folder} is no folder")
        if os.listdir(folder) and not os.path.isfile(os.path.join(folder, MARK)):
            raise bert_tf.UserError(
                f"--output_dir: {folder} has files that are not of an earlier quickstart; "
                "name a new folder, or an empty one"
            )
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.remove(entry.path)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, MARK), "w", encoding="utf-8") as writer:
        writer.write("quickstart.py made this folder, and will remove its files to make it anew.\n")


def prepare():
    """Text, vocabulary, config and the records of pre-training."""
    station(
        "The text: documents without labels, and sentences with labels",
        "-m bert_tf.toy_corpus",
        output_dir=out("text"),
        seed=FLAGS.seed,
    )
    station(
        "A vocabulary, learned from the text",
        "-m bert_tf vocab learn",
        input_file=out("text", "corpus.txt"),
        vocab_file=out("vocab.txt"),
        vocab_size=VOCAB_SIZE,
        num_unused=0,
    )
    with open(out("vocab.txt"), encoding="utf-8") as reader:
        vocab_size = sum(1 for _ in reader)
    with open(out("bert_config.json"), "w", encoding="utf-8") as writer:
        json.dump({"vocab_size": vocab_size, **CONFIG}, writer, indent=2)
        writer.write("\n")
    for name, dupe_factor in (("corpus", 3), ("heldout", 1)):
        if name == "heldout" and FLAGS.only_pretraining:
            continue
        station(
            f"Records for pre-training: {name}.txt with some words masked",
            "create_pretraining_data.py",
            input_file=out("text", f"{name}.txt"),
            output_file=out(f"{name}.tfrecord"),
            vocab_file=out("vocab.txt"),
            max_seq_length=MAX_SEQ_LENGTH,
            max_predictions_per_seq=MAX_PREDICTIONS_PER_SEQ,
            dupe_factor=dupe_factor,
            random_seed=FLAGS.seed,
        )


def pretrain():
    """Evaluation on held-out text, training, evaluation again."""
    sizes = {
        "bert_config_file": out("bert_config.json"),
        "max_seq_length": MAX_SEQ_LENGTH,
        "max_predictions_per_seq": MAX_PREDICTIONS_PER_SEQ,
        "seed": FLAGS.seed,
    }
    heldout = {"do_eval": True, "input_file": out("heldout.tfrecord"), "eval_batch_size": 64}
    script = "run_pretraining.py"
    if not FLAGS.only_pretraining:
        station("Before pre-training: what random weights know", script,
                output_dir=out("untrained"), **heldout, **sizes)  # fmt: skip
    station(
        "Pre-training: to guess masked words, and whether a sentence is the next",
        script,
        do_train=True,
        input_file=out("corpus.tfrecord"),
        output_dir=out("pretrained"),
        train_batch_size=64,
        learning_rate=2e-3,
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_train_steps // 6,
        **sizes,
    )
    if not FLAGS.only_pretraining:
        station("After pre-training", script, output_dir=out("pretrained"), **heldout, **sizes)


def fine_tune():
    """The same classifier twice, from random weights and from the pre-trained ones."""
    for title, folder, first_weights in (
        ("A classifier without pre-training", "classifier_without", {}),
        (
            "The same with pre-training",
            "classifier",
            {"init_checkpoint": out("pretrained", f"model.ckpt-{FLAGS.num_train_steps}")},
        ),
    ):
        station(
            title,
            "run_classifier.py",
            task_name="tsv",
            do_train=True,
            do_eval=True,
            do_predict=True,
            data_dir=out("text"),
            vocab_file=out("vocab.txt"),
            bert_config_file=out("bert_config.json"),
            **first_weights,
            output_dir=out(folder),
            max_seq_length=MAX_SEQ_LENGTH,
            train_batch_size=16,
            learning_rate=3e-4,
            num_train_epochs=20,
            seed=FLAGS.seed,
        )


def serve():
    """Exports the classifier and asks it about `toy_corpus.TYPED`.

    Returns:
      For each text (label, probability).
    """
    station("A SavedModel of the classifier", "export_model.py",
            model_dir=out("classifier"), export_dir=out("export"), inputs="ids")  # fmt: skip
    name = "The SavedModel's answers, from a process that has TensorFlow and nothing of ours"
    start = headline(name)
    pieces = ask(name, TOKENIZE, out("vocab.txt"), list(toy_corpus.TYPED))
    with open(out("vocab.txt"), encoding="utf-8") as reader:
        ids = {piece: number for number, piece in enumerate(reader.read().splitlines())}
    length = max(map(len, pieces)) + 2
    inputs = {"input_ids": [], "input_mask": [], "segment_ids": []}
    for row in pieces:
        row = ["[CLS]", *row, "[SEP]"]
        print("  " + " ".join(row))
        padding = [0] * (length - len(row))
        inputs["input_ids"].append([ids[piece] for piece in row] + padding)
        inputs["input_mask"].append([1] * len(row) + padding)
        inputs["segment_ids"].append([0] * length)
    folder = os.path.abspath(out("export", "1"))
    probabilities = ask(name, SERVE, folder, inputs)
    with open(os.path.join(folder, "assets.extra", "labels.txt"), encoding="utf-8") as reader:
        labels = reader.read().splitlines()
    took(start)
    return [(labels[row.index(max(row))], max(row)) for row in probabilities]


def headline(title):
    """Prints a station's name; returns the time."""
    print(f"\n=== {title} ===\n", flush=True)
    return time.monotonic()


def took(start):
    """Prints a station's time."""
    print(f"  ({bert_tf.console.duration(time.monotonic() - start)})", flush=True)


def station(title, script, **options):
    """Runs a script of ours with the flags `options`, and lists what it wrote.

    Args:
      title: what the station is, for people.
      script: name of the script, or `-m MODULE`.
      **options: its flags; True stands for a flag without a value.

    Raises:
      UserError: if it fails; names the station and its exit status.
    """
    start = headline(title)
    before = files_of(FLAGS.output_dir)
    try:
        commands.run(script, **options)
    except bert_tf.UserError as error:
        raise bert_tf.UserError(f"the station {title!r} failed: {error}") from None
    after = files_of(FLAGS.output_dir)
    print()
    for folder in sorted({os.path.dirname(path) for path in after}):
        new = [p for p in after if os.path.dirname(p) == folder and after[p] != before.get(p)]
        if new:
            print(f"  wrote {folder}: {', '.join(map(os.path.basename, new))}")
    took(start)


def ask(title, program, argument, question):
    """Runs a Python program of a few lines on a JSON question; returns its JSON answer."""
    # Isolated (-I) where nothing of ours is to be found.
    isolated = ["-I"] if program is SERVE else []
    result = subprocess.run(
        [sys.executable, *isolated, "-c", program, argument],
        input=json.dumps(question), capture_output=True, text=True, env=commands.environment(),
    )  # fmt: skip
    if result.returncode:
        print(result.stderr, file=sys.stderr)
        raise bert_tf.UserError(
            f"the station {title!r} failed with exit status {result.returncode}"
        )
    return json.loads(result.stdout)


def files_of(folder):
    """Path of each file -> (its size, the time of its last change)."""
    found = {}
    for parent, _, names in sorted(os.walk(folder)):
        # Without what a run keeps for itself: its lock, and the second half of each checkpoint.
        for name in sorted(n for n in names if not n.startswith(".") and ".data-" not in n):
            path = os.path.join(parent, name)
            found[path] = (os.path.getsize(path), os.path.getmtime(path))
    return found


def report(predictions, seconds):
    """The table that everything was done for."""
    before, after = (results_of(name) for name in ("untrained", "pretrained"))
    without, with_it = (test_accuracy(name) for name in ("classifier_without", "classifier"))
    rows = [
        ("", "before", "after pre-training"),
        ("masked words guessed, held-out text",
         before["masked_lm_accuracy"], after["masked_lm_accuracy"]),
        ("next sentence known, held-out text",
         before["next_sentence_accuracy"], after["next_sentence_accuracy"]),
        ("", "", ""),
        ("", "without", "with pre-training"),
        ("labels of the test set, after fine-tuning", without, with_it),
    ]  # fmt: skip
    lines = []
    for name, *values in rows:
        cells = [v if isinstance(v, str) else f"{100 * v:.1f} %" for v in values]
        lines.append(f"{name:44}{cells[0]:>10}{cells[1]:>22}".rstrip())
    lines += ["", "sentences typed in, by the SavedModel", ""]
    for text, (label, probability) in zip(toy_corpus.TYPED, predictions, strict=True):
        lines.append(f"  {text:56}{label:>12}{100 * probability:6.1f} %")
    lines += ["", f"{FLAGS.output_dir}, seed {FLAGS.seed}, {bert_tf.console.duration(seconds)}"]
    return "\n".join(lines) + "\n"


def results_of(folder):
    """Reads eval_results.txt: a dict of names to numbers."""
    with open(out(folder, "eval_results.txt"), encoding="utf-8") as reader:
        pairs = (line.split(" = ") for line in reader)
        return {name: float(value) for name, value in pairs}


def test_accuracy(folder):
    """Share of the test set's rows whose label has the highest probability."""
    with open(out("text", "test.tsv"), encoding="utf-8") as reader:
        labels = [line.rstrip("\n").split("\t")[1] for line in reader][1:]
    with open(out(folder, "test_results.tsv"), encoding="utf-8") as reader:
        rows = [[float(value) for value in line.split("\t")] for line in reader]
    names = sorted(set(labels))  # the order of their ids
    right = [names[row.index(max(row))] == label for row, label in zip(rows, labels, strict=True)]
    return sum(right) / len(right)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main, needs_tensorflow=False)
