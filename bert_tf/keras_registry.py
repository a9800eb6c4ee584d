"""Make `import bert_tf` enough for `keras.models.load_model`, without importing Keras.

Keras finds the classes in a `.keras` file in a dict of registered names. The modules that register
them import Keras, and some TensorFlow, so here each name gets an entry that imports its module when
the first such object is loaded. The entries are made when Keras is imported, whether before or
after bert_tf.
"""

import importlib
import sys

_CLASSES = {
    "bert_tf.modeling": (
        "BertClassifier",
        "BertFeatureTokenClassifier",
        "BertModel",
        "BertMultipleChoice",
        "BertPretrainer",
        "BertSpanLabeler",
        "BertTokenClassifier",
        "Dense",
        "Dropout",
        "Embeddings",
        "FoldChoices",
        "LayerCombination",
        "LayerNorm",
        "MaskedLMHead",
        "PoolWindows",
        "Projection",
        "RepeatForWindows",
        "TransformerLayer",
        "UnfoldChoices",
        # Names of version 0.1.
        "BertChooser",
        "BertFeatureTagger",
        "BertSpanFinder",
        "BertTagger",
        "LayerMix",
    ),
    "bert_tf.optimization": ("AdamWeightDecay", "LAMB", "LinearWarmupDecay"),
    "bert_tf.pipelines.tokenizer_layer": ("BertTokenizer",),
}


class _UnloadedClass:
    """Stands for a class whose module is not imported yet."""

    def __init__(self, name, module):
        self._name, self._module = name, module

    def from_config(self, config):
        """Import the module, which registers the class, and make an object of the class."""
        importlib.import_module(self._module)
        return _registered()[self._name].from_config(config)


def _registered():
    import keras

    return keras.saving.get_custom_objects()


def _register():
    for module, names in _CLASSES.items():
        for name in (f"bert_tf>{name}" for name in names):
            _registered().setdefault(name, _UnloadedClass(name, module))


class _KerasFinder:
    """Finds Keras as the other finders do, and calls `_register` when it has been imported."""

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
    """Register the classes now if Keras has been imported, else when it is."""
    if "keras" in sys.modules:
        _register()
    else:
        sys.meta_path.insert(0, _KerasFinder())
