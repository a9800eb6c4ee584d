"""The registry of tasks.

To add a task, write a package with a `TaskSpec` and add it here, or call `register` (see
docs/adding_a_task.md).
"""

import dataclasses

from bert_tf import checkpoints
from bert_tf.checkpoints.hugging_face import detect_architecture
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.tasks.base import Pipeline
from bert_tf.tasks.classification import pipeline as classification
from bert_tf.tasks.features import pipeline as features
from bert_tf.tasks.fill_mask import pipeline as fill_mask
from bert_tf.tasks.multiple_choice import pipeline as multiple_choice
from bert_tf.tasks.question_answering import pipeline as question_answering
from bert_tf.tasks.sentence_embedding import pipeline as sentence_embedding
from bert_tf.tasks.token_classification import pipeline as token_classification
from bert_tf.training.task import ServedTask, TaskSpec

# By the end of the class name of a transformers model; the start depends on the architecture, as in
# "DistilBertForMaskedLM".
_PIPELINES: dict[str, type[Pipeline]] = {
    "Model": sentence_embedding.SentenceEncoder,
    "ForMaskedLM": fill_mask.FillMask,
    "ForPreTraining": fill_mask.FillMask,
    "ForSequenceClassification": classification.TextClassifier,
    "ForQuestionAnswering": question_answering.QuestionAnswering,
    "ForTokenClassification": token_classification.TokenClassification,
    "ForMultipleChoice": multiple_choice.MultipleChoice,
}

TASKS: dict[str, TaskSpec] = {
    spec.name: spec for spec in (features.SPEC, *(x.spec for x in _PIPELINES.values()))
}


def register(spec):
    """Add a `TaskSpec` to `TASKS`, and register its side file as part of a model."""
    TASKS[spec.name] = spec
    if spec.read:
        files.TASK_CONFIG_FILES[spec.config_class.FILE] = spec.name


def served_tasks():
    """Return a dict from names of exported models to (`TaskSpec`, `ServedTask`)."""
    return {
        name: (spec, served)
        for spec in TASKS.values()
        for name, served in (spec.served or {spec.name: ServedTask()}).items()
    }


def load_config(folder):
    """Return the (`TaskSpec`, `TaskConfig`) of the output folder of a run, or (None, None)."""
    for spec in TASKS.values():
        if config := spec.config_class.load(folder):
            return spec, config
    return None, None


def load_servable(model_files, serving_config):
    """Load `PretrainedFiles` as a `Servable`; the run or the head determines the task."""
    spec, config = load_config(model_files.folder)
    if spec is None:
        pipeline = _find_pipeline(model_files.checkpoint).from_preset(model_files)
        return pipeline.spec.make_servable(pipeline.model, pipeline.config, serving_config)
    config = dataclasses.replace(
        config,
        bert_config=model_files.bert_config,
        vocab_file=model_files.vocab_file,
        **model_files.tokenizer_settings,
    )
    return make_servable(spec, config, model_files.checkpoint, serving_config)


def make_servable(spec, config, checkpoint, serving_config):
    """Make the model of a `TaskConfig`, load its weights, and return it as a `Servable`."""
    model = spec.make_model(config)
    checkpoints.warm_start(model, checkpoint, require_all=True, labels=config.labels or None)
    return spec.make_servable(model, config, serving_config)


def _find_pipeline(checkpoint):
    architectures = checkpoints.read_metadata(checkpoint).get("architectures")
    shapes = checkpoints.open_checkpoint(checkpoint).shapes
    name = architectures[0] if architectures else detect_architecture(shapes)
    head = name[name.find("For") :] if "For" in name else "Model"
    if head not in _PIPELINES:
        raise UserError(f"{checkpoint}: bert_tf has no task for the head of {name}")
    return _PIPELINES[head]
