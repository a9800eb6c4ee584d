"""Classification and regression of texts and text pairs (BERT paper, section 4.1)."""
