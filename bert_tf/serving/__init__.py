"""Export SavedModels for TF Serving and TensorFlow programs, and load them."""

from bert_tf.lazy import lazy_names

# Most modules need tensorflow-text.
__getattr__, __all__ = lazy_names(
    __name__,
    {
        "answers": ("Answers",),
        "exporting": ("Servable", "export"),
        "predictor": ("Predictor", "ServablePredictor", "is_exported"),
    },
)
