"""Which layer a weight belongs to, by its release name: for rates by layer and frozen layers."""

import re

_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")


def depth(name):
    """0 for the embeddings, i + 1 for layer i, None for what stands on top: pooler and heads."""
    if name.startswith("bert/embeddings/"):
        return 0
    match = _LAYER.match(name)
    return int(match[1]) + 1 if match else None


def rate_factors(names, layer_decay):
    """How much of the learning rate each weight gets.

    The pooler, the heads and the last layer get all of it, each layer below `layer_decay` times
    that of the layer above, the embeddings last (Sun et al., arXiv:1905.05583, layer-wise
    decreasing learning rate).

    Args:
      names: the release's names of the weights.
      layer_decay: between 0 and 1.

    Returns:
      Dict from name to factor.
    """
    depths = {name: depth(name) for name in names}
    top = max((d for d in depths.values() if d is not None), default=0)
    return {name: layer_decay ** (top - d) if d is not None else 1.0 for name, d in depths.items()}


def trained(weights, num_frozen_layers):
    """The weights above the first `num_frozen_layers` layers, which freeze the embeddings too.

    Args:
      weights: dict by the release's names.
      num_frozen_layers: 0 freezes nothing.
    """
    if not num_frozen_layers:
        return weights
    depths = {name: depth(name) for name in weights}
    return {
        name: weight
        for name, weight in weights.items()
        if depths[name] is None or depths[name] > num_frozen_layers
    }
