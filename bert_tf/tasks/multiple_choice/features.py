"""Convert examples to features, one sequence for each choice."""

from bert_tf.data.feature_cache import encode_batches
from bert_tf.tokenization.packing import pack_pair


def convert_examples(examples, tokenizer, max_seq_length, lengths=None):
    """Yield a dict for `records.CHOICE` per example, with a sequence for each choice."""
    contexts = encode_batches(tokenizer, (example.context for example in examples))
    endings = encode_batches(tokenizer, (text for x in examples for text in x.endings))
    for example, context in zip(examples, contexts, strict=True):
        choices = [
            pack_pair(list(context), next(endings), tokenizer, max_seq_length, lengths)
            for _ in example.endings
        ]
        yield {
            **{name: [choice[name] for choice in choices] for name in choices[0]},
            "label_ids": example.label or 0,
            "is_real_example": 1,
        }
