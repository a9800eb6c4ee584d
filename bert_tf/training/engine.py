"""`Engine`: the engine of Keras' backend, which knows the devices and makes the steps of a run."""

from typing import Any

import keras

Engine: Any
if keras.backend.backend() == "jax":
    from bert_tf.training.jax_engine import JaxEngine

    Engine = JaxEngine
else:
    from bert_tf.training.tensorflow_engine import TensorFlowEngine

    Engine = TensorFlowEngine
