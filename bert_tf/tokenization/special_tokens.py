"""The special tokens of a BERT vocabulary."""

PAD = "[PAD]"
UNK = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"
# Only masking needs [MASK]; see `vocabulary.mask_id`.
REQUIRED_TOKENS = (UNK, CLS, SEP)
SPECIAL_TOKENS = (PAD, *REQUIRED_TOKENS, MASK)

# The encoder's inputs, as the release names them.
INPUTS = ("input_ids", "input_mask", "segment_ids")

# [CLS] a [SEP] b [SEP] with one token in each text.
SHORTEST = 5
