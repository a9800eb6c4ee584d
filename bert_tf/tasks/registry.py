"""The registry of tasks.

To add a task, write a package with its class and add it here, or call `register` (see
docs/adding_a_task.md).
"""

from bert_tf import checkpoints
from bert_tf.checkpoints.hugging_face import detect_architecture
from bert_tf.configs.task_names import PROBLEM_TYPES, TASK_CONFIG_FILES
from bert_tf.errors import UserError
from bert_tf.serving.answers import ANSWERS
from bert_tf.tasks.base import Task
from bert_tf.tasks.classification import task as classification
from bert_tf.tasks.fill_mask import task as fill_mask
from bert_tf.tasks.multiple_choice import task as multiple_choice
from bert_tf.tasks.question_answering import task as question_answering
from bert_tf.tasks.sentence_embedding import task as sentence_embedding
from bert_tf.tasks.token_classification import task as token_classification
from bert_tf.tasks.token_vectors import task as token_vectors

# By the end of the class name of a transformers model; the start depends on the architecture, as in
# "DistilBertForMaskedLM".
HEADS: dict[str, type[Task]] = {
    "Model": sentence_embedding.SentenceEncoder,
    "ForMaskedLM": fill_mask.FillMask,
    "ForPreTraining": fill_mask.FillMask,
    "ForSequenceClassification": classification.TextClassifier,
    "ForQuestionAnswering": question_answering.QuestionAnswering,
    "ForTokenClassification": token_classification.TokenClassification,
    "ForMultipleChoice": multiple_choice.MultipleChoice,
}

TASKS: dict[str, type[Task]] = {
    "encoder": token_vectors.TokenVectors,
    **{x.name: x for x in HEADS.values()},
}


def register(task, answer=None):
    """Add the class of a task to `TASKS`, and register its side file as part of a model.

    `answer` is the `serving.Answer` of its exported models, None for all outputs.
    """
    TASKS[task.name] = task
    if task.config_class.FILE:
        TASK_CONFIG_FILES[task.config_class.FILE] = task.name
    if answer:
        ANSWERS[task.name] = answer


def exported_tasks():
    """Return a dict from names of exported models to (class of the task, options)."""
    of_classifier = {name: (TASKS["classification"], {"task_type": name}) for name in PROBLEM_TYPES}
    return {name: (task, {}) for name, task in TASKS.items()} | of_classifier


def load_config(folder):
    """Return (class, `TaskConfig`) of the task in a run's output folder, or (None, None)."""
    for task in TASKS.values():
        if config := task.config_class.load(folder):
            return task, config
    return None, None


def load(preset, task=None, **options):
    """Load a model with all its weights, to predict or to export.

    Args:
      preset: see `Task.from_preset`.
      task: name of an exported model, such as "regression". None for the task of the run in the
        folder, else of the model's head.
      **options: other arguments of `from_preset`.

    Raises:
      UserError: if the model does not exist, or lacks weights that predictions use.
    """
    pretrained = checkpoints.resolve(preset, ("init_checkpoint", "bert_config_file", "vocab_file"))
    if task:
        task_class, of_task = exported_tasks()[task]
        options |= of_task
    else:
        task_class, _ = load_config(pretrained.config_folder)
    task_class = task_class or _find_class(pretrained.checkpoint)
    return task_class.from_preset(pretrained, load_weights="all", **options)


def _find_class(checkpoint):
    architectures = checkpoints.read_metadata(checkpoint).get("architectures")
    shapes = checkpoints.open_checkpoint(checkpoint).shapes
    name = architectures[0] if architectures else detect_architecture(shapes)
    head = name[name.find("For") :] if "For" in name else "Model"
    if head not in HEADS:
        raise UserError(f"{checkpoint}: bert_tf has no task for the head of {name}")
    return HEADS[head]
