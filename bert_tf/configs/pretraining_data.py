"""The configuration of `create_pretraining_data.py`."""

import dataclasses

from bert_tf.configs.base import Config, option
from bert_tf.configs.train import MAX_PROCESSES
from bert_tf.errors import UserError

INPUT_FORMATS = ("auto", "text", "jsonl")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordConfig(Config):
    """Properties of records that their creation and the training must agree on."""

    max_seq_length: int = option(
        128,
        "Maximum sequence length, in tokens. The same for creating records and for training.",
        minimum=5,  # [CLS] a [SEP] b [SEP]
    )
    max_predictions_per_seq: int = option(
        20,
        "Maximum number of masked tokens per sequence. The same for creating records and for "
        "training.",
        minimum=1,
    )
    objective: str = option(
        "nsp",
        "Objective besides masked tokens: next sentence (nsp), sentence order (sop), or none, "
        "which packs full sentences. The same for creating records and for training. (bert_tf)",
        choices=("nsp", "sop", "none"),
    )


@dataclasses.dataclass(frozen=True)
class InstanceConfig(RecordConfig):
    """How to create instances. The defaults match the release."""

    GROUP = "Instances"

    masked_lm_prob: float = option(
        0.15, "Fraction of the tokens to mask.", minimum=0.0, maximum=1.0
    )
    short_seq_prob: float = option(
        0.1,
        "Probability of creating a sequence shorter than the maximum.",
        minimum=0.0,
        maximum=1.0,
    )
    dupe_factor: int = option(
        10,
        "Number of passes over the text, each with different masks.",
        minimum=1,
    )
    do_whole_word_mask: bool = option(False, "Whether to mask whole words, not single tokens.")
    random_seed: int = option(12345, "Random seed.")
    max_ngram: int = option(
        1,
        "Maximum number of consecutive words to mask together. (bert_tf)",
        minimum=1,
    )
    word_boundaries: str = option(
        "pieces",
        "Words for do_whole_word_mask. pieces: a token and the ## tokens after it. spaces: the "
        "text between spaces, for Chinese after word segmentation. (bert_tf)",
        choices=("pieces", "spaces"),
        requires="do_whole_word_mask",
    )
    dynamic_masking: bool = option(
        False,
        "Create records without masks, for run_pretraining.py with dynamic_masking. (bert_tf)",
    )

    def validate(self):
        super().validate()
        if self.dynamic_masking and (self.do_whole_word_mask or self.max_ngram > 1):
            raise UserError(
                "`dynamic_masking` masks single tokens during training; it cannot be combined with "
                "`do_whole_word_mask` or `max_ngram`"
            )
        return self

    def num_to_mask(self, length):
        """Return how many of `length` tokens to mask, regardless of `max_predictions_per_seq`."""
        return max(1, round(length * self.masked_lm_prob))


@dataclasses.dataclass(frozen=True)
class PretrainingDataConfig(Config):
    """The input text, the creation of instances, and the output files."""

    GROUPS = (
        ("TensorFlow Datasets", "tfds_name tfds_data_dir tfds_split"),
        ("Shards", "num_shards num_processes max_memory_mb work_dir runner beam_option"),
    )

    output_file: str = option(
        None,
        "TFRecord files to write, separated by commas; instances are distributed evenly. With "
        "num_shards, a single name, to which -00000-of-00004 and so on is appended.",
    )
    input_file: str | None = option(None, "Text files: paths or globs, separated by commas.")
    input_format: str = option(
        "auto",
        "text: one sentence per line, with blank lines between documents. jsonl: one JSON object "
        "per line, each a document. auto: jsonl for the extensions .jsonl, .ndjson and .json, else "
        "text. Files may be gzipped. (bert_tf)",
        choices=INPUT_FORMATS,
        requires="input_file",
    )
    text_field: str = option(
        "text",
        "Key of the text in JSON objects and TFDS examples. (bert_tf)",
    )
    split_sentences: bool = option(
        False,
        "Whether to split lines of text into sentences; JSON is always split. (bert_tf)",
        requires="input_file",
    )
    tfds_name: str | None = option(
        None, "Name of a TensorFlow Datasets (TFDS) dataset, such as wiki40b/en. (bert_tf)"
    )
    tfds_data_dir: str | None = option(None, "TFDS data directory. (bert_tf)", requires="tfds_name")
    tfds_split: str = option("train", "TFDS split to read. (bert_tf)", requires="tfds_name")
    instances: InstanceConfig = dataclasses.field(default_factory=InstanceConfig)
    num_shards: int = option(
        0,
        "Number of shards, which are created independently: memory is limited to a shard per "
        "process, and a killed run can resume. 0 creates everything in memory, as the release "
        "does. (bert_tf)",
        minimum=0,
        maximum=99999,
    )
    num_processes: int = option(
        1,
        "Number of processes that create shards. (bert_tf)",
        minimum=1,
        maximum=MAX_PROCESSES,
        requires="num_shards",
    )
    max_memory_mb: int = option(
        0,
        "Memory limit for all processes together, in MB; 0 for no limit. If it is too low, the "
        "error message suggests a value for num_shards. (bert_tf)",
        minimum=0,
        requires="num_shards",
    )
    work_dir: str | None = option(
        None,
        "Local folder for temporary files of unfinished shards. (bert_tf)",
        requires="num_shards",
    )
    runner: str | None = option(
        None,
        "Apache Beam runner that creates the shards, such as DirectRunner or DataflowRunner. "
        "(bert_tf)",
        requires="num_shards",
    )
    beam_option: list[str] = option(
        (),
        "Apache Beam option, including dashes and value; may be repeated. (bert_tf)",
        requires="runner",
    )

    def validate(self):
        super().validate()
        if bool(self.input_file) == bool(self.tfds_name):
            raise UserError("exactly one of `input_file` and `tfds_name` is required")
        if self.instances.dynamic_masking and self.instances.is_given("masked_lm_prob"):
            raise UserError(
                "`masked_lm_prob` cannot be combined with `dynamic_masking`; pass it to "
                "run_pretraining.py"
            )
        for name in ("num_processes", "max_memory_mb"):
            if self.runner and self.is_given(name):
                raise UserError(f"`{name}` cannot be combined with `runner`; use `beam_option`")
        return self
