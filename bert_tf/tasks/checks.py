"""What has to fit together before anything is computed."""

import os

import tensorflow as tf

from bert_tf import console, files
from bert_tf.config import BertConfig
from bert_tf.errors import UserError

# [CLS] a [SEP] b [SEP] with one token in each text.
SHORTEST = 5


def settle_config(output_dir, config):
    """Leaves the config in a run's folder; UserError if the run began with another one."""
    path = os.path.join(output_dir, files.CONFIG)
    if tf.io.gfile.exists(path):
        before = BertConfig.from_json_file(path)
        if before != config:
            old, new = before.to_dict(), config.to_dict()
            names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
            raise UserError(
                f"`bert_config_file`: {output_dir} holds a run with another {', '.join(names)}; "
                "give the same again, or another `output_dir`"
            )
        return
    files.write_text(path, config.to_json_string())


def check_length(max_seq_length, config):
    """Raises UserError if the model has no positions for such sequences, or they hold no text."""
    if max_seq_length > config.max_position_embeddings:
        raise UserError(
            f"`max_seq_length={max_seq_length}` is more than the model's "
            f"max_position_embeddings, {config.max_position_embeddings}"
        )
    if max_seq_length < SHORTEST:
        raise UserError(f"`max_seq_length={max_seq_length}` is less than {SHORTEST}")


def check_vocabulary(vocab, config, vocab_file):
    """Raises UserError if the vocabulary has ids that the model has no embedding for.

    A smaller one is only a warning: tables are sometimes rounded up. But it may be another model's,
    cased instead of uncased, and then nothing else would say so.
    """
    needed = max(vocab.values()) + 1
    if needed > config.vocab_size:
        raise UserError(
            f"`vocab_file`: {vocab_file} has {needed} entries, but the model's vocab_size is "
            f"{config.vocab_size}"
        )
    if needed < config.vocab_size:
        console.warning(
            "%s has %d entries, the model's word table %d: is it the vocabulary of this model?",
            vocab_file, needed, config.vocab_size,
        )  # fmt: skip
