"""Convert labeled texts to features, as in the release."""

from bert_tf.data import records
from bert_tf.data.feature_cache import encode_batches, write_records
from bert_tf.tasks.classification.examples import normalize
from bert_tf.tasks.classification.task import TASK_CLASSES
from bert_tf.tokenization.packing import LengthCounter, pack_pair


def record_schema(config):
    """Return the record schema of a `ClassificationConfig`."""
    schema = TASK_CLASSES[config.task_type].schema
    return {
        **(records.windowed(schema) if config.windows else schema),
        **(records.NUMBERS if config.numeric_inputs else {}),
    }


def convert_examples(examples, tokenizer, config, lengths=None):
    """Yield a dict for `record_schema` for each example; `lengths` counts the lengths of texts."""
    task_class, windows = TASK_CLASSES[config.task_type], config.windows
    all_a = encode_batches(tokenizer, (example.text_a for example in examples))
    all_b = encode_batches(tokenizer, (example.text_b or "" for example in examples))
    for example, ids_a, ids_b in zip(examples, all_a, all_b, strict=True):
        values = {}
        if config.numeric_inputs:
            values["numbers"] = normalize(example.numbers, config.numeric_inputs)
        if windows:
            lengths.add(len(ids_a) + 2)
            packed = windows.pack(ids_a, tokenizer)
        else:
            packed = pack_pair(ids_a, ids_b, tokenizer, config.max_seq_length, lengths)
        yield {
            **values,
            **packed,
            task_class.label_name: task_class.encode(example.label, config.labels),
            "is_real_example": 1,
        }


def write_features(path, examples, tokenizer, config):
    """Write the features of examples to a TFRecord file; return metadata for a `FeatureCache`."""
    windows = config.windows
    lengths = LengthCounter(windows.max_length if windows else config.max_seq_length)
    values = convert_examples(examples, tokenizer, config, lengths)
    write_records(path, record_schema(config), values, total=len(examples))
    counts = lengths.counts
    num_windows = {"num_windows": len(windows.spans(counts["longest"] - 2))} if windows else {}
    return {"lengths": counts, **num_windows}
