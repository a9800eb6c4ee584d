"""Multiple choice: model, loss, metrics, runs and servable."""

import functools

import tensorflow as tf

from bert_tf.data.columns import find_file
from bert_tf.data.tables import open_table
from bert_tf.errors import UserError
from bert_tf.serving.exporting import Servable, string_specs, token_id_specs
from bert_tf.serving.predictor import json_value
from bert_tf.serving.prepared_model import prepare_model
from bert_tf.tasks.classification.task import ClassificationTask
from bert_tf.tasks.multiple_choice.examples import make_examples, make_features
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig
from bert_tf.training.task import TaskData


class MultipleChoiceTask(ClassificationTask):
    """Trains a `BertMultipleChoice` to choose the correct ending of each example."""

    loss_names = ("choice_loss",)
    # F1 per label is meaningless, because the order of the choices is arbitrary.
    metrics_used = ("accuracy",)


# File names of the splits; val.csv is SWAG's.
_FILES = {"train": ("train.csv",), "dev": ("dev.csv", "val.csv"), "test": ("test.csv",)}


class MultipleChoiceData(TaskData):
    """Holds two dicts by split: `examples`, lists of `Example`, and `endings`, their names."""

    def __init__(self, examples, endings, config, data_files=()):
        super().__init__(examples, config, data_files)
        self.endings = endings
        for first, *others in examples.values():
            for example in others:
                if len(example.endings) != len(first.endings):
                    raise UserError(
                        f"{example.where}: found {len(example.endings)} endings, expected "
                        f"{len(first.endings)} as in the first row"
                    )

    def features(self, split, tokenizer):
        return make_features(self.examples[split], tokenizer, self.config)

    def make_task(self, model, pad_to_max_length=False):
        return MultipleChoiceTask(model)

    def answers(self, task, predictions, split):
        choices = [str(number) for number in task.decide(predictions)]
        return choices, self.endings[split], predictions["probabilities"]


def read(options, pretrained, splits, stored=None):
    """Read the data of a run; see `TaskSpec.read`."""
    examples, endings, paths = {}, {}, []
    for split in splits:
        path = getattr(options, f"{split}_file")
        path = find_file(split, _FILES[split], options.data_dir, path)
        paths.append(path)
        table = open_table(path)
        examples[split], endings[split] = make_examples(table, options, split != "test")
    config = MultipleChoiceConfig.of_model(options, pretrained)
    return MultipleChoiceData(examples, endings, config, paths)


def multiple_choice_servable(model, config, serving_config):
    """Return a `BertMultipleChoice` with its `MultipleChoiceConfig` as a `Servable`.

    Text inputs: `context` (B,) and `endings` (B, C) for any number C of endings. Token ids are
    (B, C, S). Outputs: `logits` and `probabilities`, float32 (B, C); `choice`, int32 (B,), the
    index of the most probable ending; for text inputs also `ending`, string (B,).
    """
    prepared = prepare_model(model, config, serving_config)
    tokenize = functools.partial(prepared.buckets.tokenize, prepared.tokenizer)

    def serve_ids(inputs):
        logits = prepared.call(inputs)["logits"]
        choice = tf.argmax(logits, -1, tf.int32)
        return {"logits": logits, "probabilities": tf.nn.softmax(logits), "choice": choice}

    def serve_text(inputs):
        num_rows, num_endings = tf.unstack(tf.shape(inputs["endings"]))
        contexts = tf.repeat(inputs["context"], num_endings)
        batch = tokenize(contexts, tf.reshape(inputs["endings"], (-1,)))
        shape = (num_rows, num_endings, tf.shape(batch["input_ids"])[1])
        outputs = serve_ids({name: tf.reshape(x, shape) for name, x in batch.items()})
        ending = tf.gather(inputs["endings"], outputs["choice"], batch_dims=1)
        return {**outputs, "ending": ending}

    endings = tf.TensorSpec((None, None), tf.string, name="endings")
    return Servable(
        task="multiple_choice",
        prepared=prepared,
        serve_text=serve_text,
        serve_ids=serve_ids,
        text_signature={**string_specs("context"), "endings": endings},
        ids_signature=token_id_specs(None, None, None),
        sample_text=lambda text: {"context": text, "endings": ["", ""]},
    )


def multiple_choice_answer(outputs, metadata):
    """Return the index of the most probable ending, and the probability of each ending."""
    choice = int(MultipleChoiceTask.decide(outputs))
    return {"choice": choice, "probabilities": json_value(outputs["probabilities"])}
