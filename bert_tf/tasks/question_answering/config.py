"""What a question answering model is besides its weights."""

import dataclasses

from bert_tf.tasks.question_answering import SPEC
from bert_tf.tasks.question_answering.decoding import DecodingConfig
from bert_tf.tasks.question_answering.features import NUM_SPECIAL_TOKENS, WindowConfig
from bert_tf.training.task_config import TaskConfig


def _names(config_class):
    return tuple(field.name for field in dataclasses.fields(config_class))


@dataclasses.dataclass(frozen=True)
class QuestionAnsweringConfig(TaskConfig):
    """The configuration of a question answering model, in `squad.json`.

    The attributes are those of `WindowConfig` and `DecodingConfig`.
    """

    FILE = SPEC.side_file
    OPTIONS = ("do_lower_case", *_names(WindowConfig), *_names(DecodingConfig))

    max_seq_length: int = WindowConfig.max_seq_length
    doc_stride: int = WindowConfig.doc_stride
    max_query_length: int = WindowConfig.max_query_length
    answer_alignment: str = WindowConfig.answer_alignment
    n_best_size: int = DecodingConfig.n_best_size
    max_answer_length: int = DecodingConfig.max_answer_length
    version_2_with_negative: bool = DecodingConfig.version_2_with_negative
    null_score_diff_threshold: float = DecodingConfig.null_score_diff_threshold

    @property
    def window_config(self):
        """The `WindowConfig`: how contexts are split."""
        return WindowConfig(**{name: getattr(self, name) for name in _names(WindowConfig)})

    @property
    def decoding_config(self):
        """The `DecodingConfig`: how answers are chosen."""
        return DecodingConfig(**{name: getattr(self, name) for name in _names(DecodingConfig)})

    @classmethod
    def of_pretrained(cls, bert_config, vocab_file, do_lower_case, labels=(), **options):
        config = super().of_pretrained(bert_config, vocab_file, do_lower_case, **options)
        config.window_config.check()
        if options.get("doc_stride") is not None:
            return config
        # Windows of short sequences must overlap too, or answers between them are lost.
        num_tokens = config.max_seq_length - config.max_query_length - NUM_SPECIAL_TOKENS
        doc_stride = min(config.doc_stride, max(1, num_tokens // 2))
        return dataclasses.replace(config, doc_stride=doc_stride)
