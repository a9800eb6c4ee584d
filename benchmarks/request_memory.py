#!/usr/bin/env python3
"""Measure the peak memory of an exported model for requests of growing size.

    python export_model.py --model_dir=RUN --export_dir=/tmp/served
    python benchmarks/request_memory.py --model=/tmp/served

Half of each text is one word and half are short words: the memory must be proportional to the bytes
of the text, not to the number of words times the longest word. Linux only.
"""

from absl import flags

import bert_tf
from bert_tf.cli.flags import FLAGS

flags.DEFINE_string("model", None, "Exported model.", required=True)
flags.DEFINE_list("bytes", ["25000", "50000", "100000", "200000"], "Sizes of the text in bytes.")


def main():
    predictor = bert_tf.serving.Predictor(FLAGS.model)
    predictor([row_of(predictor, 1000)])
    print("bytes    peak MB    more than before MB    bytes of memory for each byte of text")
    for size in map(int, FLAGS.bytes):
        reset_peak()
        before = memory("VmRSS")
        predictor([row_of(predictor, size)])
        peak = memory("VmHWM")
        more = peak - before
        print(f"{size:<8} {peak:<10.0f} {more:<22.0f} {more * 1e6 / size:.0f}", flush=True)


def row_of(predictor, size):
    """Return a row in which the last text has `size` bytes."""
    text = "a" * (size // 2) + " ab" * (size // 6)
    values = dict.fromkeys(predictor.inputs, "a")
    values["numbers"] = [0.0] * predictor.num_numeric_features
    values["endings"] = [text, "b"]
    last = [name for name in predictor.inputs if name not in ("numbers", "endings")][-1]
    values[last] = text
    return {name: values[name] for name in predictor.inputs}


def reset_peak():
    with open("/proc/self/clear_refs", "w", encoding="ascii") as writer:
        writer.write("5")


def memory(name):
    """Return a memory figure of this process, such as VmHWM, in MB."""
    with open("/proc/self/status", encoding="ascii") as reader:
        (line,) = (line for line in reader if line.startswith(f"{name}:"))
    return int(line.split()[1]) / 1e3


if __name__ == "__main__":
    bert_tf.cli.flags.run(main)
