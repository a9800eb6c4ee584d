"""The configuration of pre-training."""

import dataclasses

from bert_tf.configs.model import ModelConfig
from bert_tf.configs.options import Config, option
from bert_tf.configs.pretraining_data import OBJECTIVES
from bert_tf.configs.train import MAX_STEPS, DeviceConfig, OptimizerConfig, TrainConfig
from bert_tf.errors import UserError

# Options of `TrainConfig` that only fine-tuning has.
FINE_TUNING_ONLY = (
    "num_train_epochs", "predict_batch_size", "pad_to_max_length", "bucket_by_length"
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class PretrainingConfig(Config):
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
    num_train_steps: int = option(100000, "Number of training steps.", minimum=1, maximum=MAX_STEPS)
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
    masked_lm_prob: float = option(
        0.15,
        "Share of the tokens to mask with dynamic_masking. (bert_tf)",
        requires="dynamic_masking",
    )
    num_input_streams: int = option(
        1,
        "Number of streams, which must divide train_batch_size and the number of input files. Each "
        "reads its share of the files and fills its share of each batch, so that each of N hosts "
        "reads 1/N of the records if N divides this number. It decides which examples a batch has. "
        "(bert_tf)",
        minimum=1,
    )
    do_train: bool = option(False, "Whether to train.")
    do_eval: bool = option(False, "Whether to evaluate, after training if both are given.")
    model: ModelConfig = dataclasses.field(default_factory=ModelConfig)
    train: TrainConfig = dataclasses.field(default_factory=TrainConfig)
    # An `OptimizerConfig` without `num_warmup_steps` warms up in its `warmup_proportion`.
    optimizer: OptimizerConfig = dataclasses.field(
        default_factory=lambda: OptimizerConfig(num_warmup_steps=10000)
    )
    device: DeviceConfig = dataclasses.field(default_factory=DeviceConfig)

    def check(self):
        """Raise UserError for values that are not valid, or cannot be combined."""
        self.validate()
        if not (self.do_train or self.do_eval):
            raise UserError("one of `do_train` and `do_eval` must be set")
        for name in FINE_TUNING_ONLY:
            if self.train.is_given(name):
                raise UserError(f"`{name}` has no effect in pre-training")
        self.train.check(self.do_train)
        if self.train.train_batch_size % self.num_input_streams:
            raise UserError(
                f"`num_input_streams={self.num_input_streams}` does not divide "
                f"`train_batch_size={self.train.train_batch_size}`"
            )
        self.device.check_dtype(self.train.dtype)

    def to_flags(self):
        skipped = (*FINE_TUNING_ONLY, "warmup_proportion")
        return {name: x for name, x in super().to_flags().items() if name not in skipped}

    @property
    def lengths(self):
        """The lengths of the records, by the letters of their schema."""
        return {"S": self.max_seq_length, "P": self.max_predictions_per_seq}
