"""Conversion of labelled texts to features, as in the release."""

from bert_tf.data import records
from bert_tf.data.feature_cache import encode_batches, write_records
from bert_tf.errors import UserError
from bert_tf.tasks.classification.examples import normalize
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tokenization.truncation import LengthCounter

CLS, SEP = "[CLS]", "[SEP]"


def truncate_pair(ids_a, ids_b, limit):
    """Shorten two lists in place to `limit` together, always the longer one from its end."""
    while len(ids_a) + len(ids_b) > limit:
        (ids_a if len(ids_a) > len(ids_b) else ids_b).pop()


def pack_pair(ids_a, ids_b, tokenizer, max_seq_length, lengths=None):
    """Pack `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, truncated as in the release, padded with 0.

    Args:
      ids_a: list of the ids of the first text; it is shortened in place.
      ids_b: list of the ids of the second text, shortened too; empty for a single text.
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.
      lengths: a `truncation.LengthCounter` that the length before truncation is added to, or None.

    Returns:
      Dict of lists of S numbers: `input_ids`, `input_mask`, `segment_ids`.
    """
    if lengths:
        lengths.add(len(ids_a) + len(ids_b) + (3 if ids_b else 2))
    if ids_b:
        truncate_pair(ids_a, ids_b, max_seq_length - 3)
    del ids_a[max_seq_length - 2 :]
    sep = tokenizer.vocab[SEP]
    first = [tokenizer.vocab[CLS], *ids_a, sep]
    second = [*ids_b, sep] if ids_b else []
    padding = [0] * (max_seq_length - len(first) - len(second))
    return {
        "input_ids": first + second + padding,
        "input_mask": [1] * (len(first) + len(second)) + padding,
        "segment_ids": [0] * len(first) + [1] * len(second) + padding,
    }


def pack_windows(ids, tokenizer, windows, num_windows):
    """Pack each window of a text as `[CLS] tokens [SEP]`.

    Args:
      ids: list of the ids of the text.
      tokenizer: a `FullTokenizer`.
      windows: the `DocumentWindows`.
      num_windows: W; windows of zeros follow those of the text.

    Returns:
      Dict of lists of W lists of S numbers.
    """
    rows = [
        pack_pair(ids[first : first + length], [], tokenizer, windows.max_seq_length)
        for first, length in windows.spans(len(ids))
    ]
    padding = [[0] * windows.max_seq_length] * (num_windows - len(rows))
    return {name: [row[name] for row in rows] + padding for name in rows[0]}


def schema_of(task_class, numeric_features=(), with_teacher=False, windows=None):
    """Return the schema of the records of one of the `task.TASK_CLASSES`.

    `numeric_features` are those that the model takes as numbers; `with_teacher` says whether the
    records have a teacher's logits, and `windows` are the `DocumentWindows` of long texts, if any.
    """
    return {
        **(records.windowed(task_class.schema) if windows else task_class.schema),
        **(records.NUMBERS if numeric_features else {}),
        **(records.TEACHER if with_teacher else {}),
    }


def convert_examples(
    examples,
    labels,
    tokenizer,
    max_seq_length,
    task_class=ClassificationTask,
    numeric_features=(),
    teacher_logits=None,
    lengths=None,
    windows=None,
    num_windows=None,
):
    """Convert examples to the values of records, as the release does.

    Args:
      examples: list of `Example`.
      labels: sequence of labels in the order of their ids.
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.
      task_class: the class of `task.TASK_CLASSES` that the records are for.
      numeric_features: the `NumericFeature`s by which to normalize the numbers of the examples.
      teacher_logits: array (N, L) of the logits of a teacher, or None.
      lengths: a `truncation.LengthCounter` to add the lengths of the examples to, or None.
      windows: the `DocumentWindows` of the texts, None to truncate them.
      num_windows: the largest number of windows of an example, with `windows`.

    Yields:
      For each example a dict for `schema_of`; see `pack_pair` and `pack_windows`.

    Raises:
      UserError: if a label is not in `labels`; names file and line.
    """
    all_a = encode_batches(tokenizer, (example.text_a for example in examples))
    all_b = encode_batches(tokenizer, (example.text_b or "" for example in examples))
    for i, (example, ids_a, ids_b) in enumerate(zip(examples, all_a, all_b, strict=True)):
        try:
            label = task_class.encode(example.label, labels)
        except ValueError:
            raise UserError(
                f"{example.where}: the label {example.label!r} is not one of {', '.join(labels)}"
            ) from None
        values = {}
        if numeric_features:
            values["numbers"] = normalize(example.numbers, numeric_features)
        if teacher_logits is not None:
            values["teacher_logits"] = teacher_logits[i]
        if windows:
            if lengths:
                lengths.add(len(ids_a) + 2)
            packed = pack_windows(ids_a, tokenizer, windows, num_windows)
        else:
            packed = pack_pair(ids_a, ids_b, tokenizer, max_seq_length, lengths)
        yield {
            **values,
            **packed,
            task_class.label_name: label,
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
    teacher_logits=None,
    windows=None,
):
    """Write the `features` of all examples to a TFRecord file, all or none.

    Returns the metadata of a `FeatureCache`: the counts of a `truncation.LengthCounter`, and with
    `windows` the largest number of windows of an example.
    """
    schema = schema_of(task_class, numeric_features, teacher_logits is not None, windows)
    lengths, results = LengthCounter(windows.max_length if windows else max_seq_length), {}
    if windows:
        # Tokenized twice, because the ids of all documents may not fit into memory.
        all_ids = encode_batches(tokenizer, (example.text_a for example in examples))
        results["num_windows"] = max(len(windows.spans(len(ids))) for ids in all_ids)
    values = convert_examples(
        examples, labels, tokenizer, max_seq_length, task_class, numeric_features, teacher_logits,
        lengths, windows, **results,
    )  # fmt: skip
    write_records(path, schema, values, total=len(examples))
    return {"lengths": lengths.counts, **results}
