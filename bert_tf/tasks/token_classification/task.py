"""`TokenClassification`: fine-tuning and prediction of entities or tags, on strings."""

import dataclasses
import itertools
from typing import Any, ClassVar

from bert_tf.checkpoints import read_metadata
from bert_tf.configs.train import FitConfig
from bert_tf.data.containers import check_list, iterate_texts, label_names, read_table
from bert_tf.data.labels import Labels
from bert_tf.data.tables import to_python
from bert_tf.errors import UserError
from bert_tf.modeling import BertTokenClassifier
from bert_tf.tasks.base import Pipeline
from bert_tf.tasks.token_classification.examples import sentences_of_table
from bert_tf.tasks.token_classification.objective import TokenClassificationData, read
from bert_tf.tasks.token_classification.options import Tags, TokenClassificationConfig
from bert_tf.tasks.token_classification.schemes import OUTSIDE
from bert_tf.tasks.token_classification.served import (
    token_classification_answer,
    token_classification_servable,
)
from bert_tf.training.objective import ServedTask


class TokenClassification(Pipeline):
    """Finds entities in texts, or tags words.

    >>> ner = bert_tf.TokenClassification.from_preset(
    ...     "uncased_L-4_H-256_A-4", labels=["PER", "LOC"]
    ... )
    >>> spans = [{"start": 0, "end": 10, "label": "PER"}, {"start": 23, "end": 33, "label": "LOC"}]
    >>> history = ner.fit(["Jim Henson was born in Greenville."], [spans], epochs=1, verbose=0)
    >>> ner.predict(["Jim Henson was born in Greenville."])
    [{'entities': [...]}]

    Texts longer than `max_seq_length` are split into overlapping windows. `from_preset` of a
    model without a fine-tuned head takes `labels`: either entity labels, such as "PER", or all tags
    in the order of their ids, such as "O", "B-PER", "I-PER". Its `scheme` is "iob2", "iobes", or
    "none" if each word has one of the `labels`, such as its part of speech. By default, it is the
    scheme of the tags; "io", whose neighboring words with one label are an entity, if `labels` has
    "O" and labels without prefixes; else "iob2".

    In the result of `evaluate`, "loss" is the mean over words, and "accuracy" the fraction of words
    with the correct tag. If the tags mark entities, "precision", "recall" and "f1" of whole
    entities are as in conlleval. Tags may have another scheme than the model's.

    `model` is a `BertTokenClassifier`, `config` a `TokenClassificationConfig`.

    Data of `fit` and `evaluate`:
      texts: list of str, or list of sentences, which are lists of words; or a table with the
        columns "tokens" and "ner_tags", or "text" and "entities".
      labels: for str, a list of entities per text: dicts with "start", "end" and "label", as
        `predict` returns them, or tuples (start, end, label). For sentences, a list of tags or tag
        indices per sentence, one for each word.

    Options of `fit`:
      batch_size: in windows.
      class_weight: dict from tags to the loss weights of their words, 1 if missing; or "balanced",
        see `TextClassifier`.
    """

    name = "token_classification"
    config_class = TokenClassificationConfig
    read = staticmethod(read)
    make_model = staticmethod(
        lambda config, dtype=None: BertTokenClassifier(
            config.bert_config, len(config.tags.names), dtype
        )
    )
    make_servable = staticmethod(token_classification_servable)
    served: ClassVar = {"token_classification": ServedTask(token_classification_answer)}
    preset_options = ("labels", "scheme")
    fit_options = ("class_weight",)
    config: TokenClassificationConfig

    @classmethod
    def _config_values(cls, files, stored, values):
        labels, scheme = (values.pop(name, None) for name in cls.preset_options)
        if scheme not in (None, "iob2", "iobes", "io", "none") or (scheme and labels is None):
            raise UserError(f"`scheme={scheme}`: expected iob2, iobes, io or none, with `labels`")
        if labels is not None:
            labels = label_names(labels)
            if OUTSIDE not in labels:
                scheme = scheme or "iob2"
            tags = values["tags"] = Tags.of_labels(labels, scheme)
            if OUTSIDE not in tags.names and tags.scheme != "none":
                raise UserError(f"`labels`: found tags such as {labels[0]} without {OUTSIDE}")
        if stored and values:
            name = next(iter(values)).replace("tags", "labels")
            raise UserError(f"`{name}` cannot be combined with the settings in {files.checkpoint}")
        if not stored and "tags" not in values:
            metadata = read_metadata(files.checkpoint)
            if "BertForTokenClassification" not in metadata.get("architectures", ()):
                raise UserError(
                    f"`labels` must be given: {files.checkpoint} has no token classifier; for "
                    'example labels=["PER", "ORG"]'
                )
            return {**values, "tags": Tags.of_labels(metadata.get("labels", ()))}
        return values

    def predict(self, texts: Any, batch_size: int | None = None) -> Any:
        """Find the entities in texts, or tag words.

        Args:
          texts: a str, a list of str, or a list of lists of words; of any length.
          batch_size: number of texts per step; None for 32 (long texts) to 256 (short texts).

        Returns:
          For a list of str, a list of dicts {"entities": list}; for a str, a single dict. Each
          entity is a dict:
            "entity": its text;
            "label": its label;
            "start" and "end": its character offsets (end exclusive);
            "score": the mean probability of its words.
          For lists of words, a list of lists of tags.

        Raises:
          UserError: if `texts` is invalid.
        """
        if isinstance(texts, str):
            return self.predict([texts], batch_size)[0]
        texts = [
            to_python(x, "replace") for x in check_list(texts, "texts", "texts or lists of words")
        ]
        if not texts or isinstance(texts[0], str):
            texts = list(iterate_texts(texts, "texts"))
            self._warn_if_blank("texts", texts)
            return self._answers([{"text": x} for x in texts], batch_size)
        self._warn_if_random("the tags")
        examples = self._examples((texts,), self.arguments, "test")
        if not examples:
            return texts
        data = self._data({"dev": examples})
        objective = data.make_objective(self.model)
        size = FitConfig.batch_size if batch_size is None else batch_size
        predictions = self._predictions(objective, self._features(data, "dev"), size)
        tags = iter(objective.tags(predictions))
        return [next(tags) if words else [] for words in texts]

    def _examples(self, columns, names, split):
        """Return a list of `Sentence`."""
        table, _ = read_table(columns, names, ("tokens", "tags"), 2 - (split == "test"))
        sentences = sentences_of_table(table, names, self.config, with_tags=split != "test")
        if not sentences and split != "test":
            raise UserError(f"`{names[0]}`: found no words")
        return sentences

    def _trained_config(self, examples):
        # `evaluate` and `predict` have only a "dev" split, `predict` without tags.
        tags = self.config.tags.of_data(examples.get("train") or examples["dev"])
        return dataclasses.replace(self.config, tags=tags)

    def _data(self, examples, class_weight=None):
        config, weights = self._trained_config(examples), None
        if class_weight is not None:
            converted = map(config.tags.convert, examples["train"])
            labels = Labels(config.tags.names)
            weights = labels.weights(class_weight, itertools.chain(*converted), "class_weight")
        return TokenClassificationData(examples, config, weights)
