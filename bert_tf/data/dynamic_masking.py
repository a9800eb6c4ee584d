"""Dynamic masking: each epoch masks different tokens (RoBERTa, arXiv:1907.11692)."""

import tensorflow as tf

from bert_tf.errors import UserError
from bert_tf.tokenization.settings import CLS, SEP
from bert_tf.tokenization.vocabulary import mask_id


class DynamicMasking:
    """Masks batches of records; the masks depend only on seed, step and row."""

    def __init__(self, vocab, lengths, masked_lm_prob, seed):
        """Mask a fraction `masked_lm_prob` of a sequence's tokens, at most P."""
        if not 0 <= masked_lm_prob <= 1:
            raise UserError(f"`masked_lm_prob={masked_lm_prob}`: expected a number from 0 to 1")
        if lengths["P"] > lengths["S"]:
            raise UserError(
                f"`max_predictions_per_seq={lengths['P']}`: expected at most {lengths['S']} tokens"
            )
        self._special_ids = [vocab[CLS], vocab[SEP]]
        self._mask_id, self._token_ids = mask_id(vocab), sorted(vocab.values())
        self._length, self._num_slots = lengths["S"], lengths["P"]
        # The values that determine the masks, apart from lengths and vocabulary.
        self.identity = [masked_lm_prob, seed]

    def noise(self, step, batch_size):
        """Return the random draws for the batch of a step: float32 (B, S + P) and int32 (B, P)."""
        seed = tf.random.experimental.stateless_fold_in([self.identity[1], 1], step)
        length, num_slots = self._length, self._num_slots
        uniform = tf.random.stateless_uniform([batch_size, length + num_slots], seed)
        random_tokens = tf.random.stateless_uniform(
            [batch_size, num_slots], seed + 1, 0, len(self._token_ids), tf.int32
        )
        return uniform, random_tokens

    def __call__(self, batch, noise):
        """Return the masked batch with `masked_lm_positions`, `_ids` and `_weights` (B, P)."""
        uniform, random_tokens = noise
        length, num_slots = self._length, self._num_slots
        ids, input_mask = batch["input_ids"], batch["input_mask"]
        is_candidate = (input_mask == 1) & ~tf.reduce_any(ids[..., None] == self._special_ids, -1)
        count = tf.round(tf.cast(tf.reduce_sum(input_mask, 1), tf.float32) * self.identity[0])
        num_candidates = tf.reduce_sum(tf.cast(is_candidate, tf.int32), 1)
        count = tf.minimum(tf.cast(tf.maximum(count, 1), tf.int32), num_candidates)
        is_used = tf.range(num_slots) < count[:, None]
        scores = tf.where(is_candidate, uniform[:, :length], -1.0)
        positions = tf.math.top_k(scores, num_slots).indices
        positions = tf.sort(tf.where(is_used, positions, length), axis=1)
        positions = tf.where(is_used, positions, 0)
        labels = tf.gather(ids, positions, batch_dims=1)
        # 80% become [MASK], 10% stay, 10% become a random token.
        action = uniform[:, length:]
        replacements = tf.where(action < 0.9, labels, tf.gather(self._token_ids, random_tokens))
        replacements = tf.where(action < 0.8, self._mask_id, replacements)
        # Unused slots rewrite the token at position 0.
        replacements = tf.where(is_used, replacements, labels)
        rows = tf.broadcast_to(tf.range(tf.shape(ids)[0])[:, None], tf.shape(positions))
        masked = tf.tensor_scatter_nd_update(ids, tf.stack([rows, positions], -1), replacements)
        return {
            **batch,
            "input_ids": tf.ensure_shape(masked, ids.shape),
            "masked_lm_positions": positions,
            "masked_lm_ids": tf.where(is_used, labels, 0),
            "masked_lm_weights": tf.cast(is_used, tf.float32),
        }
