"""BERT for TensorFlow and Keras 3.

The names in `__init__.pyi` are imported on first use, because TensorFlow takes seconds to import
and `--help` of a script should not wait for it.

>>> import bert_tf
>>> config = bert_tf.BertConfig(vocab_size=30522)
>>> model = bert_tf.BertModel(config)
"""

import importlib.util
import os
import platform
import sys

import lazy_loader

from bert_tf import keras_registry

__version__ = "0.3.0"

# TensorFlow is an optional dependency, because several packages provide it.
if importlib.util.find_spec("tensorflow") is None:
    raise ImportError(
        "bert_tf requires TensorFlow, which is not installed: pip install '.[tensorflow]' in the "
        "clone of bert_tf; for tensorflow-cpu, tensorflow-tpu or tf-nightly see docs/models.md"
    )

# On Linux, TensorFlow by default uses oneDNN only on processors with instructions for neural
# networks. On an AMD EPYC (Zen 3), which has none, steps and predictions are faster with it, too.
# TensorFlow reads the variable when it is imported.
if platform.machine() in ("x86_64", "AMD64") and "tensorflow" not in sys.modules:
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

keras_registry.install()

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
