"""A task of your own: the topics of texts in one file per topic, see docs/adding_a_task.md."""

import dataclasses
import os
from typing import ClassVar

from keras import ops

from bert_tf import TextClassifier
from bert_tf.configs import option
from bert_tf.configs.task import DataOptions
from bert_tf.io import files
from bert_tf.io.json_files import Fraction
from bert_tf.serving.answers import Answer
from bert_tf.tasks import registry
from bert_tf.tasks.classification.examples import Example
from bert_tf.tasks.classification.objective import ClassificationObjective
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.training import RunData


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicsData(DataOptions):
    """Data of the task: topics."""

    data_dir: str = option(".", "Folder with the folders train, dev and test of text files.")


@dataclasses.dataclass(frozen=True)
class TopicsConfig(ClassificationConfig):
    """Options of the task: topics, saved in `topics.json`."""

    FILE = "topics.json"

    smoothing: Fraction = option(0.1, "Share of the labels that is spread evenly.")


class TopicsObjective(ClassificationObjective):
    """Classification with label smoothing."""

    smoothing = 0.0

    def example_losses(self, outputs, batch, training=False):
        losses = super().example_losses(outputs, batch)
        if not training:
            return losses
        logits = outputs["logits"]
        even = ops.logsumexp(logits, -1) - ops.mean(logits, -1)  # of equally probable labels
        losses = (1.0 - self.smoothing) * losses + self.smoothing * even
        return losses * self.class_factors(batch)


class TopicFinder(TextClassifier):
    """Finds the topics of texts."""

    name = "topics"
    config_class, data_class = TopicsConfig, TopicsData
    objectives: ClassVar = {"classification": TopicsObjective}

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        examples = {split: [] for split in splits}
        for split in splits:
            for path in files.expand(f"{data_options.data_dir}/{split}/*.txt", "data_dir"):
                topic = os.path.basename(path).removesuffix(".txt")
                for i, line in enumerate(files.read_lines(path), 1):
                    where, number = f"{path}, line {i}", str(len(examples[split]))
                    examples[split].append(Example(where, line.strip(), label=topic, id=number))
        labels = trained.labels if trained else sorted({x.label for x in examples["train"]})
        values = {"task_type": "classification", "labels": tuple(labels), "num_texts": 1}
        config = config.with_model(pretrained, **values)
        return RunData(examples, config, data_options)

    def objective(self, data):
        objective = super().objective(data)
        objective.smoothing = data.config.smoothing
        objective.key = {**objective.key, "smoothing": objective.smoothing}
        return objective

    @staticmethod
    def make_servable(model, config, serving_config):
        servable = TextClassifier.make_servable(model, config, serving_config)
        return servable._replace(task="topics")


def topic(outputs, metadata):
    """Return the most probable topic, and the probabilities, which `top_k` and `rank` read."""
    probabilities = dict(zip(metadata["labels"], outputs["probabilities"].tolist(), strict=True))
    return {"topic": max(probabilities, key=probabilities.get), "probabilities": probabilities}


def columns(answer):
    return {"prediction": answer["topic"]}


# A task of bert_tf has entries in tasks/registry.py and serving/answers.py instead.
registry.register(TopicFinder, Answer(topic, columns))
