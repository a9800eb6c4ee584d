"""Shards of random records, to measure reading."""

import os

import numpy as np


def write_shards(folder, num_shards, num_records, lengths):
    """Write shards like create_pretraining_data.py, but without counts."""
    from bert_tf.data import tfrecord

    size, slots = lengths["S"], lengths["P"]
    rng = np.random.default_rng(0)
    paths = []
    for shard in range(num_shards):
        ids = rng.integers(5, 30000, (num_records, size))
        features = {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
            "masked_lm_positions": np.tile(np.arange(slots), (num_records, 1)),
            "masked_lm_ids": ids[:, :slots],
            "masked_lm_weights": np.ones((num_records, slots), np.float32),
            "next_sentence_labels": ids[:, :1] % 2,
        }
        paths.append(os.path.join(folder, f"x-{shard:05d}-of-{num_shards:05d}"))
        with open(paths[-1], "wb") as writer:
            writer.write(tfrecord.frame_records(tfrecord.examples(features)))
    return paths
