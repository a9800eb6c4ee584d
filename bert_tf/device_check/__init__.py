"""The checks behind `bert-tf check`: devices must reproduce recorded results."""

from bert_tf.lazy import lazy_names

__getattr__, __all__ = lazy_names(
    __name__,
    {
        "checks": ("RECORDED", "Check", "Checks", "set_logical_devices"),
        "jax_checks": ("JaxChecks",),
        "speed": ("Speed", "best_batch_size", "measure_speed"),
    },
)
