"""The configuration of creating pre-training data."""

import dataclasses

from bert_tf.configs.options import Config, option
from bert_tf.configs.train import MAX_PROCESSES
from bert_tf.errors import UserError

OBJECTIVES = ("nsp", "sop", "none")
WORD_BOUNDARIES = ("pieces", "spaces")
INPUT_FORMATS = ("auto", "text", "jsonl")

# Upper bounds that catch typing errors.
_MAX_COUNT = 2**20


@dataclasses.dataclass(frozen=True)
class InstanceConfig(Config):
    """How to create instances. The defaults are those of the release."""

    GROUP = "Instances"

    max_seq_length: int = option(
        128,
        "Number of tokens of an instance, including padding.",
        minimum=5,  # [CLS] a [SEP] b [SEP]
        maximum=_MAX_COUNT,
    )
    max_predictions_per_seq: int = option(
        20, "Maximum number of masked tokens of an instance.", minimum=1, maximum=_MAX_COUNT
    )
    masked_lm_prob: float = option(
        0.15, "Fraction of the tokens to mask.", minimum=0.0, maximum=1.0
    )
    short_seq_prob: float = option(
        0.1, "Fraction of the documents with shorter instances.", minimum=0.0, maximum=1.0
    )
    dupe_factor: int = option(
        10,
        "Number of passes through the text, each with different masks.",
        minimum=1,
        maximum=_MAX_COUNT,
    )
    do_whole_word_mask: bool = option(False, "Whether to mask whole words, not single tokens.")
    random_seed: int = option(12345, "Seed of all random draws.")
    objective: str = option(
        "nsp",
        "What to predict in addition to masked tokens: the next sentence (nsp), the order of "
        "sentences (sop), or nothing (none), which gives full sentences. (bert_tf)",
        choices=OBJECTIVES,
    )
    max_ngram: int = option(
        1,
        "Maximum number of consecutive words that are masked together. (bert_tf)",
        minimum=1,
        maximum=_MAX_COUNT,
    )
    word_boundaries: str = option(
        "pieces",
        "Words for do_whole_word_mask: a token and the ## tokens that follow, or the text between "
        "spaces, for Chinese with spaces inserted by a word segmenter. (bert_tf)",
        choices=WORD_BOUNDARIES,
    )
    dynamic_masking: bool = option(
        False,
        "Create records without masks; run_pretraining.py, also with dynamic_masking, masks them "
        "differently in each epoch. (bert_tf)",
    )

    def validate(self):
        """Return self, or raise UserError naming the first invalid attribute."""
        super().validate()
        if self.word_boundaries == "spaces" and not self.do_whole_word_mask:
            raise UserError("`word_boundaries=spaces` requires `do_whole_word_mask`")
        if self.dynamic_masking and (self.do_whole_word_mask or self.max_ngram > 1):
            raise UserError(
                "`dynamic_masking` masks single tokens during training; it cannot be combined with "
                "`do_whole_word_mask` or `max_ngram`"
            )
        return self

    def num_to_mask(self, length):
        """Return the number of tokens to mask in a sequence, before `max_predictions_per_seq`."""
        return max(1, round(length * self.masked_lm_prob))


@dataclasses.dataclass(frozen=True)
class PretrainingDataConfig(Config):
    """The text to read, the instances to create of it, and the files to write."""

    GROUPS = (
        ("TensorFlow Datasets", "tfds_name tfds_data_dir tfds_split"),
        ("Shards", "num_shards num_processes max_memory_mb work_dir runner beam_option"),
    )

    output_file: str = option(
        None,
        "Comma-separated TFRecord files to write; each gets an equal share. With num_shards a "
        "single name, to which the shards append -00000-of-00004 and so on.",
    )
    input_file: str | None = option(None, "Text files: comma-separated paths or globs.")
    input_format: str = option(
        "auto",
        "text is one sentence per line and a blank line between documents; jsonl is one JSON "
        "object per line, each a document; auto is jsonl for names in .jsonl, .ndjson or .json, "
        "else text. Files compressed by gzip are unpacked. (bert_tf)",
        choices=INPUT_FORMATS,
        requires="input_file",
    )
    text_field: str = option(
        "text",
        "Key of the text in a JSON object or an example of a dataset. (bert_tf)",
    )
    split_sentences: bool = option(
        False,
        "Split lines of text into sentences, as is done for JSON. (bert_tf)",
        requires="input_file",
    )
    tfds_name: str | None = option(
        None, "Dataset of tensorflow-datasets, such as wiki40b/en. (bert_tf)"
    )
    tfds_data_dir: str | None = option(
        None, "Data folder of tensorflow-datasets. (bert_tf)", requires="tfds_name"
    )
    tfds_split: str = option("train", "Split of tfds_name. (bert_tf)", requires="tfds_name")
    instances: InstanceConfig = dataclasses.field(default_factory=InstanceConfig)
    num_shards: int = option(
        0,
        "Create this many independent shards: with the memory of a shard instead of the whole "
        "text, several processes, and resuming after a run was killed. 0 creates everything in "
        "memory, as the 2018 release does. (bert_tf)",
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
        "Memory limit of all processes together; if it is too low, an error suggests a "
        "num_shards. 0 for no limit. (bert_tf)",
        minimum=0,
        requires="num_shards",
    )
    work_dir: str | None = option(
        None,
        "Local folder for the tokens of shards until these are complete. (bert_tf)",
        requires="num_shards",
    )
    runner: str | None = option(
        None,
        "Create the shards by Apache Beam with this runner, such as DirectRunner or "
        "DataflowRunner. (bert_tf)",
        requires="num_shards",
    )
    beam_option: list[str] = option(
        (),
        "A flag of Beam, with its dashes and its value; may be repeated. (bert_tf)",
        requires="runner",
    )

    def validate(self):
        """Return self, or raise UserError naming the first invalid attribute."""
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
                raise UserError(
                    f"`{name}` cannot be combined with `runner`; use the options of Beam"
                )
        return self
