"""The options of pre-training: of its records and of its run, in the form `options` describes."""

import dataclasses

from bert_tf.configs.train import (
    DeviceConfig,
    ModelConfig,
    OptimizerConfig,
    TrainConfig,
    check_bounds,
    documented,
    option,
)
from bert_tf.errors import UserError

OBJECTIVES = ("nsp", "sop", "none")
WORD_BOUNDARIES = ("pieces", "spaces")

# Longer sequences or more passes would not end.
_MAX_COUNT = 2**20


@documented
@dataclasses.dataclass(frozen=True)
class InstanceConfig:
    """How to create instances. The defaults are those of the release."""

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
        check_bounds(self)
        for name, choices in (("objective", OBJECTIVES), ("word_boundaries", WORD_BOUNDARIES)):
            if getattr(self, name) not in choices:
                raise UserError(
                    f"`{name}` must be one of {', '.join(choices)}, not {getattr(self, name)}"
                )
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


@documented
@dataclasses.dataclass(frozen=True)
class PretrainingConfig:
    """The configuration of `training.pretrain`."""

    input_file: str = option(None, "TFRecord files: paths or globs, separated by commas.")
    output_dir: str = option(None, "Folder for checkpoints, summaries and results.")
    eval_file: str | None = option(
        None, "TFRecord files to evaluate on, input_file if not given. (bert_tf)"
    )
    max_seq_length: int = option(128, "Length of the sequences, as in create_pretraining_data.py.")
    max_predictions_per_seq: int = option(
        20, "Masked words in a sequence, as in create_pretraining_data.py."
    )
    num_train_steps: int = option(100000, "Number of training steps.", minimum=1)
    num_warmup_steps: int = option(10000, "Number of warm-up steps.", minimum=0)
    max_eval_steps: int = option(100, "Maximum number of evaluation batches.", minimum=1)
    objective: str = option(
        "nsp",
        "What the records teach besides masked words, as in create_pretraining_data.py: next "
        "sentence or sentence order, which are trained alike, or nothing. (bert_tf)",
        choices=OBJECTIVES,
    )
    dynamic_masking: bool = option(
        False,
        "Mask words during training, differently in each epoch, with vocab_file; requires records "
        "without masks, see dynamic_masking of create_pretraining_data.py. (bert_tf)",
    )
    masked_lm_prob: float | None = option(
        None, "Share of the tokens to mask with dynamic_masking. (bert_tf)", flag_default=0.15
    )
    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(False, "Whether to evaluate, after training if both are given.")
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    optimizer: OptimizerConfig = dataclasses.field(default_factory=OptimizerConfig)
    device: DeviceConfig = dataclasses.field(default_factory=DeviceConfig)

    @property
    def lengths(self):
        """The lengths of the records, by the letters of their schema."""
        return {"S": self.max_seq_length, "P": self.max_predictions_per_seq}
