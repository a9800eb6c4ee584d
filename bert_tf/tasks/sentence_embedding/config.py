"""The configuration of training sentence vectors from files."""

import dataclasses

from bert_tf.configs.data_files import FileOptions
from bert_tf.configs.options import option
from bert_tf.errors import UserError
from bert_tf.tasks.sentence_embedding import SPEC
from bert_tf.training.task_config import TaskConfig

# The settings of a sentence-transformers folder, and the poolings that they turn on.
POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "mean": "pooling_mode_mean_tokens",
    "max": "pooling_mode_max_tokens",
}

# Names of the columns of the first, the second and the third text, and of the score.
TEXT_COLUMNS = [
    ("sentence1", "text1", "text_a", "anchor", "query", "question"),
    ("sentence2", "text2", "text_b", "positive", "passage", "answer"),
    ("negative",),
]
SCORE_COLUMN = ("score", "similarity_score")

# Losses of a single example, whatever the others in its batch are.
_SINGLE_LOSSES = ("cosine", "triplet")


@dataclasses.dataclass(frozen=True)
class SentenceEmbeddingConfig(FileOptions, TaskConfig):
    """The configuration of sentence vectors; that of their model is in `sentence_encoder.json`."""

    GROUPS = (
        ("Columns and labels", "text_columns score_column id_column"),
        ("Model", "pooling layer normalize"),
        ("Training", "loss temperature symmetric matryoshka_dims"),
        ("Devices, speed and memory", "mini_batch_size"),
    )
    FILE = SPEC.side_file

    data_dir: str | None = option(
        None, "Folder with train, dev and test, each .tsv, .csv, .jsonl or .parquet."
    )
    text_columns: tuple[str, ...] = option(
        (),
        "Columns of the two texts of a pair, or of a text, a similar and a different one; found by "
        "name if not given.",
    )
    score_column: str | None = option(
        None,
        "Column with the similarity of a pair, a number; score if not given. Without such a column "
        "all pairs are similar.",
    )
    id_column: str | None = option(None, "Column that identifies predictions.")
    skip_bad_rows: bool = option(False, "Leave out rows that cannot be used.")
    loss: str | None = option(
        None,
        "contrastive: find the second text among those of the batch; cosent: order pairs by their "
        "scores; cosine: cosines equal scores; triplet: the third text is farther than the second. "
        "With scores cosent if not given, else contrastive.",
        choices=("contrastive", "cosent", "cosine", "triplet"),
    )
    temperature: float = option(
        0.05, "What contrastive and cosent divide cosines by.", minimum=1e-6
    )
    symmetric: bool = option(False, "With contrastive, also find the first text of each second.")
    matryoshka_dims: tuple[str, ...] = option(
        (), "Lengths of beginnings of the vectors whose losses are added."
    )
    mini_batch_size: int | None = option(
        None,
        "Number of examples that a device computes at a time, for large batches (GradCache); the "
        "steps are the same and take a third longer.",
        minimum=1,
    )
    pooling: str | None = option(
        None,
        "How token vectors are combined: their mean, their maximum, or the vector of [CLS]. That "
        "of a sentence-transformers folder if not given, else mean.",
        choices=tuple(POOLINGS),
        saved=True,
        fixed=True,
        inferred=True,
    )
    layer: int = option(
        -1,
        "Layer that the vectors are taken from, 0 for the lowest or -1 for the last.",
        saved=True,
        fixed=True,
    )
    normalize: bool | None = option(
        None,
        "Scale vectors to length 1. The setting of a sentence-transformers folder if not given, "
        "else no.",
        saved=True,
        fixed=True,
        inferred=True,
    )

    @property
    def dims(self):
        """The `matryoshka_dims` as numbers."""
        if wrong := [x for x in self.matryoshka_dims if not x.isdecimal()]:
            raise UserError(f"`matryoshka_dims`: {wrong[0]!r} is not a number")
        return tuple(map(int, self.matryoshka_dims))

    def check(self, config, is_resumed):
        if config.train.gradient_accumulation_steps > 1 and self.loss not in _SINGLE_LOSSES:
            raise UserError(
                "`gradient_accumulation_steps` would compare an example only with those of its "
                "part of the batch; use `mini_batch_size`, or `loss` "
                f"{' or '.join(_SINGLE_LOSSES)}"
            )
