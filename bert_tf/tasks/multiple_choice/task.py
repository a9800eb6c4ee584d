"""Multiple choice: model, loss, metrics and runs."""

from bert_tf.configs.data_files import SPLITS
from bert_tf.data.rows import find_file
from bert_tf.data.tables import open_table
from bert_tf.modeling import BertMultipleChoice
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.multiple_choice.examples import make_examples, make_features
from bert_tf.training.task import TaskData


class MultipleChoiceTask(ClassificationTask):
    """Trains a `BertMultipleChoice` to choose the correct ending of each example."""

    loss_names = ("choice_loss",)
    # F1 per label is meaningless, because the order of the choices is arbitrary.
    metrics_used = ("accuracy",)


def make_model(config, dtype=None):
    return BertMultipleChoice(config.bert_config, dtype)


# File names of the splits; val.csv is SWAG's.
_FILES = {"train": ("train.csv",), "dev": ("dev.csv", "val.csv"), "test": ("test.csv",)}


class MultipleChoiceData(TaskData):
    """Holds two dicts by split: `examples`, lists of `Example`, and `endings`, column names."""

    metric_names = MultipleChoiceTask.metric_names_with()

    def __init__(self, examples, endings, config, data_files=()):
        super().__init__(examples, config, data_files)
        self.endings = endings

    def features(self, split, tokenizer):
        return make_features(self.examples[split], tokenizer, self.config)

    def make_task(self, model, train):
        return MultipleChoiceTask(model)

    def answers(self, task, predictions, split):
        choices = [str(number) for number in task.decide(predictions)]
        return choices, self.endings[split], predictions["probabilities"]


def read(task_config, model, splits, stored=None):
    """Read the data of a run; see `TaskSpec.read`."""
    examples, endings, paths = {}, {}, []
    for split in filter(splits.__contains__, SPLITS):
        path = getattr(task_config, f"{split}_file")
        path = find_file(split, _FILES[split], task_config.data_dir, path)
        paths.append(path)
        table = open_table(path)
        examples[split], endings[split] = make_examples(table, task_config, split != "test")
    return MultipleChoiceData(examples, endings, task_config.of_model(model), paths)
