"""What to make of a corpus."""

from typing import NamedTuple

from bert_tf.errors import UserError

# What the second segment teaches, by --objective.
OBJECTIVES = ("nsp", "sop", "none")
# What whole words are, by --word_boundaries.
BOUNDARIES = ("pieces", "spaces")


class Settings(NamedTuple):
    """What to make of a corpus; the defaults are the release's.

    Attributes:
      max_seq_length: S, the number of tokens of an instance.
      max_predictions_per_seq: P, the most tokens to mask in an instance.
      masked_lm_prob: share of the tokens to mask.
      short_seq_prob: share of the documents that are cut into shorter instances.
      dupe_factor: how many times to go through the text, masks anew.
      do_whole_word_mask: whether to mask all pieces of a word, or none.
      random_seed: of everything that is drawn.
      objective: one of `OBJECTIVES`: next sentences, the order of sentences, or masked words alone.
      max_ngram: the most words in a row that are masked together.
      word_boundaries: one of `BOUNDARIES`: words are pieces and the "##" pieces behind them, or
        what stands between two spaces of the text.
      dynamic_masking: whether nothing is masked here, but when a model is trained.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    do_whole_word_mask: bool = False
    random_seed: int = 12345
    objective: str = "nsp"
    max_ngram: int = 1
    word_boundaries: str = "pieces"
    dynamic_masking: bool = False

    def check(self):
        """Returns the settings; UserError names the first that cannot be."""
        # [CLS] a [SEP] b [SEP]
        for name, least in (
            ("max_seq_length", 5),
            ("max_predictions_per_seq", 1),
            ("dupe_factor", 1),
            ("max_ngram", 1),
        ):
            if getattr(self, name) < least:
                raise UserError(f"`{name}` must be at least {least}, not {getattr(self, name)}")
        for name in ("masked_lm_prob", "short_seq_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise UserError(f"`{name}` must be from 0 to 1, not {getattr(self, name)}")
        for name, known in (("objective", OBJECTIVES), ("word_boundaries", BOUNDARIES)):
            if getattr(self, name) not in known:
                raise UserError(
                    f"`{name}` must be one of {', '.join(known)}, not {getattr(self, name)}"
                )
        if self.word_boundaries == "spaces" and not self.do_whole_word_mask:
            raise UserError("`word_boundaries=spaces` is for `do_whole_word_mask`")
        if self.dynamic_masking and (self.do_whole_word_mask or self.max_ngram > 1):
            raise UserError(
                "`dynamic_masking` masks single tokens when a model is trained; "
                "`do_whole_word_mask` and `max_ngram` want masks that are made here"
            )
        return self

    def wanted(self, length):
        """How many tokens of a sequence of so many to mask, if there is room."""
        return max(1, round(length * self.masked_lm_prob))
