"""Classifying or scoring a text or a pair of texts (BERT paper, section 4.1)."""

from bert_tf.lazy import lazy_names
from bert_tf.task_options import ClassificationOptions
from bert_tf.tasks.classification.columns import Columns, Layout
from bert_tf.tasks.classification.config import ClassificationConfig
from bert_tf.tasks.classification.data import ClassificationData, make_model, read
from bert_tf.tasks.classification.examples import Example, NumericFeature, class_weights
from bert_tf.tasks.classification.features import (
    features,
    schema_of,
    write_features,
)
from bert_tf.tasks.classification.glue import custom_task, find_task
from bert_tf.tasks.classification.reading import FileSource, read_examples
from bert_tf.tasks.classification.source import make_source, read_splits
from bert_tf.tasks.classification.task import (
    TASK_CLASSES,
    ClassificationTask,
    DistillationConfig,
    MultiLabelTask,
    RegressionTask,
)
from bert_tf.tasks.classification.tfds_source import TfdsSource
from bert_tf.training.task import TaskSpec

SPEC = TaskSpec(
    name="classification",
    script="run_classifier.py",
    options_class=ClassificationOptions,
    config_class=ClassificationConfig,
    read=read,
    make_model=make_model,
    servable="bert_tf.tasks.classification.servable:classification_servable",
    can_distill=True,
)

# These need tensorflow-text.
__getattr__, _ = lazy_names(__name__, {"pipeline": (), "servable": ()})

__all__ = [
    "SPEC",
    "TASK_CLASSES",
    "ClassificationConfig",
    "ClassificationData",
    "ClassificationOptions",
    "ClassificationTask",
    "Columns",
    "DistillationConfig",
    "Example",
    "FileSource",
    "Layout",
    "MultiLabelTask",
    "NumericFeature",
    "RegressionTask",
    "TfdsSource",
    "class_weights",
    "custom_task",
    "features",
    "find_task",
    "make_source",
    "read_examples",
    "read_splits",
    "schema_of",
    "write_features",
]
