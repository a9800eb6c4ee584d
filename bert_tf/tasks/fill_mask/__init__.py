"""Prediction of masked words (BERT paper, section 3.1, task 1)."""
