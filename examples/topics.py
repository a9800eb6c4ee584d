"""A task of your own: the topics of texts in one file per topic, see docs/adding_a_task.md."""

import dataclasses
import os
from typing import ClassVar

from keras import ops

from bert_tf.configs import option
from bert_tf.data.containers import read_table
from bert_tf.io import files
from bert_tf.io.json_files import NotNegative
from bert_tf.tasks import registry
from bert_tf.tasks.base import Pipeline
from bert_tf.tasks.classification.examples import Example, examples_of, make_features
from bert_tf.tasks.classification.glue import custom_dataset
from bert_tf.tasks.classification.objective import ClassificationObjective, make_model
from bert_tf.tasks.classification.options import ClassificationConfig, ClassificationOptions
from bert_tf.tasks.classification.served import classification_servable
from bert_tf.training.objective import ServedTask, TaskData


@dataclasses.dataclass(frozen=True, kw_only=True)
class TopicsOptions(ClassificationOptions):
    """The options of topics."""

    data_dir: str | None = option(None, "Folders train and dev, each with TOPIC.txt files.")
    smoothing: NotNegative = option(0.1, "Share of the labels that is spread evenly.")


@dataclasses.dataclass(frozen=True)
class TopicsConfig(ClassificationConfig, TopicsOptions):
    """The configuration of a trained model, saved in `topics.json`."""

    FILE = "topics.json"
    OPTIONS = TopicsOptions


class TopicsObjective(ClassificationObjective):
    """Classification with label smoothing."""

    def __init__(self, model, smoothing):
        super().__init__(model)
        self._smoothing, self.key = smoothing, {"smoothing": smoothing}

    def losses(self, outputs, batch, weights, training=True):
        logits = outputs["logits"]
        labels = ops.one_hot(batch["label_ids"], logits.shape[-1])
        labels = labels * (1.0 - self._smoothing) + self._smoothing / logits.shape[-1]
        losses = ops.categorical_crossentropy(labels, logits, from_logits=True)
        losses = ops.sum(losses * self.example_weights(batch))
        return {"classification_loss": losses / weights["examples"]}


class TopicsData(TaskData):
    """The examples of each split."""

    def features(self, split, tokenizer):
        return make_features(self.examples[split], tokenizer, self.config)

    def make_objective(self, model, pad_to_max_length=False):
        return TopicsObjective(model, self.config.smoothing)


def read(options, pretrained, splits, stored=None):
    examples = {}
    for split in splits:
        examples[split] = []
        for path in files.expand(f"{options.data_dir}/{split}/*.txt", "data_dir"):
            topic = os.path.basename(path).removesuffix(".txt")
            for i, line in enumerate(files.read_lines(path), 1):
                example = Example(f"{path}, line {i}", line.strip(), label=topic)
                examples[split].append(example)
    labels = stored.labels if stored else sorted({x.label for x in examples["train"]})
    config = TopicsConfig.of_model(options, pretrained, labels=tuple(labels), num_texts=1)
    return TopicsData(examples, config)


def make_servable(model, config, serving_config):
    servable = classification_servable(model, config, serving_config)
    return servable._replace(task="topics")


def answer(outputs, metadata):
    """Return the most probable topic."""
    return {"topic": metadata["labels"][int(outputs["probabilities"].argmax())]}


def table_columns(answer):
    return {"prediction": answer["topic"]}


class TopicFinder(Pipeline):
    """Finds the topics of texts."""

    name = "topics"
    config_class = TopicsConfig
    read = staticmethod(read)
    make_model = staticmethod(make_model)
    make_servable = staticmethod(make_servable)
    served: ClassVar = {"topics": ServedTask(answer, table_columns)}
    arguments = ("texts", "topics")

    def predict(self, texts, batch_size=32):
        return self._answers([{"text": text} for text in texts], batch_size)

    def _examples(self, columns, names, split):
        table, _ = read_table(columns, names, ("text", "topic"), 2)
        return examples_of(table, custom_dataset(labels=self.config.labels), split)[0]

    def _data(self, examples):
        return TopicsData(examples, self.config)


registry.register(TopicFinder)  # a task of bert_tf has an entry in tasks/registry.py instead
