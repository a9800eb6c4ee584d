"""Multiple choice: model, loss and metrics."""

from bert_tf.data import records
from bert_tf.modeling import BertMultipleChoice
from bert_tf.tasks.classification.task import ClassificationTask


class MultipleChoiceTask(ClassificationTask):
    """Trains a `BertMultipleChoice` to choose the correct ending of each example."""

    task_type = "multiple_choice"
    schema = records.CHOICE
    loss_names = ("choice_loss",)
    # F1 per label is meaningless, because the order of the choices is arbitrary.
    metrics_used = ("accuracy",)

    def __init__(self, config, dtype=None):
        self.model = BertMultipleChoice(config, dtype)
        self.metric_names = self.metric_names_with()


def make_model(config, dtype=None):
    return BertMultipleChoice(config.bert_config, dtype)
