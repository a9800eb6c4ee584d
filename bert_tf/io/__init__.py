"""Atomic files, locks, validated JSON and worker processes."""

from bert_tf.io import files, json_files, processes
