"""Former names of `training_helpers`, for test folders that still import them from here."""

from training_helpers import (  # noqa: F401
    Batches,
    SomeBatches,
    assert_same,
    config,
    mirrored,
    run,
    tensors,
)
