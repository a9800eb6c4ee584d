#!/usr/bin/env python3
"""Learn a vocabulary, pre-train, fine-tune and serve a small BERT model in a few minutes.

Nothing is downloaded: `examples.toy_corpus` generates the text. Each step runs a script and prints
its command; a table at the end shows the results. The same commands train models of any size.
"""

import contextlib
import json
import multiprocessing
import os
import runpy
import shutil
import sys
import time

from absl import flags

import bert_tf
from bert_tf import commands
from bert_tf.cli import tensorflow_start
from bert_tf.cli.flags import FLAGS, run
from bert_tf.errors import reason
from bert_tf.io import files
from examples import toy_corpus

flags.DEFINE_string(
    "output_dir", "./quickstart_output", "Output folder; an earlier quick start in it is deleted."
)
flags.DEFINE_integer("seed", 0, "Random seed for the text and for training.", lower_bound=0)
flags.DEFINE_integer("num_train_steps", 1400, "Number of pre-training steps.", lower_bound=1)
flags.DEFINE_bool("only_pretraining", False, "Stop after pre-training.")

# Only folders with this file may be emptied.
MARKER = "made_by_quickstart.txt"
# The files and folders that a quick start writes, a regular expression.
FILES = (
    rf"{MARKER}|results\.txt|vocab\.txt|bert_config\.json|(corpus|heldout)\.tfrecord.*|"
    r"(text|untrained|pretrained|classifier|classifier_without|export)/.*"
)

VOCAB_SIZE = 2000
MAX_SEQ_LENGTH = 32
MAX_PREDICTIONS_PER_SEQ = 5  # 15 % of the sequence

# A model this narrow learns faster without dropout and with an initializer range above the
# release's 0.02.
CONFIG = {
    "hidden_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "intermediate_size": 192,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "initializer_range": 0.06,
}

# On Linux, scripts run in forks of this process, which has imported TensorFlow but has not used it.
PROCESSES = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


def main():
    start = time.monotonic()
    make_output_folder(FLAGS.output_dir)
    if sys.platform == "linux":
        with bert_tf.console.without_tensorflow_messages():
            tensorflow_start.import_quickly()
            _ = bert_tf.TextClassifier, bert_tf.training.pretrain
    prepare_data()
    pretrain()
    if FLAGS.only_pretraining:
        return
    fine_tune()
    predictions = export_and_predict()
    table = format_results(predictions, time.monotonic() - start)
    print(f"\n{table}")
    files.write_text(output_path("results.txt"), table)


def output_path(*names):
    return os.path.join(FLAGS.output_dir, *names)


def make_output_folder(folder):
    """Create the folder, or empty it if it contains an earlier quick start."""
    marker = os.path.join(folder, MARKER)
    if os.path.isfile(marker):
        files.check_replaceable(folder, FILES, "output_dir")
        try:
            shutil.rmtree(folder)
        except OSError as error:
            raise bert_tf.UserError(
                f"--output_dir: cannot remove {error.filename} ({error.strerror})"
            ) from None
    files.check_writable(marker, "output_dir")
    if os.listdir(folder):
        raise bert_tf.UserError(
            f"--output_dir: {folder} is not empty and does not contain an earlier quick start; "
            "choose a new or empty folder"
        )
    text = "quickstart.py created this folder and deletes it when run again.\n"
    files.write_text(marker, text)


