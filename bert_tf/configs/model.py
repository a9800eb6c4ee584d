"""`BertConfig`, the model's hyperparameters, and `ModelConfig`, the files to load it from."""

import copy
import dataclasses
import json
import typing
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from bert_tf.configs.base import Config, option
from bert_tf.errors import UserError
from bert_tf.io import json_files
from bert_tf.io.json_files import Limits, NotNegative

# "gelu" is the release's tanh approximation; "gelu_erf" is exact, and Hugging Face calls it "gelu".
RELEASE_ACTIVATIONS = ("gelu", "relu", "tanh", "linear")
ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear")

# The paper's feature-based approaches (arXiv:1810.04805, table 7) and the layers that they combine,
# None for all.
LAYER_COMBINATIONS = {
    "embeddings": (),
    "second_to_last": (-2,),
    "last": (-1,),
    "weighted_sum_last_four": (-4, -3, -2, -1),
    "concat_last_four": (-4, -3, -2, -1),
    "weighted_sum_all": None,
}

LAYER_NORM_EPS = 1e-12

# From the names of activations in a Hugging Face config.json.
_HUGGING_FACE_ACTIVATIONS = {"gelu": "gelu_erf", "gelu_new": "gelu", "gelu_pytorch_tanh": "gelu"}
_HUGGING_FACE_ACTIVATIONS |= {name: name for name in ("relu", "tanh", "linear")}
_REQUIRED: dict[str, str | bool] = {"position_embedding_type": "absolute"}
_REQUIRED |= {"is_decoder": False, "add_cross_attention": False}
# Keys that do not describe the architecture, or whose value is checked and then dropped.
_HUGGING_FACE_ONLY = ["_name_or_path", "_num_labels", "architectures", "dtype", "model_type"]
_HUGGING_FACE_ONLY += ["gradient_checkpointing", "position_embedding_type", "torch_dtype"]
_HUGGING_FACE_ONLY += ["transformers_version", "use_cache"]

_Size = Annotated[int, Limits(1, 2**31 - 1)]
_Probability = Annotated[float, Limits(0.0, 0.99)]
_Activation = Annotated[str, Limits(choices=ACTIVATIONS)]


