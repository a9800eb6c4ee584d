"""`MultipleChoice`: fine-tuning and prediction on contexts and their endings."""

import operator
from typing import Any, ClassVar

import keras

from bert_tf.configs.train import FitConfig
from bert_tf.data.containers import read_table
from bert_tf.data.features import log_long_texts
from bert_tf.modeling import BertMultipleChoice
from bert_tf.tasks.base import Pipeline
from bert_tf.tasks.multiple_choice.examples import UNIT, make_examples
from bert_tf.tasks.multiple_choice.options import MultipleChoiceConfig, MultipleChoiceOptions
from bert_tf.tasks.multiple_choice.task import (
    MultipleChoiceData,
    multiple_choice_answer,
    multiple_choice_servable,
    read,
)
from bert_tf.training.task import ServedTask

# Column names of the arguments of `fit`.
_COLUMNS = ("context", "endings", "label")


class MultipleChoice(Pipeline):
    """Chooses the best of several endings of a text.

    >>> choice = bert_tf.MultipleChoice.from_preset("uncased_L-4_H-256_A-4")
    >>> contexts, endings = ["She opened the door and"], [["went in.", "the sky."]]
    >>> history = choice.fit(contexts, endings, [0], epochs=1, verbose=0)
    >>> choice.predict(contexts, endings)
    [{'choice': ..., 'probabilities': [...]}]

    `model` is a `BertMultipleChoice`, `config` a `MultipleChoiceConfig`.
    """

    name = "multiple_choice"
    config_class = MultipleChoiceConfig
    read = staticmethod(read)
    make_model = staticmethod(
        lambda config, dtype=None: BertMultipleChoice(config.bert_config, dtype)
    )
    make_servable = staticmethod(multiple_choice_servable)
    served: ClassVar = {"multiple_choice": ServedTask(multiple_choice_answer)}
    sample = ({}, (["a"], [["b", "c"]], [0]))
    arguments = ("contexts", "endings", "labels")

    def fit(
        self,
        contexts: Any,
        endings: Any = None,
        labels: Any = None,
        validation_data: Any = None,
        **options: Any,
    ) -> keras.callbacks.History:
        """Train the model with `keras.Model.fit`.

        Args:
          contexts: list of N texts; or, as the only data, a table with the columns "context",
            "endings" (or "ending0", "ending1", ...) and "label": a dict of lists, a DataFrame, a
            `datasets.Dataset` or a `tf.data.Dataset` of dicts.
          endings: list of C texts for each context, or an array (N, C).
          labels: index or text of the correct ending for each context.
          validation_data: a tuple (contexts, endings, labels), or a table. The history gets the
            results of `evaluate` on it, such as "val_accuracy".
          **options: attributes of `FitConfig` and `OptimizerConfig`, such as `epochs` and
            `learning_rate`, and arguments of `keras.Model.fit`, such as `callbacks`.

        Raises:
          UserError: if an argument is invalid.
        """
        return self._fit((contexts, endings, labels), validation_data, options)

    def evaluate(
        self,
        contexts: Any,
        endings: Any = None,
        labels: Any = None,
        batch_size: int = FitConfig.batch_size,
        **options: Any,
    ) -> dict[str, float]:
        """Return a dict of the loss and the accuracy; see `fit` for the arguments."""
        return self._evaluate((contexts, endings, labels), batch_size, options)

    def predict(self, contexts: Any, endings: Any = None, batch_size: int | None = None) -> Any:
        """Choose the best ending for each context.

        Args:
          contexts: a text, or contexts as in `fit`.
          endings: list of two or more texts for the context, or for each context.
          batch_size: number of contexts per step; None for 32 (long) to 256 (short).

        Returns:
          A list of dicts, one per context, or a single dict if `contexts` is a str: "choice", the
          index of the best ending, and "probabilities", a list with the probability of each ending.

        Raises:
          UserError: if an argument is invalid.
        """
        if isinstance(contexts, str):
            return self.predict([contexts], [endings], batch_size)[0]
        if not operator.length_hint(contexts, 1):
            return []
        examples = self._examples((contexts, endings), self.arguments, "test")
        pairs = [[x.context, ending] for x in examples for ending in x.endings]
        log_long_texts("contexts", pairs, self.tokenizer, self.config, unit=UNIT)
        rows = [{"context": x.context, "endings": list(x.endings)} for x in examples]
        return self._answers(rows, batch_size)

    def _examples(self, columns, names, split):
        table, _ = read_table(columns, names, _COLUMNS, 3 - (split == "test"))
        return make_examples(table, MultipleChoiceOptions(), split != "test")[0]

    def _data(self, examples):
        return MultipleChoiceData(examples, {}, self.config)
