"""The data of a multiple choice run: examples, features and result files."""

from bert_tf.configs.data_files import SPLITS
from bert_tf.data import records
from bert_tf.data.feature_cache import digest, write_records
from bert_tf.data.rows import find_file
from bert_tf.tasks.multiple_choice.features import convert_examples
from bert_tf.tasks.multiple_choice.reading import read_examples
from bert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from bert_tf.tokenization.packing import LengthCounter
from bert_tf.training import results
from bert_tf.training.task import TaskData

# File names of the splits; val.csv is SWAG's.
_FILES = {"train": ("train.csv",), "dev": ("dev.csv", "val.csv"), "test": ("test.csv",)}


class MultipleChoiceData(TaskData):
    """Holds two dicts by split: `examples`, lists of `Example`, and `endings`, column names."""

    sequence_unit = "pairs of context and ending"
    metric_names = MultipleChoiceTask.metric_names_with()

    def __init__(self, examples, endings, config):
        super().__init__(examples, config)
        self.endings = endings

    def schema(self, split):
        return records.CHOICE

    def fingerprint(self, split):
        return {
            "data": digest([e.context, e.endings, e.label] for e in self.examples[split]),
            "examples": len(self.examples[split]),
            "max_seq_length": self.config.max_seq_length,
        }

    def write_features(self, split, path, tokenizer):
        examples, length = self.examples[split], self.config.max_seq_length
        lengths = LengthCounter(length)
        values = convert_examples(examples, tokenizer, length, lengths)
        write_records(path, records.CHOICE, values, total=len(examples))
        return {"lengths": lengths.counts}

    def lengths(self, split):
        return {**super().lengths(split), "C": len(self.endings[split])}

    def num_labels(self, split):
        return len(self.endings[split])

    def make_task(self, dtype=None):
        return MultipleChoiceTask(self.config.bert_config, dtype)

    def evaluate(self, run, split):
        """Write eval_results.txt; see `TaskData.evaluate`."""
        return results.evaluate_and_write(run, split)

    def predict(self, run, split):
        """Write test_results.tsv and test_predictions.tsv."""
        predictions = run.predict_all(split)
        probabilities = predictions["probabilities"]
        choices = [str(number) for number in run.trainer.task.decide(predictions)]
        ids = [example.id for example in self.examples[split]]
        run.workers.chief_first(
            lambda: results.write_predictions(
                run.folder, split, ids, choices, self.endings[split], probabilities
            )
        )


def read(task_config, model, splits, stored=None):
    """Read the data of a run; see `TaskSpec.read`."""
    examples, endings, paths = {}, {}, []
    for split in filter(splits.__contains__, SPLITS):
        path = getattr(task_config, f"{split}_file")
        path = find_file(split, _FILES[split], task_config.data_dir, path)
        paths.append(path)
        examples[split], endings[split] = read_examples(path, task_config, split != "test")
    data = MultipleChoiceData(examples, endings, task_config.of_model(model))
    data.data_files = paths
    return data