@dataclasses.dataclass
class BertConfig:
    """Hyperparameters of a BERT model.

    The defaults match the release (BERT-Base).

    >>> config = bert_tf.BertConfig(vocab_size=30522, num_hidden_layers=6)
    >>> config = bert_tf.BertConfig.from_json_file("bert_config.json")
    >>> config.to_dict()["hidden_act"]
    'gelu'

    Args:
      vocab_size: V, size of the vocabulary.
      hidden_size: H, width of the encoder layers.
      num_hidden_layers: number of transformer layers.
      num_attention_heads: N, number of attention heads; must divide H.
      intermediate_size: width of the feed-forward layers.
      hidden_act: "gelu" (tanh approximation, as in the release), "gelu_erf" (exact, as in Hugging
        Face), "relu", "tanh" or "linear".
      hidden_dropout_prob: dropout rate of the embeddings and the sublayer outputs.
      attention_probs_dropout_prob: dropout rate of the attention probabilities.
      max_position_embeddings: maximum sequence length.
      type_vocab_size: number of segment ids.
      initializer_range: standard deviation of the truncated normal initializer.
      layer_norm_eps: added to the variance in layer normalization; 1e-12 in the release.
      embedding_size: E, width of the embeddings; if it differs from H, a dense layer projects them
        to H. None means H.
      has_segment_embeddings: whether the model uses segment ids.
      pooler_act: activation of the pooler, with the choices of `hidden_act`; "tanh" in the release.
      classifier_dropout: dropout rate before the last layer of classifiers of texts, choices and
        tokens. None means `seq_classif_dropout` for texts and choices, and `hidden_dropout_prob`
        for tokens.
      seq_classif_dropout: 0.1 in the release; an option of DistilBERT in transformers.
      qa_dropout: dropout rate before the last layer of span labelers; an option of DistilBERT.
      other: dict of unknown JSON keys ("directionality", "pooler_fc_size", ...), preserved in
        `to_dict`.
    """

    vocab_size: _Size
    hidden_size: _Size = 768
    # An upper bound catches typing errors: creating a million layers would not end.
    num_hidden_layers: Annotated[int, Limits(1, 1000)] = 12
    num_attention_heads: _Size = 12
    intermediate_size: _Size = 3072
    hidden_act: _Activation = "gelu"
    hidden_dropout_prob: _Probability = 0.1
    attention_probs_dropout_prob: _Probability = 0.1
    max_position_embeddings: _Size = 512
    type_vocab_size: _Size = 16
    initializer_range: NotNegative = 0.02
    layer_norm_eps: NotNegative = LAYER_NORM_EPS
    embedding_size: _Size | None = None
    has_segment_embeddings: bool = True
    pooler_act: _Activation = "tanh"
    classifier_dropout: _Probability | None = None
    seq_classif_dropout: _Probability = 0.1
    qa_dropout: _Probability = 0.0
    other: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self):
        """Raise UserError if a value is invalid."""
        if self.embedding_size is None:
            self.embedding_size = self.hidden_size
        json_files.check(vars(self), typing.get_type_hints(type(self), include_extras=True))
        if self.hidden_size % self.num_attention_heads:
            raise UserError(
                f"hidden_size is {self.hidden_size}, expected a multiple of num_attention_heads, "
                f"{self.num_attention_heads}"
            )

    def check_num_texts(self, number: int) -> None:
        """Raise UserError if the model has fewer segment ids than `number` texts need."""
        if self.has_segment_embeddings and number > self.type_vocab_size:
            raise UserError(
                f"the model has {self.type_vocab_size} segment id (`type_vocab_size`) and supports "
                "single texts only; pairs of texts require 2"
            )

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "BertConfig":
        """Return the config for a parsed `bert_config.json` or Hugging Face `config.json`.

        A Hugging Face config is recognized by its "model_type". Its "gelu" becomes "gelu_erf".

        Raises:
          UserError: if a value is invalid or the architecture is not supported.
        """
        if not isinstance(values, dict) or "vocab_size" not in values:
            raise UserError('expected a BERT config, a JSON object with at least "vocab_size"')
        if "model_type" in values:
            values = _from_hugging_face(values)
        names = cls.__dataclass_fields__.keys() - {"other"}
        other = {key: value for key, value in values.items() if key not in names}
        return cls(**{key: values[key] for key in names & values.keys()}, other=other)

    @classmethod
    def from_json_file(cls, path: str) -> "BertConfig":
        """Read a `bert_config.json` or Hugging Face `config.json`; see `from_dict`."""
        values = json_files.read(path)
        try:
            return cls.from_dict(values)
        except UserError as error:
            raise UserError(f"{path}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """Return the values for the JSON file, including unknown keys."""
        # These defaults are not in the release's files.
        defaults = {"layer_norm_eps": LAYER_NORM_EPS, **self._architecture_of_bert()}
        defaults |= {"classifier_dropout": None, "seq_classif_dropout": 0.1, "qa_dropout": 0.0}
        values = {x: y for x, y in vars(self).items() if x not in defaults or y != defaults[x]}
        return copy.deepcopy({**values.pop("other"), **values})

    def _architecture_of_bert(self):
        """Return the values that make the architecture BERT."""
        values = {"embedding_size": self.hidden_size, "has_segment_embeddings": True}
        return {**values, "pooler_act": "tanh"}

    def differences_from_bert(self) -> str:
        """Describe how the architecture differs from BERT; "" if it does not."""
        values, expected = vars(self), self._architecture_of_bert()
        return ", ".join(f"{x}={values[x]}" for x in expected if values[x] != expected[x])

    def to_hugging_face(self) -> dict[str, Any]:
        """Return the values for a Hugging Face `config.json`, without "architectures".

        Raises:
          UserError: if the architecture is not BERT.
        """
        if difference := self.differences_from_bert():
            raise UserError(f"found {difference}; only BERT can be saved for transformers")
        names = {name: their_name for their_name, name in _HUGGING_FACE_ACTIVATIONS.items()}
        # Unlike "gelu_pytorch_tanh", all versions of transformers support this name.
        names["gelu"] = "gelu_new"
        values = {**self.to_dict(), "model_type": "bert", "hidden_act": names[self.hidden_act]}
        values["layer_norm_eps"] = self.layer_norm_eps
        return {**values, "position_embedding_type": "absolute"}

    def to_json_string(self) -> str:
        """Return JSON in the release's format: indented by 2, sorted keys, final newline."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"


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


# DistilBERT (Sanh et al., arXiv:1910.01108).
#
# The encoder is BERT's without segment embeddings. Instead of a pooler, the text classifier of
# transformers has a dense layer with ReLU.
DISTILBERT = Architecture(
    config_names={
        "activation": "hidden_act",
        "attention_dropout": "attention_probs_dropout_prob",
        "dim": "hidden_size",
        "dropout": "hidden_dropout_prob",
        "hidden_dim": "intermediate_size",
        "n_heads": "num_attention_heads",
        "n_layers": "num_hidden_layers",
    },
    # The encoder ignores the two segment ids of pairs.
    config_values={"has_segment_embeddings": False, "pooler_act": "relu", "type_vocab_size": 2},
    weight_names=(
        ("distilbert.", ""),
        ("transformer.layer.", "encoder.layer."),
        (".attention.q_lin.", ".attention.self.query."),
        (".attention.k_lin.", ".attention.self.key."),
        (".attention.v_lin.", ".attention.self.value."),
        (".attention.out_lin.", ".attention.output.dense."),
        (".sa_layer_norm.", ".attention.output.LayerNorm."),
        (".ffn.lin1.", ".intermediate.dense."),
        (".ffn.lin2.", ".output.dense."),
        (".output_layer_norm.", ".output.LayerNorm."),
        ("pre_classifier.", "bert.pooler.dense."),
        ("vocab_transform.", "cls.predictions.transform.dense."),
        ("vocab_layer_norm.", "cls.predictions.transform.LayerNorm."),
        ("vocab_projector.bias", "cls.predictions.bias"),
        ("vocab_projector.weight", "cls.predictions.decoder.weight"),
    ),
)

# ELECTRA, discriminator and generator (Clark et al., arXiv:2003.10555).
#
# The embeddings may be narrower than the layers; a dense layer then projects them. Instead of a
# pooler, the text classifier of transformers has a dense layer with GELU.
ELECTRA = Architecture(
    config_values={"pooler_act": "gelu_erf"},
    weight_names=(
        ("electra.", ""),
        ("embeddings_project.", "bert.embeddings_project."),
        ("classifier.dense.", "bert.pooler.dense."),
        ("classifier.out_proj.", "classifier."),
        ("generator_predictions.dense.", "cls.predictions.transform.dense."),
        ("generator_predictions.LayerNorm.", "cls.predictions.transform.LayerNorm."),
        ("generator_lm_head.bias", "cls.predictions.bias"),
        ("generator_lm_head.weight", "cls.predictions.decoder.weight"),
    ),
)

# By the "model_type" of the folder's config.json.
ARCHITECTURES = {"bert": Architecture(), "distilbert": DISTILBERT, "electra": ELECTRA}


def find_architecture(values):
    """Return the `Architecture` of a Hugging Face config; raise UserError if it is unsupported."""
    return _look_up("model_type", values.get("model_type", "bert"), ARCHITECTURES)


def _look_up(key, value, supported):
    if not isinstance(value, str) or value not in supported:
        raise UserError(f"{key} is {value!r}, expected one of {', '.join(map(repr, supported))}")
    return supported[value]


def _from_hugging_face(values):
    """Translate a Hugging Face config; raise UserError if it describes a different model."""
    architecture = find_architecture(values)
    values = {architecture.config_names.get(key, key): value for key, value in values.items()}
    for key, expected in _REQUIRED.items():
        if values.get(key, expected) != expected:
            raise UserError(f"{key} is {values[key]!r}, expected {expected!r} for BERT")
    act = _look_up("hidden_act", values.get("hidden_act", "gelu"), _HUGGING_FACE_ACTIVATIONS)
    values = {key: value for key, value in values.items() if key not in _HUGGING_FACE_ONLY}
    return {**values, "hidden_act": act, **architecture.config_values}


@dataclasses.dataclass(frozen=True)
class ModelConfig(Config):
    """Pre-trained model: its files and the settings of its tokenizer."""

    model: str | None = option(
        None,
        "Pre-trained model: the name of a release model, such as uncased_L-12_H-768_A-12, a folder "
        "(release, Hugging Face or training run), or OWNER/NAME[@REVISION] of Hugging Face's hub. "
        "Sets the defaults of bert_config_file, init_checkpoint, vocab_file and do_lower_case.",
    )
    bert_config_file: str | None = option(
        None, "JSON file with the architecture of the model. Default: next to init_checkpoint."
    )
    init_checkpoint: str | None = option(
        None,
        "Checkpoint with the initial weights, usually of a pre-trained model. A run that resumes "
        "from its output_dir does not use it.",
    )
    vocab_file: str | None = option(
        None, "Vocabulary: vocab.txt or tokenizer.json. Default: next to init_checkpoint."
    )
    do_lower_case: bool | None = option(
        None,
        "Whether to lower-case the text: true for uncased models, false for cased models.",
        flag_default=True,
    )
    strip_accents: bool | None = option(
        None, "Whether to strip accents. Default: the model's setting, else do_lower_case."
    )
    tokenize_chinese_chars: bool | None = option(
        None,
        "Whether to split Chinese text into characters. Default: the model's setting, else true.",
    )
