"""Batches of rows with similar lengths; without TensorFlow."""

import itertools

import numpy as np

# Larger batches are no faster on a CPU; in smaller ones, the overhead of operations dominates.
BATCH_TOKENS = 3000


def run_in_order(rows, run_batch, key, window_size, num_tokens, min_rows, max_rows):
    """Yield each row of an iterable, read lazily, and its outputs, a dict, in input order.

    Args:
      rows: the iterable.
      run_batch: function from a list of rows to a dict of tensors (B, ...), which may end with
        outputs to discard.
      key: function from a row to its group and number of tokens. A batch has rows of one group.
      window_size: number of rows to sort by their keys before they are divided into batches.
      num_tokens: approximate number of tokens in a batch.
      min_rows: number of rows in a batch even if they have more tokens.
      max_rows: maximum number of rows in a batch.
    """
    rows = iter(rows)
    while window := list(itertools.islice(rows, window_size)):
        batches = batches_by_tokens([*map(key, window)], num_tokens, min_rows, max_rows)
        running = ((indices, run_batch([window[i] for i in indices])) for indices in batches)
        results: list = [None] * len(window)
        # Copy the previous outputs to the host while the device computes.
        for (indices, outputs), _ in itertools.pairwise(itertools.chain(running, [None])):
            arrays = {name: np.asarray(x) for name, x in outputs.items()}
            for position, index in enumerate(indices):
                results[index] = {name: x[position] for name, x in arrays.items()}
        yield from zip(window, results, strict=True)


def batches_by_tokens(keys, num_tokens, min_rows, max_rows):
    """Yield lists of indices into `keys`, in their order; see `run_in_order`."""
    batch: list[int] = []
    for index in sorted(range(len(keys)), key=keys.__getitem__):
        group, size = keys[index]
        limit = min(max(min_rows, num_tokens / size), max_rows)
        if batch and (len(batch) + 1 > limit or keys[batch[0]][0] != group):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
