#!/usr/bin/env python3
r"""Reproduce the table of the paper's feature-based approach (section 5.3, table 7) for a model.

    python benchmarks/feature_table.py --data_dir=conll2003 --model_dir=MODEL \
      --output_dir=/tmp/features

Trains `run_ner.py --features_only` once for each combination of layers, and prints the F1 on the
development set. An interrupted run resumes with the missing combinations.
"""

import os

import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("data_dir", None, "Folder with train.txt and dev.txt.", required=True)
flags.DEFINE_string("model_dir", None, "Hugging Face folder of the model.", required=True)
flags.DEFINE_string("output_dir", None, "Folder for all outputs.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether the model is uncased.")
flags.DEFINE_float("num_train_epochs", 3.0, "Number of training epochs.")
flags.DEFINE_integer(
    "feature_lstm_size", None, "Units in each direction; the hidden size by default."
)


def main():
    results_of = {}
    for name in bert_tf.modeling.LAYER_COMBINATIONS:
        results_of[name] = train(name)
        print(f"{name}: {results_of[name]}", flush=True)
    print("| `--layer_combination` | F1 | precision | recall |\n| --- | --- | --- | --- |")
    for combination, results in results_of.items():
        figures = (100 * results[f"eval_{name}"] for name in ("f1", "precision", "recall"))
        print(f"| `{combination}` | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")


def train(layer_combination):
    """Return the results of one combination; the script resumes an interrupted training."""
    folder = os.path.join(FLAGS.output_dir, layer_combination)
    lstm = FLAGS.feature_lstm_size
    bert_tf.commands.run(
        "run_ner.py",
        do_train=True,
        do_eval=True,
        features_only=True,
        layer_combination=layer_combination,
        data_dir=FLAGS.data_dir,
        do_lower_case=FLAGS.do_lower_case,
        **peer_training.model_flags(FLAGS.model_dir),
        learning_rate=1e-3,
        num_train_epochs=FLAGS.num_train_epochs,
        output_dir=folder,
        **({"feature_lstm_size": lstm} if lstm else {}),
    )
    return peer_training.eval_results(folder)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
