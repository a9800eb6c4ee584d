#!/usr/bin/env python3
r"""Compare the speed of three ways to classify lines of text with the same model.

    bert-tf convert --input=RUN --output_dir=/tmp/hf --format=hugging_face
    python export_model.py --model_dir=RUN --export_dir=/tmp/served
    python benchmarks/predicting.py --model=/tmp/served --peer=/tmp/hf --input_file=lines.txt

They are `serving.Predictor`, which predict.py uses (batches of lines of similar length); the same
model with every text padded to the maximum sequence length, in the order of the lines; and the
`text-classification` pipeline of transformers, with the same weights and batch size. They take
turns. The script prints medians in lines per second, by wall-clock and by processor time, and the
largest difference between probabilities.
"""

import statistics
import time

import numpy as np
import tensorflow as tf
from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS
from bert_tf.tokenization.settings import RELEASE_SETTINGS

flags.DEFINE_string("model", None, "Exported classifier of single texts.", required=True)
flags.DEFINE_string("peer", None, "Hugging Face folder with the same weights.", required=True)
flags.DEFINE_string("input_file", None, "Text file, one text per line.", required=True)
flags.DEFINE_integer("num_lines", 1000, "Number of lines to classify.")
flags.DEFINE_integer("turns", 5, "Number of runs of each.")
flags.DEFINE_integer("batch_size", 32, "Batch size.")


def main():
    import transformers

    lines = [line.strip() for line in bert_tf.files.read_lines(FLAGS.input_file)]
    lines = [line for line in lines if line][: FLAGS.num_lines]
    predictor = bert_tf.serving.Predictor(FLAGS.model, FLAGS.batch_size)
    extra = f"{predictor.path}/assets.extra"
    metadata = bert_tf.serving.read_metadata(f"{extra}/model.json")
    if "do_lower_case" not in metadata:
        raise bert_tf.UserError(
            f"{extra}/model.json has no `do_lower_case`; export the model again"
        )
    max_seq_length = metadata["max_seq_length"]
    settings = {name: metadata.get(name) for name in RELEASE_SETTINGS}
    tokenizer = bert_tf.GraphTokenizer(f"{extra}/vocab.txt", **settings)
    by_ids = tf.saved_model.load(predictor.path).signatures["ids"]
    pipeline = transformers.pipeline(
        "text-classification", FLAGS.peer, top_k=None, batch_size=FLAGS.batch_size
    )
    labels = list(predictor([{"text": lines[0]}])[0]["probabilities"])

    def predict():
        answers = predictor([{"text": line} for line in lines])
        return [[x["probabilities"][label] for label in labels] for x in answers]

    def predict_padded():
        probabilities = []
        for start in range(0, len(lines), FLAGS.batch_size):
            texts = tf.constant(lines[start : start + FLAGS.batch_size])
            outputs = by_ids(**tokenizer(texts, max_seq_length=max_seq_length))
            probabilities.extend(outputs["probabilities"].numpy())
        return probabilities

    def predict_transformers():
        answers = pipeline(lines, truncation=True, max_length=max_seq_length)
        scores = [{x["label"]: x["score"] for x in row} for row in answers]
        return [[row[label] for label in labels] for row in scores]

    methods = {
        "predict.py": predict,
        f"padded to {max_seq_length}": predict_padded,
        "transformers": predict_transformers,
    }
    results = {name: np.array(method()) for name, method in methods.items()}  # also warms up
    clock, processor = ({name: [] for name in methods} for _ in range(2))
    for _ in range(FLAGS.turns):
        for name, method in methods.items():
            start = time.perf_counter(), time.process_time()
            method()
            clock[name].append(time.perf_counter() - start[0])
            processor[name].append(time.process_time() - start[1])
    first = next(iter(methods))
    for name in methods:
        seconds, busy = statistics.median(clock[name]), statistics.median(processor[name])
        difference = np.abs(results[name] - results[first]).max()
        print(
            f"{name:14} {len(lines) / seconds:7.1f} lines per second, "
            f"{seconds / statistics.median(clock[first]):5.2f} times as long, processor "
            f"{busy / statistics.median(processor[first]):5.2f}; difference {difference:.1e}"
        )


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
