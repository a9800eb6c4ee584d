"""`Architecture`: how a model of transformers differs from BERT."""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Architecture(NamedTuple):
    """How the Hugging Face folders of an architecture differ from those of BERT.

    Attributes:
      config_names: options of its config.json with the names that BERT has for them.
      config_values: values of `BertConfig` for what its code does and its config.json lacks.
      weight_names: pairs of parts of weight names, its own and BERT's, replaced in this order.
    """

    config_names: Mapping[str, str] = {}
    config_values: Mapping[str, Any] = {}
    weight_names: tuple[tuple[str, str], ...] = ()

    def bert_weight_name(self, name):
        """Return the name that transformers gives to the same weight of BERT."""
        for own, of_bert in self.weight_names:
            name = name.replace(own, of_bert)
        return name
