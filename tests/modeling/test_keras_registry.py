"""`import bert_tf` is enough to load `.keras` files, and does not import Keras."""

import inspect

import keras
import pytest

import bert_tf
from bert_tf import keras_registry
from tests.common import TINY, run_python


def test_every_registered_class_is_listed():
    registered = {
        name.removeprefix("bert_tf>")
        for name, x in keras.saving.get_custom_objects().items()
        if name.startswith("bert_tf>") and not inspect.isfunction(x)
    }
    listed = [name for names in keras_registry._CLASSES.values() for name in names.split()]
    assert sorted(listed) == sorted(registered)


LOAD = """
import sys
import {first}
if "{first}" == "bert_tf":
    assert not {{"keras", "tensorflow", "numpy"}} & set(sys.modules)
import {second}
assert "bert_tf.modeling" not in sys.modules
model = keras.saving.load_model(sys.argv[1])
assert type(model.get_layer("bert")) is bert_tf.BertModel
"""


@pytest.mark.parametrize(
    ("first", "second"),
    [("bert_tf", "keras"), pytest.param("keras", "bert_tf", marks=pytest.mark.slow)],
)
def test_import_bert_tf_is_enough(tmp_path, first, second):
    bert = bert_tf.BertModel(TINY)
    inputs = {name: keras.Input((None,), dtype="int32", name=name) for name in bert.input}
    keras.Model(inputs, bert(inputs)["pooled_output"]).save(tmp_path / "model.keras")
    code = LOAD.format(first=first, second=second)
    run_python("-c", code, tmp_path / "model.keras")
