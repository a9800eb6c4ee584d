#!/usr/bin/env python3
r"""Makes the table of the paper's feature-based approach (section 5.3, table 7) for a model.

    python benchmarks/feature_table.py --data_dir=conll2003 --model_dir=MODEL --output_dir=/tmp/ways

Trains `run_ner.py --features_only` once for each way to take features, and prints its F1 on the
development set. What was cut off goes on with the ways that are missing.
"""

import os

import peer_training
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("data_dir", None, "Folder with train.txt and dev.txt.", required=True)
flags.DEFINE_string("model_dir", None, "Hugging Face folder of the model.", required=True)
flags.DEFINE_string("output_dir", None, "Folder for all that is made.", required=True)
flags.DEFINE_bool("do_lower_case", True, "Whether the model is an uncased one.")
flags.DEFINE_float("num_train_epochs", 3.0, "Epochs.")
flags.DEFINE_integer("feature_lstm_size", None, "Units of each direction; unset: the hidden size.")


def main():
    found = {}
    for way in bert_tf.modeling.LAYER_COMBINATIONS:
        found[way] = train(way)
        print(f"{way}: {found[way]}", flush=True)
    print("| `--layer_combination` | F1 | precision | recall |\n| --- | --- | --- | --- |")
    for way, results in found.items():
        figures = (100 * results[f"eval_{name}"] for name in ("f1", "precision", "recall"))
        print(f"| `{way}` | " + " | ".join(f"{figure:.1f}" for figure in figures) + " |")


def train(way):
    """The results of one way; the script itself goes on where it was cut off."""
    folder = os.path.join(FLAGS.output_dir, way)
    lstm = FLAGS.feature_lstm_size
    bert_tf.commands.run(
        "run_ner.py",
        do_train=True,
        do_eval=True,
        features_only=True,
        layer_combination=way,
        data_dir=FLAGS.data_dir,
        do_lower_case=FLAGS.do_lower_case,
        **peer_training.of_folder(FLAGS.model_dir),
        learning_rate=1e-3,
        num_train_epochs=FLAGS.num_train_epochs,
        output_dir=folder,
        **({"feature_lstm_size": lstm} if lstm else {}),
    )
    return peer_training.eval_results(folder)


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
