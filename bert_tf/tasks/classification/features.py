"""Convert labeled texts to features, as in the release."""

from bert_tf.data import records
from bert_tf.data.feature_cache import encode_batches, write_records
from bert_tf.tasks.classification.examples import normalize
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tokenization.packing import LengthCounter, pack_pair


def record_schema(task_class, numeric_features=(), windows=None):
    """Return the record schema of one of the `task.TASK_CLASSES` with optional features."""
    return {
        **(records.windowed(task_class.schema) if windows else task_class.schema),
        **(records.NUMBERS if numeric_features else {}),
    }


def convert_examples(
    examples,
    labels,
    tokenizer,
    max_seq_length,
    task_class=ClassificationTask,
    numeric_features=(),
    lengths=None,
    windows=None,
):
    """Yield a dict for `record_schema` for each of N examples, as in the release.

    `labels` are in the order of their ids, and `lengths` is a `packing.LengthCounter` or None.
    Without `windows`, long texts are truncated.
    """
    all_a = encode_batches(tokenizer, (example.text_a for example in examples))
    all_b = encode_batches(tokenizer, (example.text_b or "" for example in examples))
    for example, ids_a, ids_b in zip(examples, all_a, all_b, strict=True):
        values = {}
        if numeric_features:
            values["numbers"] = normalize(example.numbers, numeric_features)
        if windows:
            if lengths:
                lengths.add(len(ids_a) + 2)
            packed = windows.pack(ids_a, tokenizer)
        else:
            packed = pack_pair(ids_a, ids_b, tokenizer, max_seq_length, lengths)
        yield {
            **values,
            **packed,
            task_class.label_name: task_class.encode(example.label, labels),
            "is_real_example": 1,
        }


def write_features(
    path,
    examples,
    labels,
    tokenizer,
    max_seq_length,
    task_class=ClassificationTask,
    numeric_features=(),
    windows=None,
):
    """Write the features of examples to a TFRecord file; return metadata for a `FeatureCache`.

    Args:
      path: the file.
      examples: list of `tasks.classification.Example`.
      labels: label names in the order of their ids.
      tokenizer: a `FullTokenizer`.
      max_seq_length: maximum sequence length, in tokens; longer texts are truncated.
      task_class: one of `TASK_CLASSES`.
      numeric_features: the `NumericFeature`s of an example.
      windows: the `DocumentWindows` of long texts, or None.
    """
    schema = record_schema(task_class, numeric_features, windows)
    lengths = LengthCounter(windows.max_length if windows else max_seq_length)
    values = convert_examples(
        examples, labels, tokenizer, max_seq_length, task_class, numeric_features, lengths, windows,
    )  # fmt: skip
    write_records(path, schema, values, total=len(examples))
    counts = lengths.counts
    num_windows = {"num_windows": len(windows.spans(counts["longest"] - 2))} if windows else {}
    return {"lengths": counts, **num_windows}
