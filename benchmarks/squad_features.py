#!/usr/bin/env python3
"""Measure the speed of making SQuAD features in several processes, compared with a plain port.

The articles of the file are repeated up to a size. The plain port processes as many questions as it
can in some seconds; bert_tf processes all of them, including reading and writing. CPU seconds are
summed over all processes and are less sensitive to other work on the machine than wall-clock time.
"Lower bound" is the CPU time of the process that reads and writes, which more workers do not
reduce.

    python benchmarks/squad_features.py --input_file=train-v1.1.json --vocab_file=vocab.txt
"""

import json
import os
import resource
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

from absl import app, flags

FLAGS = flags.FLAGS
flags.DEFINE_string("input_file", None, "SQuAD 1.1 JSON file.", required=True)
flags.DEFINE_string("vocab_file", None, "Uncased vocabulary.", required=True)
flags.DEFINE_integer("megabytes", 50, "Size to repeat the file to.")
flags.DEFINE_float("plain_seconds", 20.0, "Seconds to measure the plain port for.")
flags.DEFINE_list("processes", ["1", "2"], "Numbers of processes to measure.")


def repeated(folder):
    """Write the file with its articles repeated and return its path."""
    with open(FLAGS.input_file, encoding="utf-8") as reader:
        values = json.load(reader)
    size = os.path.getsize(FLAGS.input_file)
    values["data"] *= -(-FLAGS.megabytes * 1_000_000 // size)
    path = os.path.join(folder, "train.json")
    with open(path, "w", encoding="utf-8") as writer:
        json.dump(values, writer, ensure_ascii=False)
    return path


def cpu_seconds():
    """Return the CPU seconds of this process and of its children that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return [usage.ru_utime + usage.ru_stime for usage in usages]


def plain_rate():
    """Return the questions per CPU second of the plain port, and their records."""
    from plain_squad import PlainFeatures
    from plain_tokenizer import PlainTokenizer

    from bert_tf.tokenization import load_vocab

    features = PlainFeatures(PlainTokenizer(load_vocab(FLAGS.vocab_file)))
    start = sum(cpu_seconds())
    examples, records, count = features.examples(FLAGS.input_file), [], 0
    while count < len(examples) and sum(cpu_seconds()) - start < FLAGS.plain_seconds:
        records += features.records(examples[count : count + 20])
        count += len(examples[count : count + 20])
    return count / (sum(cpu_seconds()) - start), records


def main(_):
    import tensorflow as tf

    import bert_tf
    from bert_tf.tasks import question_answering as squad
    from bert_tf.tasks.question_answering.features import write_windows

    plain, expected = plain_rate()
    print("| | questions / s | per CPU second | times the plain port | windows | lower bound, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(f"| plain port | | {plain:.0f} | 1.0 | | |")
    with tempfile.TemporaryDirectory() as folder:
        source = squad.JsonSource(repeated(folder), "input_file")
        questions = squad.validate_and_count(source, "train").questions
        path = os.path.join(folder, "train.tf_record")
        for processes in map(int, FLAGS.processes):
            # A new tokenizer each time, with an empty cache.
            tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file)
            before, start = cpu_seconds(), time.monotonic()
            windows = write_windows(
                path, source, tokenizer, squad.QuestionAnsweringConfig().resolve(), True, processes
            )["windows"]
            seconds = time.monotonic() - start
            own, workers = (x - y for x, y in zip(cpu_seconds(), before, strict=True))
            rate = questions / (own + workers)
            lower_bound = f"{own:.1f}" if workers else ""
            print(
                f"| bert_tf, {processes} | {questions / seconds:.0f} | {rate:.0f} | "
                f"{rate / plain:.1f} | {windows} | {lower_bound} |"
            )
        # Apart from the ids, the values should match the plain port.
        written = tf.data.TFRecordDataset(path).take(len(expected)).as_numpy_iterator()
        same = sum(_without_id(a) == _without_id(b) for a, b in zip(written, expected, strict=True))
        print(f"{same} of {len(expected)} windows of the plain port are the same")


def _without_id(serialized):
    import tensorflow as tf

    features = tf.train.Example.FromString(serialized).features.feature
    return {name: list(x.int64_list.value) for name, x in features.items() if name != "unique_ids"}


if __name__ == "__main__":
    app.run(main)
