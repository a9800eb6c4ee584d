"""The configurations of pre-training and of the creation of its data."""

import dataclasses
from typing import Annotated

from bert_tf.configs.base import REQUIRED, Config, option
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.train import (
    MAX_PROCESSES,
    MAX_STEPS,
    DeviceConfig,
    OptimizerConfig,
    RunConfig,
    TrainConfig,
)
from bert_tf.errors import UserError
from bert_tf.io.json_files import Fraction, Limits, Positive
from bert_tf.tokenization.settings import SHORTEST

# Options of `TrainConfig` that have no effect in pre-training.
UNUSED_OPTIONS = ("num_train_epochs", "predict_batch_size", "pad_to_max_length", "bucket_by_length")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordConfig(Config):
    """Records: properties that their creation and the training must agree on."""

    # A table of the lengths is in memory.
    max_seq_length: Annotated[int, Limits(SHORTEST, 100_000)] = option(
        128, "Maximum sequence length, in tokens. The same for creating records and for training."
    )
    max_predictions_per_seq: Positive = option(
        20,
        "Maximum number of masked tokens per sequence. The same for creating records and for "
        "training.",
    )
    objective: str = option(
        "nsp",
        "Objective besides masked tokens: next sentence (nsp), sentence order (sop), or none, "
        "which packs full sentences. The same for creating records and for training.",
        choices=("nsp", "sop", "none"),
    )

    @property
    def has_pairs(self):
        """Whether the sequences are labeled pairs of texts."""
        return self.objective != "none"


@dataclasses.dataclass(frozen=True)
class InstanceConfig(RecordConfig):
    """Instances and masks. The defaults match the release."""

    masked_lm_prob: Fraction = option(0.15, "Fraction of the tokens to mask.")
    short_seq_prob: Fraction = option(
        0.1, "Probability of creating a sequence shorter than the maximum."
    )
    dupe_factor: Positive = option(10, "Number of passes over the text, each with different masks.")
    do_whole_word_mask: bool = option(False, "Whether to mask whole words, not single tokens.")
    random_seed: int = option(12345, "Random seed.")
    max_ngram: Positive = option(1, "Maximum number of consecutive words to mask together.")
    word_boundaries: str = option(
        "pieces",
        "Words for do_whole_word_mask. pieces: a token and the ## tokens after it. spaces: the "
        "text between spaces, for Chinese after word segmentation.",
        choices=("pieces", "spaces"),
        requires="do_whole_word_mask",
    )
    dynamic_masking: bool = option(
        False,
        "Create records without masks, for dynamic_masking in run_pretraining.py.",
        excludes=("do_whole_word_mask", "max_ngram", "masked_lm_prob"),
    )

    def num_to_mask(self, length):
        """Return how many of `length` tokens to mask, regardless of `max_predictions_per_seq`."""
        return max(1, round(length * self.masked_lm_prob))


@dataclasses.dataclass(frozen=True)
class PretrainingDataConfig(Config):
    """Input text and output files."""

    output_file: str = option(
        REQUIRED,
        "TFRecord files to write, separated by commas; instances are distributed evenly. With "
        "num_shards, a single name, to which -00000-of-00004 and so on is appended.",
    )
    input_file: str | None = option(None, "Text files: paths or globs, separated by commas.")
    input_format: str = option(
        "auto",
        "text: one sentence per line, with blank lines between documents. jsonl: one JSON object "
        "per line, each a document. auto: jsonl for the extensions .jsonl, .ndjson and .json, else "
        "text. Files may be gzipped.",
        choices=("auto", "text", "jsonl"),
        requires="input_file",
    )
    text_field: str = option("text", "Key of the text in JSON objects and TFDS examples.")
    split_sentences: bool = option(
        False,
        "Whether to split lines of text into sentences; JSON is always split.",
        requires="input_file",
    )
    tfds_name: str | None = option(
        None, "Name of a TensorFlow Datasets (TFDS) dataset, such as wiki40b/en."
    )
    tfds_data_dir: str | None = option(None, "TFDS data directory.", requires="tfds_name")
    tfds_split: str = option("train", "TFDS split to read.", requires="tfds_name")
    instances: InstanceConfig = dataclasses.field(default_factory=InstanceConfig)
    num_shards: Annotated[int, Limits(0, 99999)] = option(
        0,
        "Number of shards, which limit memory to a shard per process and let a killed run resume. "
        "0 creates everything in memory, as the release does.",
    )
    num_processes: Annotated[int, Limits(1, MAX_PROCESSES)] = option(
        1, "Number of processes that create shards.", requires="num_shards"
    )
    work_dir: str | None = option(
        None, "Local folder for temporary files of unfinished shards.", requires="num_shards"
    )
    runner: str | None = option(
        None,
        "Apache Beam runner that creates the shards, such as DataflowRunner.",
        requires="num_shards",
        excludes=("num_processes",),
    )
    beam_option: tuple[str, ...] = option(
        (),
        "Apache Beam option, with dashes and value; may be repeated.",
        requires="runner",
        repeated=True,
    )

    def validate(self):
        super().validate()
        if bool(self.input_file) == bool(self.tfds_name):
            raise UserError("exactly one of `input_file` and `tfds_name` is required")


@dataclasses.dataclass(frozen=True)
class PretrainingConfig(RecordConfig, RunConfig):
    """Pre-training run, see `training.pretrain`."""

    input_file: str = option(REQUIRED, "TFRecord files: paths or globs, separated by commas.")
    output_dir: str = option(REQUIRED, "Folder for checkpoints, summaries and results.")
    eval_file: str | None = option(None, "TFRecord files to evaluate on. Default: input_file.")
    num_train_steps: Annotated[int, Limits(1, MAX_STEPS)] = option(
        100000, "Number of training steps."
    )
    max_eval_steps: Positive = option(100, "Maximum number of evaluation batches.")
    dynamic_masking: bool = option(
        False,
        "Mask different tokens in each epoch. Requires vocab_file, and records that were created "
        "with dynamic_masking.",
    )
    masked_lm_prob: Fraction = option(
        0.15, "Fraction of the tokens to mask with dynamic_masking.", requires="dynamic_masking"
    )
    num_input_streams: Positive = option(
        1,
        "Number of streams; must divide train_batch_size and the number of input files. Each "
        "stream reads its share of the files and fills its share of each batch. If this is a "
        "multiple of N hosts, each host reads 1/N of the records. Different numbers give different "
        "batches.",
    )
    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(False, "Whether to evaluate; with do_train, after training.")
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    # Without `num_warmup_steps`, `warmup_proportion` would apply.
    optimizer: OptimizerConfig = dataclasses.field(
        default_factory=lambda: OptimizerConfig(num_warmup_steps=10000)
    )
    device: DeviceConfig = dataclasses.field(default_factory=DeviceConfig)

    def validate(self):
        super().validate()
        for name in UNUSED_OPTIONS:
            if self.train.is_given(name):
                raise UserError(f"`{name}` has no effect in pre-training")
        if self.train.train_batch_size % self.num_input_streams:
            raise UserError(
                f"`num_input_streams={self.num_input_streams}`: expected a divisor of "
                f"`train_batch_size={self.train.train_batch_size}`"
            )

    def to_flags(self):
        skipped = (*UNUSED_OPTIONS, "warmup_proportion")
        return {name: x for name, x in super().to_flags().items() if name not in skipped}

    @property
    def lengths(self):
        """Dict from the dimensions in the schema of the records to their sizes."""
        return {"S": self.max_seq_length, "P": self.max_predictions_per_seq}
