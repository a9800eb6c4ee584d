"""The configuration of pre-training."""

import dataclasses

from bert_tf.configs.base import option
from bert_tf.configs.model import ModelConfig
from bert_tf.configs.pretraining_data import RecordConfig
from bert_tf.configs.train import MAX_STEPS, DeviceConfig, OptimizerConfig, TrainConfig
from bert_tf.errors import UserError

FINE_TUNING_ONLY = (
    "num_train_epochs", "predict_batch_size", "pad_to_max_length", "bucket_by_length"
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PretrainingConfig(RecordConfig):
    """The configuration of `training.pretrain`."""

    GROUPS = (
        ("Run", "output_dir do_train do_eval"),
        ("Training", "num_train_steps objective dynamic_masking masked_lm_prob"),
        ("Evaluation and prediction", "max_eval_steps"),
    )

    input_file: str = option(None, "TFRecord files: paths or globs, separated by commas.")
    output_dir: str = option(None, "Folder for checkpoints, summaries and results.")
    eval_file: str | None = option(
        None, "TFRecord files to evaluate on. Default: input_file. (bert_tf)"
    )
    num_train_steps: int = option(100000, "Number of training steps.", minimum=1, maximum=MAX_STEPS)
    max_eval_steps: int = option(100, "Maximum number of evaluation batches.", minimum=1)
    dynamic_masking: bool = option(
        False,
        "Mask different tokens in each epoch. Requires vocab_file, and records that were created "
        "with dynamic_masking. (bert_tf)",
    )
    masked_lm_prob: float = option(
        0.15,
        "Fraction of the tokens to mask with dynamic_masking. (bert_tf)",
        requires="dynamic_masking",
    )
    num_input_streams: int = option(
        1,
        "Number of streams; must divide train_batch_size and the number of input files. Each "
        "stream reads its share of the files and fills its share of each batch. If this is a "
        "multiple of N hosts, each host reads 1/N of the records. Different numbers give different "
        "batches. (bert_tf)",
        minimum=1,
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

    def check(self):
        """Raise UserError for values that are invalid or cannot be combined."""
        self.validate()
        if not (self.do_train or self.do_eval):
            raise UserError("at least one of `do_train` and `do_eval` must be set")
        for name in FINE_TUNING_ONLY:
            if self.train.is_given(name):
                raise UserError(f"`{name}` has no effect in pre-training")
        self.train.check(self.do_train)
        if self.train.train_batch_size % self.num_input_streams:
            raise UserError(
                f"`num_input_streams={self.num_input_streams}`: expected a divisor of "
                f"`train_batch_size={self.train.train_batch_size}`"
            )
        self.device.check_dtype(self.train.dtype)

    def to_flags(self):
        skipped = (*FINE_TUNING_ONLY, "warmup_proportion")
        return {name: x for name, x in super().to_flags().items() if name not in skipped}

    @property
    def lengths(self):
        """Dict from the dimensions in the schema of the records to their sizes."""
        return {"S": self.max_seq_length, "P": self.max_predictions_per_seq}
