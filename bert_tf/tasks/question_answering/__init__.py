"""Question answering on SQuAD 1.1 and 2.0 (BERT paper, sections 4.2 and 4.3)."""
