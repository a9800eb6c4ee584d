"""Export models for TF Serving, TensorFlow programs and ONNX Runtime, and run them.

The names are imported on first use, because `Predictor` runs ONNX models without TensorFlow.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "answers": ["Answer", "all_outputs"],
        "exporting": ["Servable", "choose_version", "export"],
        "predictor": ["Predictor"],
    },
)
