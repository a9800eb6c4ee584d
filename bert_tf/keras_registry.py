"""Register the classes of bert_tf with Keras lazily.

After `import bert_tf`, `keras.models.load_model` finds the classes in a `.keras` file. To avoid
importing TensorFlow with bert_tf, each class is registered as a placeholder, which imports its
module when an object is loaded. Keras may be imported before or after bert_tf.
"""

import importlib
import sys

_CLASSES = {
    "bert_tf.modeling": (
        "BertClassifier BertModel BertMultipleChoice BertPretrainer BertSpanLabeler "
        "BertTokenClassifier Dense Dropout Embeddings Fold LayerNorm MaskedLMHead Projection "
        "TransformerLayer Unfold"
    ),
    "bert_tf.optimization": "AdamWeightDecay LAMB LinearWarmupDecay",
    "bert_tf.tasks.sentence_embedding.losses": "ColumnModel",
    "bert_tf.tokenization.layer": "BertTokenizer",
}


class _UnloadedClass:
    """Placeholder for a class whose module has not been imported yet."""

    def __init__(self, name, module):
        self._name, self._module = name, module

    def from_config(self, config):
        """Import the module, which registers the class, and create the object."""
        importlib.import_module(self._module)
        return _registered()[self._name].from_config(config)


def _registered():
    import keras

    return keras.saving.get_custom_objects()


def _register():
    for module, names in _CLASSES.items():
        for name in (f"bert_tf>{name}" for name in names.split()):
            _registered().setdefault(name, _UnloadedClass(name, module))


class _KerasFinder:
    """Import hook that calls `_register` after Keras has been imported."""

    def find_spec(self, name, path=None, target=None):
        if name != "keras":
            return None
        finders = (finder for finder in sys.meta_path if finder is not self)
        specs = (finder.find_spec(name, path, target) for finder in finders)
        spec = next((spec for spec in specs if spec), None)
        if spec and spec.loader:
            exec_module = spec.loader.exec_module

            def exec_module_and_register(module):
                exec_module(module)
                _register()

            spec.loader.exec_module = exec_module_and_register
        return spec


def install():
    """Register the classes now, or when Keras is imported."""
    if "keras" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _KerasFinder())
