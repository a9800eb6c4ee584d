"""A task of your own: the topics of texts in one file per topic, see docs/adding_a_task.md."""

import dataclasses
import os

from keras import ops

from bert_tf import TextClassifier
from bert_tf.configs import option
from bert_tf.io import files
from bert_tf.io.json_files import NotNegative
from bert_tf.tasks import registry
from bert_tf.tasks.classification.examples import Example
from bert_tf.tasks.classification.objective import ClassificationObjective
from bert_tf.tasks.classification.options import ClassificationConfig
from bert_tf.training import RunData


@dataclasses.dataclass(frozen=True)
class TopicsConfig(ClassificationConfig):
    """The configuration of a trained model, saved in `topics.json`."""

    FILE = "topics.json"

    smoothing: NotNegative = option(0.1, "Share of the labels that is spread evenly.")


class TopicsObjective(ClassificationObjective):
    """Classification with label smoothing."""

    smoothing = 0.0

    def losses(self, outputs, batch, weights, training=True):
        logits = outputs["logits"]
        labels = ops.one_hot(batch["label_ids"], logits.shape[-1])
        labels = labels * (1.0 - self.smoothing) + self.smoothing / logits.shape[-1]
        losses = ops.categorical_crossentropy(labels, logits, from_logits=True)
        losses = ops.sum(losses * self.example_weights(batch))
        return {"classification_loss": losses / weights["examples"]}


class TopicFinder(TextClassifier):
    """Finds the topics of texts."""

    name, exported = "topics", {}
    config_class = TopicsConfig

    @classmethod
    def read_data(cls, data, options, pretrained, splits, trained=None):
        examples = {split: [] for split in splits}
        for split in splits:
            for path in files.expand(f"{data.data_dir}/{split}/*.txt", "data_dir"):
                topic = os.path.basename(path).removesuffix(".txt")
                for i, line in enumerate(files.read_lines(path), 1):
                    example = Example(f"{path}, line {i}", line.strip(), label=topic)
                    examples[split].append(example)
        labels = trained.labels if trained else sorted({x.label for x in examples["train"]})
        config = options.with_model(pretrained, labels=tuple(labels), num_texts=1)
        return RunData(examples, config)

    def objective(self, data, pad_to_max_length=False):
        objective = TopicsObjective(self.model)
        objective.smoothing = data.config.smoothing
        objective.key = {"smoothing": objective.smoothing}
        return objective

    @staticmethod
    def make_servable(model, config, serving_config):
        servable = TextClassifier.make_servable(model, config, serving_config)
        return servable._replace(task="topics")

    @staticmethod
    def answer(outputs, metadata):
        """Return only the most probable topic."""
        return {"topic": metadata["labels"][int(outputs["probabilities"].argmax())]}

    @staticmethod
    def table_columns(answer):
        return {"prediction": answer["topic"]}


registry.register(TopicFinder)  # a task of bert_tf has an entry in tasks/registry.py instead
