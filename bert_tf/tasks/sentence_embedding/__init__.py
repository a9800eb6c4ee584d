"""Sentence embeddings for similarity and search (Sentence-BERT, arXiv:1908.10084)."""
