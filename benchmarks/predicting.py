#!/usr/bin/env python3
r"""Classifies lines of text with an exported model, beside two other ways, in turns.

    bert-tf convert --input=RUN --output_dir=/tmp/hf --format=hugging_face
    python export_model.py --model_dir=RUN --export_dir=/tmp/served
    python benchmarks/predicting.py --model=/tmp/served --peer=/tmp/hf --input_file=lines.txt

The ways: `serving.Predictor`, which predict.py uses (batches of lines of about the same length);
the same model with every text padded to its longest sequence, in the order of the lines; and the
pipeline `text-classification` of transformers, on the same weights, in batches as large. It prints
the median of the turns in lines a second, by the clock and by processor time, and how far the
probabilities are apart.
"""

import statistics
import time

import numpy as np
import tensorflow as tf
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("model", None, "Folder of export_model.py, of single texts.", required=True)
flags.DEFINE_string("peer", None, "Hugging Face folder with the same weights.", required=True)
flags.DEFINE_string("input_file", None, "Lines of text.", required=True)
flags.DEFINE_integer("num_lines", 1000, "How many of them.")
flags.DEFINE_integer("turns", 5, "Runs of each.")
flags.DEFINE_integer("batch_size", 32, "Batch size.")


def main():
    import transformers

    lines = [line.strip() for line in bert_tf.files.read_lines(FLAGS.input_file)]
    lines = [line for line in lines if line][: FLAGS.num_lines]
    predictor = bert_tf.serving.Predictor(FLAGS.model, FLAGS.batch_size)
    extra = f"{predictor.path}/assets.extra"
    about = bert_tf.serving.read_metadata(f"{extra}/model.json")
    if "do_lower_case" not in about:
        raise bert_tf.UserError(f"{extra}/model.json: no do_lower_case; export the model again")
    longest = about["max_seq_length"]
    tokenizer = bert_tf.GraphTokenizer(f"{extra}/vocab.txt", about["do_lower_case"])
    by_ids = tf.saved_model.load(predictor.path).signatures["ids"]
    pipeline = transformers.pipeline(
        "text-classification", FLAGS.peer, top_k=None, batch_size=FLAGS.batch_size
    )
    labels = list(predictor([{"text": lines[0]}])[0]["probabilities"])

    def ours():
        found = predictor([{"text": line} for line in lines])
        return [[x["probabilities"][label] for label in labels] for x in found]

    def padded():
        found = []
        for start in range(0, len(lines), FLAGS.batch_size):
            texts = tf.constant(lines[start : start + FLAGS.batch_size])
            found.extend(
                by_ids(**tokenizer(texts, max_seq_length=longest))["probabilities"].numpy()
            )
        return found

    def theirs():
        found = pipeline(lines, truncation=True, max_length=longest)
        scores = [{x["label"]: x["score"] for x in row} for row in found]
        return [[row[label] for label in labels] for row in scores]

    ways = {"predict.py": ours, f"padded to {longest}": padded, "transformers": theirs}
    results = {name: np.array(way()) for name, way in ways.items()}  # and all is warm
    clock, processor = ({name: [] for name in ways} for _ in range(2))
    for _ in range(FLAGS.turns):
        for name, way in ways.items():
            start = time.perf_counter(), time.process_time()
            way()
            clock[name].append(time.perf_counter() - start[0])
            processor[name].append(time.process_time() - start[1])
    first = next(iter(ways))
    for name in ways:
        seconds, busy = statistics.median(clock[name]), statistics.median(processor[name])
        apart = np.abs(results[name] - results[first]).max()
        print(
            f"{name:14} {len(lines) / seconds:7.1f} lines a second, "
            f"{seconds / statistics.median(clock[first]):5.2f} times as long, processor "
            f"{busy / statistics.median(processor[first]):5.2f}; apart {apart:.1e}"
        )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