def prepare_data():
    """Create the text, the vocabulary, the configuration and the pre-training records."""
    run_step(
        "Generate text: documents without labels, and sentences with labels",
        "-m examples.toy_corpus",
        output_dir=output_path("text"),
        seed=FLAGS.seed,
    )
    run_step(
        "Learn a vocabulary from the text",
        "-m bert_tf vocab learn",
        input_file=output_path("text", "corpus.txt"),
        vocab_file=output_path("vocab.txt"),
        vocab_size=VOCAB_SIZE,
        num_unused=0,
    )
    vocab_size = len(bert_tf.tokenization.load_vocab(output_path("vocab.txt")))
    config = json.dumps({"vocab_size": vocab_size, **CONFIG}, indent=2)
    files.write_text(output_path("bert_config.json"), config + "\n")
    for name, dupe_factor in (("corpus", 3), ("heldout", 1)):
        run_step(
            f"Create pre-training records from {name}.txt, with some words masked",
            "create_pretraining_data.py",
            input_file=output_path("text", f"{name}.txt"),
            output_file=output_path(f"{name}.tfrecord"),
            vocab_file=output_path("vocab.txt"),
            max_seq_length=MAX_SEQ_LENGTH,
            max_predictions_per_seq=MAX_PREDICTIONS_PER_SEQ,
            dupe_factor=dupe_factor,
            random_seed=FLAGS.seed,
        )


def pretrain():
    """Evaluate random weights on held-out text, pre-train, and evaluate again."""
    sizes = {
        "bert_config_file": output_path("bert_config.json"),
        "max_seq_length": MAX_SEQ_LENGTH,
        "max_predictions_per_seq": MAX_PREDICTIONS_PER_SEQ,
        "seed": FLAGS.seed,
        "do_eval": True,
        "eval_batch_size": 64,
    }
    heldout = output_path("heldout.tfrecord")
    if not FLAGS.only_pretraining:
        run_step(
            "Evaluate random weights, before pre-training",
            "run_pretraining.py",
            output_dir=output_path("untrained"),
            input_file=heldout,
            **sizes,
        )
    run_step(
        "Pre-train: predict masked words, and whether a sentence is the next one",
        "run_pretraining.py",
        do_train=True,
        input_file=output_path("corpus.tfrecord"),
        eval_file=heldout,
        vocab_file=output_path("vocab.txt"),  # makes the folder complete, for `from_preset`
        output_dir=output_path("pretrained"),
        train_batch_size=48,
        learning_rate=2.5e-3,
        num_train_steps=FLAGS.num_train_steps,
        num_warmup_steps=FLAGS.num_train_steps // 5,
        xla=sys.platform == "linux",  # takes 0.76 of the time for such a small model
        **sizes,
    )


def fine_tune():
    """Train the same classifier from random and from pre-trained weights."""
    checkpoint = output_path("pretrained", f"model.ckpt-{FLAGS.num_train_steps}")
    for title, folder, initial_weights in (
        ("Train a classifier without pre-training", "classifier_without", {}),
        ("Train the same with pre-training", "classifier", {"init_checkpoint": checkpoint}),
    ):
        run_step(
            title,
            "run_classifier.py",
            task_name="tsv",
            do_train=True,
            do_predict=True,
            data_dir=output_path("text"),
            vocab_file=output_path("vocab.txt"),
            bert_config_file=output_path("bert_config.json"),
            **initial_weights,
            output_dir=output_path(folder),
            max_seq_length=MAX_SEQ_LENGTH,
            train_batch_size=16,
            learning_rate=5e-4,
            num_train_epochs=15,
            seed=FLAGS.seed,
        )


def export_and_predict():
    """Export the classifier; return (label, probability) of each of `toy_corpus.SAMPLE_TEXTS`."""
    run_step(
        "Export the classifier as a SavedModel",
        "export_model.py",
        model_dir=output_path("classifier"),
        export_dir=output_path("export"),
        inputs="ids",
    )
    with timed("Predict with the SavedModel"):
        tokenizer = bert_tf.FullTokenizer(output_path("vocab.txt"))
        rows = []
        for text in toy_corpus.SAMPLE_TEXTS:
            pieces = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
            print("  " + " ".join(pieces))
            rows.append(tokenizer.convert_tokens_to_ids(pieces))
        folder = output_path("export", "1")
        results = predict(folder, rows)
    labels = files.read_text(os.path.join(folder, "assets.extra", "labels.txt")).splitlines()
    return [(labels[row.index(max(row))], max(row)) for row in results]


