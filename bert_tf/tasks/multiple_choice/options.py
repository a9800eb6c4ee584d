"""The options of multiple choice."""

import dataclasses

from bert_tf.configs.base import option
from bert_tf.configs.task import TableOptions, TaskConfig


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultipleChoiceData(TableOptions):
    """Data of the task: multiple choice."""

    data_dir: str | None = option(None, "Folder with train.csv, dev.csv (or val.csv), test.csv.")
    context_columns: tuple[str, ...] = option(
        (), "Columns that form the context, joined by a space. Default: startphrase or context."
    )
    ending_columns: tuple[str, ...] = option(
        (), "Columns of the endings, two or more. Default: ending0, ending1, ..."
    )
    label_column: str | None = option(
        None, "Column with the index of the correct ending, from 0. Default: label."
    )


@dataclasses.dataclass(frozen=True)
class MultipleChoiceConfig(TaskConfig):
    """Options of the task: multiple choice, saved in `choice.json`.

    It has no number of choices, because the model accepts any number.
    """

    FILE = "choice.json"
    num_texts = 2
