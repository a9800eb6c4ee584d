"""The special tokens of a BERT vocabulary; no other module spells them."""

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
REQUIRED_TOKENS = (UNK, CLS, SEP, MASK)
SPECIAL_TOKENS = (PAD, *REQUIRED_TOKENS)
