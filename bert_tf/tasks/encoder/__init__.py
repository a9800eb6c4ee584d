"""Export of the encoder without a head: vectors of a text and its tokens."""