def predict(folder, rows):
    """Return the probabilities of rows of ids by a SavedModel; after this, do not fork."""
    with bert_tf.console.without_tensorflow_messages():
        import tensorflow as tf

    model = tf.saved_model.load(folder).signatures["serving_default"]
    ids = tf.ragged.constant(rows, dtype=tf.int32).to_tensor()
    outputs = model(input_ids=ids, input_mask=tf.sign(ids), segment_ids=tf.zeros_like(ids))
    return outputs["probabilities"].numpy().tolist()


def run_step(title, script, **options):
    """Run a script with `commands.run`."""
    with timed(title):
        commands.run(script, start_process, **options)
        print()


def start_process(command):
    """Run a Python command without importing TensorFlow again; return its exit status."""
    process = PROCESSES.Process(target=run_script, args=(command[1:],))
    process.start()
    process.join()
    return process.exitcode


def run_script(arguments):
    """Run a script, or `-m MODULE`, with its arguments."""
    FLAGS.remove_flag_values(["output_dir", "seed", "num_train_steps", "only_pretraining"])
    is_module = arguments[0] == "-m"
    sys.argv = arguments[is_module:]
    (runpy.run_module if is_module else runpy.run_path)(sys.argv[0], run_name="__main__")


@contextlib.contextmanager
def timed(title):
    """Print the title of a step, then its duration; name the step in errors."""
    print(f"\n=== {title} ===\n", flush=True)
    start = time.monotonic()
    try:
        yield
    except Exception as error:
        problem = reason(error)
        raise bert_tf.UserError(f"the step {title!r} failed: {problem}") from None
    print(f"  ({bert_tf.console.duration(time.monotonic() - start)})", flush=True)


def format_results(predictions, seconds):
    before, after = (read_metrics(name) for name in ("untrained", "pretrained"))
    rows = [
        ("", "before", "after pre-training"),
        ("masked word accuracy, held-out text",
         before["masked_lm_accuracy"], after["masked_lm_accuracy"]),
        ("next sentence accuracy, held-out text",
         before["next_sentence_accuracy"], after["next_sentence_accuracy"]),
        ("", "", ""),
        ("", "without", "with pre-training"),
        ("test accuracy after fine-tuning",
         test_accuracy("classifier_without"), test_accuracy("classifier")),
    ]  # fmt: skip
    lines = []
    for name, *values in rows:
        cells = [v if isinstance(v, str) else f"{100 * v:.1f} %" for v in values]
        lines.append(f"{name:44}{cells[0]:>10}{cells[1]:>22}".rstrip())
    lines += ["", "predictions of the SavedModel", ""]
    for text, (label, probability) in zip(toy_corpus.SAMPLE_TEXTS, predictions, strict=True):
        lines.append(f"  {text:56}{label:>12}{100 * probability:6.1f} %")
    lines += ["", f"{FLAGS.output_dir}, seed {FLAGS.seed}, {bert_tf.console.duration(seconds)}"]
    return "\n".join(lines) + "\n"


def read_metrics(folder):
    lines = files.read_text(output_path(folder, "eval_results.txt")).splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}


def test_accuracy(folder):
    """Return the fraction of correct predictions on the test set."""
    _, *lines = files.read_text(output_path("text", "test.tsv")).splitlines()
    labels = [line.split("\t")[1] for line in lines]
    lines = files.read_text(output_path(folder, "test_results.tsv")).splitlines()
    rows = [[float(value) for value in line.split("\t")] for line in lines]
    names = sorted(set(labels))  # in the order of their ids
    correct = [names[row.index(max(row))] == label for row, label in zip(rows, labels, strict=True)]
    return sum(correct) / len(correct)


if __name__ == "__main__":
    run(main, needs_tensorflow=lambda: False)
