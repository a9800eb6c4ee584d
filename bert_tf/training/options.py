"""How a run trains, apart from its data, its optimizer and its devices."""

from typing import NamedTuple


class Options(NamedTuple):
    """The flags of training, by their names and with their defaults; `xla` is decided.

    save_checkpoints_steps: steps between two checkpoints.
    iterations_per_loop: the most steps between two returns to the host.
    num_frozen_layers: layers that stay as they are, and the embeddings with them; 0 for none.
    gradient_accumulation_steps: parts that each replica's batch is worked through in, to need less
      memory; the step is that of the whole batch.
    recompute: whether to compute the inside of each layer again in the backward pass instead of
      keeping it, to need less memory.
    xla: whether to compile the forward and backward pass of training with XLA.
    eval_steps: steps between two evaluations in the course of training, 0 for none; if there are
      any, the last step is one too.
    best_metric: the metric whose best checkpoint is kept, None for none.
    early_stopping_patience: evaluations without a better one after which the run stops, 0 for
      never.
    """

    save_checkpoints_steps: int = 1000
    iterations_per_loop: int = 1000
    num_frozen_layers: int = 0
    gradient_accumulation_steps: int = 1
    recompute: bool = False
    xla: bool = False
    eval_steps: int = 0
    best_metric: str | None = None
    early_stopping_patience: int = 0
