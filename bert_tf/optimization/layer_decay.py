"""Layer-wise learning rates, and the trainable weights if the lowest layers are frozen.

Weight names are the release's or the paths of Keras variables; both write the layer number in the
same form.
"""

import re

# Includes ELECTRA's projection to the hidden size.
_EMBEDDINGS = re.compile(r"(^|/)embeddings(_project)?/")
_LAYER = re.compile(r"(?:^|/)layer_(\d+)/")


def _depth(name):
    """Return 0 for the embeddings, i + 1 for layer i, and None for the pooler and heads."""
    if _EMBEDDINGS.search(name):
        return 0
    match = _LAYER.search(name)
    return int(match[1]) + 1 if match else None


def rate_factors(names, layer_decay):
    """Return a dict from weight names to learning-rate factors.

    The factor is 1 for the pooler, the heads and the last layer, and `layer_decay` times the factor
    of the layer above for each lower layer (Sun et al., arXiv:1905.05583).
    """
    depths = {name: _depth(name) for name in names}
    top = max((d for d in depths.values() if d is not None), default=0)
    return {name: layer_decay ** (top - d) if d is not None else 1.0 for name, d in depths.items()}


def trainable_weights(weights, num_frozen_layers):
    """Return the entries of `weights` that are not frozen with the lowest layers.

    The embeddings are frozen too, unless `num_frozen_layers` is 0.
    """
    if not num_frozen_layers:
        return weights
    frozen = range(num_frozen_layers + 1)
    return {name: weight for name, weight in weights.items() if _depth(name) not in frozen}
