"""The interface of objectives, `fine_tune`, `pretrain`, and the training loop that they share."""

from bert_tf.training.checkpointing import latest
from bert_tf.training.engine import Engine
from bert_tf.training.fine_tuning import fine_tune
from bert_tf.training.loop import Loop
from bert_tf.training.objective import Objective, RunData
from bert_tf.training.pretraining import pretrain
from bert_tf.training.strategy import make_strategy
from bert_tf.training.tensorflow_engine import LossScale, TensorFlowEngine, make_train_step
