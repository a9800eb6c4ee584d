"""Multiple choice (BERT, arXiv:1810.04805, section 4.4): which of several endings goes on a text.

Letters of shapes: B examples, C choices, S sequence.
"""

from typing import NamedTuple

from bert_tf import console, files
from bert_tf.config import BertConfig
from bert_tf.data import records
from bert_tf.modeling import BertMultipleChoice
from bert_tf.tasks import kept_settings
from bert_tf.tasks.cache import FeatureCache, digest
from bert_tf.tasks.classification import ClassificationTask, pack_pair

# To be raised when the same data make other features.
_VERSION = 1
# Examples to tokenize at a time.
_BATCH = 1000


class ChoiceTask(ClassificationTask):
    """Trains a `BertMultipleChoice`: classification over the choices of each example."""

    task_type = "choice"
    schema = records.CHOICE
    loss_names = ("choice_loss",)

    def __init__(self, config, dtype=None):
        """Makes the model, of a `BertConfig` and a Keras dtype policy."""
        self.model = BertMultipleChoice(config, dtype)
        self.class_weights = self.teaching = None


class ChoiceSettings(NamedTuple):
    """What such a model is besides its weights; the number of choices is no part of it."""

    max_seq_length: int
    do_lower_case: bool
    config: BertConfig
    vocab_file: str

    def flags(self):
        """The values that flags of run_multiple_choice.py have, by their names."""
        return {"do_lower_case": self.do_lower_case, "max_seq_length": self.max_seq_length}


def settle_choice(output_dir, settings, write):
    """Sees that a run goes on with the settings that it began with.

    Args:
      output_dir: the run's folder.
      settings: the `ChoiceSettings` of the flags.
      write: whether to write them, if they are not there.

    Raises:
      UserError: if the folder has others.
    """
    before = load_choice(output_dir)
    if before:
        kept_settings.check_same(output_dir, before, settings)
    if write and (before is None or settings.flags() != before.flags()):
        kept_settings.save(output_dir, files.CHOICE, settings, settings.flags())


def load_choice(output_dir):
    """Reads the `ChoiceSettings` of the run in a folder; None if it has none."""

    def make(values, config, vocab_file):
        return ChoiceSettings(values["max_seq_length"], values["do_lower_case"], config, vocab_file)

    return kept_settings.load(output_dir, files.CHOICE, make)


def features(examples, tokenizer, max_seq_length):
    """Turns examples into the values of records.

    Args:
      examples: list of `choice_files.ChoiceExample`.
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.

    Yields:
      For each example a dict for `records.CHOICE`, its choices `[CLS] context [SEP] ending [SEP]`.
    """
    contexts = tokenizer.encode_batch(example.context for example in examples)
    endings = iter(tokenizer.encode_batch(text for example in examples for text in example.endings))
    for example, context in zip(examples, contexts, strict=True):
        choices = [
            pack_pair(list(context), next(endings), tokenizer, max_seq_length)
            for _ in example.endings
        ]
        yield {
            **{name: [choice[name] for choice in choices] for name in choices[0]},
            "label_ids": example.label or 0,
            "is_real_example": 1,
        }


class ChoiceFeatures(FeatureCache):
    """The features of a set of examples in a file, beside it what they were made of."""

    def __init__(self, path, examples, tokenizer, max_seq_length):
        """Looks whether the file can be used as it is; arguments as for `features`."""
        self._examples, self._tokenizer, self._length = examples, tokenizer, max_seq_length
        made_of = {
            "data": digest([e.context, e.endings, e.label] for e in examples),
            "examples": len(examples),
            "vocabulary": digest(tokenizer.vocab.items()),
            "do_lower_case": tokenizer.basic_tokenizer.do_lower_case,
            "max_seq_length": max_seq_length,
            "schema": digest(records.CHOICE.items()),
            "version": _VERSION,
        }
        super().__init__(path, made_of)

    def write(self):
        """Writes file and note."""
        self.rebuild(self._write)

    def _write(self):
        ticker = console.Ticker(f"writing {self.path}", "examples", total=len(self._examples))
        with records.writing([self.path], records.CHOICE) as write:
            for start in range(0, len(self._examples), _BATCH):
                part = self._examples[start : start + _BATCH]
                for values in features(part, self._tokenizer, self._length):
                    write(values)
                    ticker.add()
        ticker.done()
