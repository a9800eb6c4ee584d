"""Training data: records, the creation of pre-training examples, and input pipelines."""
