#!/usr/bin/env python3
"""Measures how fast SQuAD features are made, beside a plain Python port, by several processes.

The file is repeated to a size, as if it were so many articles. The plain port works through as many
questions as fit into some seconds, bert_tf through all of them, reading and writing included. CPU
seconds are those of all processes; other work on the machine disturbs them less than the clock.
"The least" is what the process that reads and writes needs itself: no number of others makes it
faster than that.

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
flags.DEFINE_string("input_file", None, "JSON file of SQuAD 1.1.", required=True)
flags.DEFINE_string("vocab_file", None, "An uncased vocabulary.", required=True)
flags.DEFINE_integer("megabytes", 50, "Size to repeat the file to.")
flags.DEFINE_float("plain_seconds", 20.0, "How long to measure the plain port.")
flags.DEFINE_list("processes", ["1", "2"], "Numbers of processes to make features by.")


def repeated(folder):
    """The path of the file, repeated."""
    with open(FLAGS.input_file, encoding="utf-8") as reader:
        values = json.load(reader)
    size = os.path.getsize(FLAGS.input_file)
    values["data"] *= -(-FLAGS.megabytes * 1_000_000 // size)
    path = os.path.join(folder, "train.json")
    with open(path, "w", encoding="utf-8") as writer:
        json.dump(values, writer, ensure_ascii=False)
    return path


def cpu_seconds():
    """Those of this process, and of those that it started and that have ended."""
    usages = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return [usage.ru_utime + usage.ru_stime for usage in usages]


def plain_rate():
    """Questions a CPU second of the plain port, and their records for comparison."""
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
    print("| | questions / s | per CPU second | times the plain port | windows | the least, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    print(f"| plain port | | {plain:.0f} | 1.0 | | |")
    with tempfile.TemporaryDirectory() as folder:
        source = squad.JsonSource(repeated(folder), "input_file")
        questions = squad.validate_and_count(source, "train").questions
        path = os.path.join(folder, "train.tf_record")
        for processes in map(int, FLAGS.processes):
            # Anew each time, so that its cache is empty.
            tokenizer = bert_tf.FullTokenizer(FLAGS.vocab_file)
            before, start = cpu_seconds(), time.monotonic()
            windows = write_windows(path, source, tokenizer, squad.WindowConfig(), True, processes)[
                "windows"
            ]
            seconds = time.monotonic() - start
            own, of_others = (x - y for x, y in zip(cpu_seconds(), before, strict=True))
            rate = questions / (own + of_others)
            least = f"{own:.1f}" if of_others else ""
            print(
                f"| bert_tf, {processes} | {questions / seconds:.0f} | {rate:.0f} | "
                f"{rate / plain:.1f} | {windows} | {least} |"
            )
        # The same work: ids apart, the values are those of the plain port.
        made = tf.data.TFRecordDataset(path).take(len(expected)).as_numpy_iterator()
        same = sum(_without_id(a) == _without_id(b) for a, b in zip(made, expected, strict=True))
        print(f"{same} of {len(expected)} windows of the plain port are the same")


def _without_id(serialized):
    import tensorflow as tf

    features = tf.train.Example.FromString(serialized).features.feature
    return {name: list(x.int64_list.value) for name, x in features.items() if name != "unique_ids"}


if __name__ == "__main__":
    app.run(main)
