"""Words masked when they are trained on, anew in each epoch (RoBERTa, arXiv:1907.11692)."""

import tensorflow as tf

from bert_tf.errors import UserError


class DynamicMasking:
    """Masks batches of unmasked records as `pretraining.masking` masks instances.

    What is masked is a function of seed, step and row, on any number of devices and after a
    restart.
    """

    def __init__(self, vocab, lengths, masked_lm_prob, seed):
        """Takes how to mask.

        Args:
          vocab: dict from piece to id.
          lengths: {"S": ..., "P": ...}; P is the most tokens to mask.
          masked_lm_prob: share of the tokens to mask.
          seed: of what is drawn.
        """
        if not 0 <= masked_lm_prob <= 1:
            raise UserError(f"`masked_lm_prob` must be from 0 to 1, not {masked_lm_prob}")
        if lengths["P"] > lengths["S"]:
            raise UserError(
                f"`max_predictions_per_seq={lengths['P']}` is more than "
                f"`max_seq_length={lengths['S']}`"
            )
        self._ends = [vocab["[CLS]"], vocab["[SEP]"]]
        self._mask_id, self._pieces = vocab["[MASK]"], sorted(vocab.values())
        self._prob, self._seed, self._lengths = masked_lm_prob, seed, lengths

    def noise(self, step, batch_size):
        """What is drawn for the batch of a step: float32 (B, S + P) and int32 (B, P)."""
        seed = tf.random.experimental.stateless_fold_in([self._seed, 1], step)
        length, most = self._lengths["S"], self._lengths["P"]
        chance = tf.random.stateless_uniform([batch_size, length + most], seed)
        drawn = tf.random.stateless_uniform(
            [batch_size, most], seed + 1, 0, len(self._pieces), tf.int32
        )
        return chance, drawn

    def __call__(self, batch, noise):
        """Adds `masked_lm_positions`, `_ids` and `_weights` (B, P) to a batch, and masks it."""
        chance, drawn = noise
        length, most = self._lengths["S"], self._lengths["P"]
        ids, filled = batch["input_ids"], batch["input_mask"]
        is_end = tf.reduce_any(ids[..., None] == self._ends, -1)
        may_be = (filled == 1) & ~is_end
        wanted = tf.round(tf.cast(tf.reduce_sum(filled, 1), tf.float32) * self._prob)
        wanted = tf.minimum(
            tf.cast(tf.maximum(wanted, 1), tf.int32), tf.reduce_sum(tf.cast(may_be, tf.int32), 1)
        )
        is_used = tf.range(most) < wanted[:, None]
        best = tf.math.top_k(tf.where(may_be, chance[:, :length], -1.0), most).indices
        positions = tf.sort(tf.where(is_used, best, length), axis=1)
        positions = tf.where(is_used, positions, 0)
        found = tf.gather(ids, positions, batch_dims=1)
        # 80% by [MASK], 10% by themselves, 10% by any piece.
        kind = chance[:, length:]
        other = tf.where(kind < 0.9, found, tf.gather(self._pieces, drawn))
        shown = tf.where(kind < 0.8, self._mask_id, other)
        # Slots that are not used write what stands at position 0.
        shown = tf.where(is_used, shown, found)
        rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(positions))
        masked = tf.tensor_scatter_nd_update(ids, tf.stack([rows, positions], -1), shown)
        return {
            **batch,
            "input_ids": tf.ensure_shape(masked, ids.shape),
            "masked_lm_positions": positions,
            "masked_lm_ids": tf.where(is_used, found, 0),
            "masked_lm_weights": tf.cast(is_used, tf.float32),
        }
