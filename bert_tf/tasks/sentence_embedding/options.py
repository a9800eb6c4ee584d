"""The options of sentence embedding."""

import dataclasses
from typing import Annotated

from bert_tf.configs.base import option
from bert_tf.configs.task import TableOptions, TaskConfig
from bert_tf.errors import UserError
from bert_tf.io.json_files import Limits, Positive

# Pooling -> its setting in sentence-transformers folders.
POOLINGS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}

# Accepted column names of the first, second and third text, and of the score.
TEXT_COLUMNS = [
    ("sentence1", "text1", "text_a", "anchor", "query", "question"),
    ("sentence2", "text2", "text_b", "positive", "passage", "answer"),
    ("negative",),
]
SCORE_COLUMN = ("score", "similarity_score", "similarity", "label")

# Losses that treat each example separately.
SINGLE_LOSSES = ("cosine", "triplet")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceEmbeddingData(TableOptions):
    """Data of the task and the loss of sentence embedding."""

    data_dir: str | None = option(
        None, "Folder with the files train, dev and test, each .tsv, .csv, .jsonl or .parquet."
    )
    text_columns: tuple[str, ...] = option(
        (),
        "Columns of a pair of texts, or of a triplet (text, similar text, different text). "
        "Default: columns with the usual names.",
    )
    score_column: str | None = option(
        None,
        "Column with the similarity of a pair, a number. Default: score, similarity or label. "
        "Without this column, all pairs are similar.",
    )
    loss: str | None = option(
        None,
        "contrastive: find the second text of a pair among all in the batch. cosent: rank pairs by "
        "their scores. cosine: match cosines to scores. triplet: place the third text farther away "
        "than the second. Default: cosent with scores, contrastive without.",
        choices=("contrastive", "cosent", "cosine", "triplet"),
    )
    temperature: Annotated[float, Limits(1e-6)] = option(
        0.05, "Temperature of contrastive and cosent; it divides the cosines."
    )
    symmetric: bool = option(False, "With contrastive, also find the first text given the second.")
    matryoshka_dims: tuple[int, ...] = option(
        (), "Vector lengths to train: sums the losses of the vectors truncated to each."
    )
    mini_batch_size: Positive | None = option(
        None,
        "Number of examples that a device computes at a time, so that large batches fit in memory "
        "(GradCache). The results are the same; a step takes about a third longer.",
    )

    def check_run(self, config):
        if config.train.gradient_accumulation_steps > 1 and self.loss not in SINGLE_LOSSES:
            raise UserError(
                "`gradient_accumulation_steps` requires the `loss` "
                f"{' or '.join(SINGLE_LOSSES)}, because others compare all examples of a batch; "
                "use `mini_batch_size`"
            )


@dataclasses.dataclass(frozen=True)
class SentenceEmbeddingConfig(TaskConfig):
    """Options of the task: sentence embedding, saved in `sentence_encoder.json`.

    Attributes:
      prompts: the named prompts of a sentence-transformers folder.
      include_prompt: whether vectors may include the prompt.
    """

    FILE = "sentence_encoder.json"
    INFERRED = ("pooling", "normalize", "truncate_dim", "prompt")
    UNSAVED = ("prompts", "include_prompt")

    pooling: str = option(
        "mean",
        f"Pooling of the token vectors: {', '.join(POOLINGS)}, or several, separated by commas, to "
        "concatenate. cls uses the vector of [CLS]. A sentence-transformers folder has its own "
        "default.",
        fixed=True,
    )
    layer: int = option(-1, "Layer to pool: 0 is the first, -1 the last.", fixed=True)
    normalize: bool = option(
        False,
        "Whether to scale vectors to length 1. Default: the setting of a sentence-transformers "
        "folder, else false.",
        fixed=True,
    )
    truncate_dim: Positive | None = option(
        None,
        "Number of values of a vector to keep, the first ones. Default: the setting of a "
        "sentence-transformers folder, else all.",
        fixed=True,
    )
    prompt: str = option(
        "",
        "Text to put before each text. Default: the default prompt of a sentence-transformers "
        "folder, else none.",
        fixed=True,
    )
    prompts: dict[str, str] = dataclasses.field(default_factory=dict)
    include_prompt: bool = True

    def validate(self):
        super().validate()
        if not {*self.pooling.split(",")} <= POOLINGS.keys():
            expected = f"one of {', '.join(POOLINGS)}, or several, separated by commas"
            raise UserError(f"`pooling={self.pooling}`: expected {expected}")

    @property
    def width(self):
        """The length of a vector."""
        length = self.bert_config.hidden_size * len(self.pooling.split(","))
        return min(self.truncate_dim or length, length)
