"""Former names of `training_helpers`, for test folders that still import them from here."""

from training_helpers import log, start  # noqa: F401
