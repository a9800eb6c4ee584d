"""`TokenClassification`: fine-tuning and prediction of entities or tags, on strings."""

import dataclasses
import itertools
from typing import Any

from bert_tf import console
from bert_tf.checkpoints import read_metadata
from bert_tf.configs.train import FitConfig
from bert_tf.data.columns import RowErrors
from bert_tf.data.containers import check_list, iterate_texts, label_names, read_table
from bert_tf.data.labels import Labels
from bert_tf.data.tables import to_python
from bert_tf.errors import UserError
from bert_tf.modeling import BertTokenClassifier
from bert_tf.tasks.base import Task
from bert_tf.tasks.token_classification import examples as reading
from bert_tf.tasks.token_classification.objective import TokenClassificationObjective, make_features
from bert_tf.tasks.token_classification.options import (
    Tags,
    TokenClassificationConfig,
    TokenClassificationData,
)
from bert_tf.tasks.token_classification.schemes import OUTSIDE, convert_tags
from bert_tf.tasks.token_classification.served import token_classification_servable
from bert_tf.training import results
from bert_tf.training.objective import RunData


class TokenClassification(Task):
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
    scheme of the tags in `labels`. If `labels` has "O" and labels without prefixes, it is "io",
    where neighboring words with one label are an entity. Otherwise, it is "iob2".

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
    config_class, data_class = TokenClassificationConfig, TokenClassificationData
    fit_options = ("class_weight",)
    make_servable = staticmethod(token_classification_servable)
    config: TokenClassificationConfig

    @staticmethod
    def make_model(config, dtype=None):
        return BertTokenClassifier(config.bert_config, len(config.tags.names), dtype)

    @classmethod
    def preset_config(cls, pretrained, trained, *, labels=None, scheme=None, **options):
        if scheme not in (None, "iob2", "iobes", "io", "none") or (scheme and labels is None):
            raise UserError(f"`scheme={scheme}`: expected iob2, iobes, io or none, with `labels`")
        if labels is not None:
            labels = label_names(labels)
            if OUTSIDE not in labels:
                scheme = scheme or "iob2"
            tags = options["tags"] = Tags.of_labels(labels, scheme)
            if OUTSIDE not in tags.names and tags.scheme != "none":
                raise UserError(f"`labels`: found tags such as {labels[0]} without {OUTSIDE}")
        if trained and options:
            name = next(iter(options)).replace("tags", "labels")
            checkpoint = pretrained.checkpoint
            raise UserError(f"`{name}` cannot be combined with the settings in {checkpoint}")
        if not trained and labels is None:
            metadata = read_metadata(pretrained.checkpoint)
            if "BertForTokenClassification" not in metadata.get("architectures", ()):
                found = f"{pretrained.checkpoint} has no token classifier"
                raise UserError(
                    f'`labels` must be given: {found}; for example labels=["PER", "ORG"]'
                )
            options["tags"] = Tags.of_labels(metadata.get("labels", ()))
        return options

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        source = reading.make_source(data_options)
        bad = {split: RowErrors(data_options.skip_bad_rows) for split in splits}
        sentences = {split: source.read(split, bad[split]) for split in splits}
        if trained:
            tags, scheme = trained.tags.of_data(sentences.get("dev", ())), data_options.learn_scheme
            if scheme not in (None, tags.scheme):
                raise UserError(f"`learn_scheme={scheme}`: expected {tags.scheme}, as in training")
        else:
            tags = reading.infer_run_tags(data_options, source, sentences.get("train"))
        if data_options.output_scheme and tags.scheme == "none":
            option = f"`output_scheme={data_options.output_scheme}`"
            raise UserError(f"{option}: the tags are not entities")
        for split in splits:
            sentences[split] = reading.valid_sentences(sentences[split], tags, bad[split])
            bad[split].report("invalid sentences skipped")
            if not sentences[split]:
                raise UserError(f"{bad[split].first}; the split has no valid sentences")
            if config.document_context and not any(x.leading_lines for x in sentences[split]):
                found = f"{sentences[split][0].where} has no -DOCSTART- lines"
                expected = "expected one at the start of each document"
                raise UserError(f"`document_context`: {found}, {expected}")
        config = config.with_model(pretrained, tags=tags)
        return RunData(sentences, config, data_options, source.files)

    def run_data(self, examples, class_weight=None):
        # `evaluate` and `predict` have only a "dev" split, `predict` without tags.
        tags = self.config.tags.of_data(examples.get("train") or examples["dev"])
        weights = class_weight
        if weights is not None:
            converted = itertools.chain(*map(tags.convert, examples["train"]))
            weights = Labels(tags.names).weights(weights, converted, "class_weight")
        config = dataclasses.replace(self.config, tags=tags)
        return RunData(examples, config, TokenClassificationData(), class_weights=weights)

    def features(self, data, split):
        return make_features(data.examples[split], self.tokenizer, data.config)

    @staticmethod
    def training_size(data, features=None):
        return features and features.counts["records"], "sequences"

    def objective(self, data):
        return TokenClassificationObjective(self.model, data.config, data.class_weights)

    def report(self, objective, data, predictions):
        return objective.report(predictions)

    def write_predictions(self, objective, data, predictions, split, folder):
        """Write test_predictions.txt: the columns of the test set and the predicted tags."""
        tags = data.config.tags
        scheme = data.options.output_scheme or tags.data_scheme
        predicted = [convert_tags(x, tags.scheme, scheme) for x in objective.tags(predictions)]
        path = results.result_file(folder, "test_predictions", split, ".txt")
        reading.write_columns(path, data.examples[split], predicted)
        console.info("wrote %s, tag scheme %s", path, scheme)

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
        texts = check_list(texts, "texts", "texts or lists of words")
        texts = [to_python(x, "replace") for x in texts]
        if not texts or isinstance(texts[0], str):
            texts = list(iterate_texts(texts, "texts"))
            self._warn_if_blank("texts", texts)
            return self._answers([{"text": x} for x in texts], batch_size)
        self._warn_if_random("the tags")
        examples = self.make_examples((texts,), self.arguments, "test")
        if not examples:
            return texts
        data = self.run_data({"dev": examples})
        objective = self.objective(data)
        size = FitConfig.batch_size if batch_size is None else batch_size
        tags = iter(objective.tags(self._predictions(objective, self._features(data, "dev"), size)))
        return [next(tags) if words else [] for words in texts]

    def make_examples(self, columns, names, split):
        """Return a list of `Sentence`."""
        table, _ = read_table(columns, names, ("tokens", "tags"), 1 if split == "test" else 2)
        sentences = reading.sentences_of_table(table, names, self.config, with_tags=split != "test")
        if not sentences and split != "test":
            raise UserError(f"`{names[0]}`: found no words")
        return sentences
