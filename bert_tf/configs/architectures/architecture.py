"""`Architecture`: how a model of transformers differs from BERT."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Architecture(NamedTuple):
    """Differences between an architecture's Hugging Face folders and BERT's.

    Attributes:
      config_names: dict from keys of its config.json to BERT's keys.
      config_values: `BertConfig` values that are hard-coded in transformers.
      weight_names: pairs (its own, BERT's) of substrings of weight names, replaced in this order.
    """

    config_names: Mapping[str, str] = {}
    config_values: Mapping[str, Any] = {}
    weight_names: tuple[tuple[str, str], ...] = ()

    def bert_weight_name(self, name):
        """Return the name of the same weight in transformers' BERT."""
        for own, bert_name in self.weight_names:
            name = name.replace(own, bert_name)
        return name
