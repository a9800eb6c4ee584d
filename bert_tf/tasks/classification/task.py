"""`TextClassifier`: fine-tuning and prediction of labels or scores, on strings."""

import dataclasses
import itertools
import operator
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

import keras
import numpy as np

from bert_tf import checkpoints, console
from bert_tf.checkpoints import read_metadata
from bert_tf.checkpoints.warm_start import weight_shapes
from bert_tf.configs.base import check_value
from bert_tf.configs.task import base_split, check_labels
from bert_tf.configs.task_names import PROBLEM_TYPES
from bert_tf.data.columns import ANY_LABEL, ANY_TEXT, ID, TEXT_B, Layout
from bert_tf.data.containers import (
    check_numbers,
    iterate_texts,
    label_names,
    ordered_columns,
    read_table,
)
from bert_tf.data.features import log_long_texts
from bert_tf.data.labels import Labels
from bert_tf.errors import UserError
from bert_tf.io.json_files import Limits, Positive
from bert_tf.modeling import BertClassifier
from bert_tf.tasks.base import Task
from bert_tf.tasks.classification import source
from bert_tf.tasks.classification.examples import (
    examples_of,
    length_limits,
    make_features,
    warn_of_num_texts,
)
from bert_tf.tasks.classification.glue import CUSTOM_METRICS, custom_dataset
from bert_tf.tasks.classification.objective import OBJECTIVES
from bert_tf.tasks.classification.options import ClassificationConfig, ClassificationData, TrainedOn
from bert_tf.tasks.classification.served import classification_servable
from bert_tf.training import results
from bert_tf.training.objective import RunData

# Above this standard deviation of the scores, a regression learns slowly.
_MAX_DEVIATION = 10.0

# Column names of the arguments of `fit`.
_COLUMNS = (("text_a", "text_b"), "label")


class TextClassifier(Task):
    """Classifies or scores texts or pairs of texts.

    >>> classifier = bert_tf.TextClassifier.from_preset(
    ...     "uncased_L-4_H-256_A-4", labels=["negative", "positive"]
    ... )
    >>> texts, labels = ["A delight.", "Too long."], ["positive", "negative"]
    >>> history = classifier.fit(texts, labels, epochs=1, verbose=0)
    >>> answer, = classifier.predict(["A delight."])
    >>> sorted(answer), sorted(answer["probabilities"])
    (['label', 'probabilities'], ['negative', 'positive'])
    >>> classifier.save_to_preset("sentiment")
    >>> classifier = bert_tf.TextClassifier.from_preset("sentiment")

    The answer is one label, any number of labels or a score: `from_preset` takes the `task_type`
    "classification", "multi_label" or "regression". Without it and without a saved type, a head
    with one output is a regression, others are classifications. `labels` are in the order of their
    ids; `num_classes`, instead of `labels`, names them "0", "1" and so on. `model` is a
    `BertClassifier`, `config` a `ClassificationConfig`.

    Data of `fit` and `evaluate`:
      texts: a list of texts or of pairs (text_a, text_b), or a tuple of two lists;
        a table of texts and labels, with columns such as "text" and "label";
        a list of `InputExample`, with their labels; or
        a finite `tf.data.Dataset` or `keras.utils.PyDataset` of batches (texts, labels) or
        (texts, labels, sample weights), which is read once.
      labels: a label for each text: its name, its index or a row of probabilities. For
        "multi_label" a list of labels or a row of 0 and 1; for "regression" a number. None if
        `texts` contains the labels.
      sample_weight: loss weight of each text.

    Options of `fit`:
      class_weight: dict from labels to the loss weights of their texts, 1 if missing; weights in
        the order of the labels; or "balanced", which gives each label the same total weight.
    """

    name = "classification"
    config_class, data_class = ClassificationConfig, ClassificationData
    arguments = ("texts", "labels", "sample_weight")
    fit_options = ("class_weight",)
    # By the task type.
    objectives: ClassVar = OBJECTIVES
    make_servable = staticmethod(classification_servable)
    config: ClassificationConfig

    @property
    def activation(self):
        return self.objectives[self.config.task_type].activation

    @staticmethod
    def make_model(config, dtype=None):
        return BertClassifier(
            config.bert_config, config.num_outputs, dtype,
            num_numeric_features=len(config.numeric_inputs),
            window_pooling=config.windows and config.window_pooling,
        )  # fmt: skip

    @classmethod
    def preset_config(
        cls, pretrained, trained, *, labels=None, num_classes=None, num_texts=None, **options
    ):
        checkpoint = pretrained.checkpoint
        if "numeric_as" in options and not (trained and trained.numeric_features):
            raise UserError("`numeric_as` requires `numeric_columns`")
        if num_classes is not None:
            if labels is not None:
                raise UserError("`labels` cannot be combined with `num_classes`")
            if num_classes < 2:
                other = 'at least 2; for a score, use `task_type="regression"` without it'
                raise UserError(f"`num_classes={num_classes}`: expected {other}")
            labels = range(num_classes)
        if not options.get("task_type"):
            options["task_type"] = trained.task_type if trained else _recorded_task_type(checkpoint)
        if options["task_type"] not in cls.objectives:
            expected = " or ".join(cls.objectives)
            raise UserError(f"`task_type={options['task_type']}`: expected {expected}")
        labels = _choose_labels(labels, options["task_type"], trained, checkpoint)
        if num_texts is None:
            num_texts = trained.num_texts if trained else 1
        return {**options, "num_texts": num_texts, "labels": labels}

    @classmethod
    def read_data(cls, data_options, config, pretrained, splits, trained=None):
        data_options, restored = source.with_restored_columns(data_options, trained)
        reader = source.make_source(data_options, config, trained, restored)
        dataset, dev_split = reader.dataset, source.find_dev_split(data_options, trained)
        examples, labels, numeric_features = source.read_splits(
            reader, splits, trained, data_options.skip_bad_rows, dev_split
        )
        if dev_split and "dev" in examples:
            dev_split = source.with_digest(dev_split, examples["dev"])
        examples = {split: x for split, x in examples.items() if base_split(split) in splits}
        has_pairs = any(x.text_b is not None for x in itertools.chain(*examples.values()))
        trained_on = TrainedOn(source.columns_to_save(data_options, reader), dev_split)
        config = config.with_model(
            pretrained,
            labels=labels,
            task_type=dataset.task_type,
            numeric_features=numeric_features,
            numeric_as=dataset.layout.numeric_as if numeric_features else "vector",
            num_texts=2 if has_pairs else 1,
            trained_on=trained.trained_on if trained else trained_on,
        )
        warn_of_num_texts("the data", config.num_texts, (trained or config).num_texts)
        choice = data_options.class_weights or None
        weights = _class_weights(choice, config, examples, "class_weights")
        return RunData(examples, config, data_options, reader.files, weights, dataset.metrics)

    def features(self, data, split):
        return make_features(data.examples[split], self.tokenizer, data.config)

    def objective(self, data):
        return self.objectives[data.config.task_type](self.model, data.metrics, data.class_weights)

    def start_training(self, data):
        """Set the bias of a new regression head to the mean of the training scores."""
        is_score = self.config.task_type == "regression"
        bias = is_score and checkpoints.names.weights(self.model)["output_bias"]
        if not is_score or bias.numpy() != 0:  # a trained head
            return
        scores = np.array([example.label for example in data.examples["train"]], "float64")
        bias.assign([scores.mean()])
        if scores.std() > _MAX_DEVIATION:
            console.warning(
                "the training scores have a standard deviation of %.4g; a model learns faster if "
                "they are scaled to about 1",
                scores.std(),
            )

    def report(self, objective, data, predictions):
        return results.report(*objective.labels_and_predicted(predictions), self.config.labels)

    def result_columns(self, objective, data, predictions, split):
        labels, separator = self.config.labels, getattr(data.options, "label_separator", ",")
        predicted = results.label_texts(objective.decide(predictions), labels, separator)
        return predicted, labels, predictions[objective.answer_name]

    def predict(
        self,
        texts: Any,
        batch_size: int | None = None,
        top_k: int | None = None,
        threshold: float | None = None,
    ) -> Any:
        """Predict labels or scores.

        Args:
          texts: a text, or texts as in `fit`; the labels of a dataset are ignored.
          batch_size: number of texts per step; None for 32 (long texts) to 256 (short texts).
          top_k: number of probabilities in an answer, the highest first; None for all, in the order
            of the labels.
          threshold: the probability from which "multi_label" predicts a label, 0.5 by default.

        Returns:
          A list of dicts, one per text, or a single dict if `texts` is a str: "label", or "labels"
          for "multi_label", and "probabilities" by label; "score" and "logits" for "regression".

        Raises:
          UserError: if an argument is invalid.
        """
        if isinstance(texts, str):
            return self.predict([texts], batch_size, top_k, threshold)[0]
        check_value("top_k", top_k, Positive | None)
        check_value("threshold", threshold, Annotated[float | None, Limits(0, 1)])
        if top_k is not None and not self.config.labels:
            raise UserError("`top_k` cannot be combined with `task_type=regression`")
        if threshold is not None and self.config.task_type != "multi_label":
            raise UserError("`threshold` requires `task_type=multi_label`")
        answers = self._predict(texts, batch_size)
        for answer in answers:
            if threshold is not None:
                likely = answer["probabilities"].items()
                answer["labels"] = [name for name, x in likely if x >= threshold]
            if top_k is not None:
                answer["probabilities"] = _best(answer["probabilities"].items(), top_k)
        return answers

    def _predict(self, texts, batch_size=None, output=None):
        """Return the answer, or an output of the model, for each text."""
        if not operator.length_hint(texts, 1):
            return []
        examples = self.make_examples((texts,), self.arguments, "test")
        texts = [list(x.texts().values()) for x in examples]
        log_long_texts("texts", texts, self.tokenizer, self.config, **length_limits(self.config))
        # With an empty second text, a model of pairs gives the same answer as for a single text.
        num_texts = self._num_texts(examples)
        if num_texts == 2:
            examples = [dataclasses.replace(x, text_b=x.text_b or "") for x in examples]
        rows = [{**x.texts(), "numbers": list(x.numbers)} for x in examples]
        return self._answers(rows, batch_size, output=output, num_texts=num_texts)

    def predict_proba(self, texts: Any, batch_size: int | None = None) -> np.ndarray:
        """Return the probabilities of the labels, float32 (N, L), or scores (N,), for scikit-learn.

        A single str has no dimension N.

        >>> from sklearn.metrics import roc_auc_score
        >>> classifier = bert_tf.TextClassifier.from_preset("sentiment")
        >>> probabilities = classifier.predict_proba(["A delight.", "Too long."])
        >>> area = roc_auc_score([1, 0], probabilities[:, 1])
        """
        if isinstance(texts, str):
            return self.predict_proba([texts], batch_size)[0]
        labels = self.config.labels
        values = self._predict(texts, batch_size, "probabilities" if labels else "score")
        return np.array(values, "float32").reshape((-1, len(labels)) if labels else (-1,))

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        label: str | None = None,
    ) -> list[dict]:
        """Rank documents by the score of a cross-encoder, a model of pairs.

        Args:
          query: the first text of each pair.
          documents: the second texts.
          top_k: number of documents to return; None for all.
          label: the label whose probability is the score; None for "1" or "yes", and for a model
            with one output.

        Returns:
          For each document a dict with its index, "corpus_id", and its "score", best first, as
          `CrossEncoder.rank` of sentence-transformers, which applies a sigmoid to a single output.

        Raises:
          UserError: if the model does not have the label, or a text is invalid.
        """
        check_value("top_k", top_k, Positive | None)
        labels, documents = self.config.labels, list(iterate_texts(documents, "documents"))
        if label and not labels:
            raise UserError("`label`: the model has one output, without labels")
        label = label or next((x for x in ("1", "yes") if x in labels), None)
        if labels and label not in labels:
            names = ", ".join(labels)
            raise UserError(f"`label`: found {label or 'none'}, expected one of {names}")
        answers = self.predict([(query, x) for x in documents])
        scores = [float(x["probabilities"][label] if labels else x["score"]) for x in answers]
        ranked = [{"corpus_id": i, "score": score} for i, score in enumerate(scores)]
        return sorted(ranked, key=lambda x: -x["score"])[:top_k]

    def zero_shot(
        self,
        texts: Any,
        candidate_labels: Any,
        hypothesis_template: str = "This example is {}.",
        multi_label: bool = False,
    ) -> Any:
        """Classify texts with new labels, by a model of natural language inference.

        Args:
          texts: a text, or an iterable of texts.
          candidate_labels: the labels, in a list or separated by commas.
          hypothesis_template: the hypothesis, with {} for the label.
          multi_label: whether several labels may be true. If False, the probabilities sum to 1.

        Returns:
          As `predict`, with "label" and "probabilities", the highest first, as in the pipeline of
          transformers.

        Raises:
          UserError: if the model has no label "entailment", or an argument is invalid.
        """
        if isinstance(texts, str):
            return self.zero_shot([texts], candidate_labels, hypothesis_template, multi_label)[0]
        names = [name.lower()[:6] for name in self.config.labels]
        if "entail" not in names:
            found = ", ".join(self.config.labels) or "a score"
            raise UserError(f"`zero_shot` requires the label entailment, found {found}")
        if "{}" not in hypothesis_template:
            raise UserError(f"`hypothesis_template`: found no {{}} in {hypothesis_template!r}")
        if isinstance(candidate_labels, str):
            candidate_labels = filter(None, map(str.strip, candidate_labels.split(",")))
        labels = list(iterate_texts(candidate_labels, "candidate_labels"))
        check_labels(labels, "candidate_labels")
        true = names.index("entail")
        false = names.index("contra") if "contra" in names else int(true == 0)
        hypotheses = [hypothesis_template.replace("{}", label) for label in labels]
        pairs = list(itertools.product(iterate_texts(texts, "texts"), hypotheses))
        logits = np.array(self._predict(pairs, output="logits"))
        logits = logits.reshape(-1, len(labels), len(names))
        axis = -1 if multi_label or len(labels) == 1 else 1
        rows = keras.ops.softmax(logits[..., [false, true]], axis)[..., 1]
        best = [_best(zip(labels, row.tolist(), strict=True)) for row in np.asarray(rows)]
        return [{"label": next(iter(x)), "probabilities": x} for x in best]

    def make_examples(self, columns, names, split):
        texts, labels, weights = (*columns, None, None)[:3]
        config = self.config
        if config.labels:
            labels = ordered_columns(labels, config.labels, names[1])
        roles = (ANY_TEXT, TEXT_B), ANY_LABEL, (*ID, *map(str.lower, config.numeric_names))
        columns = texts, labels, weights
        required = 1 if split == "test" else 2
        table, (weights,) = read_table(columns, names, _COLUMNS, required, *roles)
        layout = Layout(numbers=config.numeric_names, numeric_as=config.numeric_as)
        dataset = custom_dataset(config.task_type, config.labels or None, layout)
        examples, _ = examples_of(table, dataset, split)
        if weights is None:
            return examples
        weights = check_numbers(weights, names[2], len(examples))
        return [dataclasses.replace(x, weight=y) for x, y in zip(examples, weights, strict=True)]

    def run_data(self, examples, class_weight=None):
        num_texts = self._num_texts([*itertools.chain(*examples.values())])
        config = dataclasses.replace(self.config, trained_on=TrainedOn(), num_texts=num_texts)
        weights = _class_weights(class_weight, config, examples, "class_weight")
        metrics = CUSTOM_METRICS[config.task_type]
        options = ClassificationData()
        return RunData(examples, config, options, class_weights=weights, metrics=metrics)

    def _num_texts(self, examples):
        if all(x.text_b is None for x in examples):
            warn_of_num_texts("`texts`", 1, self.config.num_texts)
        if not any(x.text_b for x in examples):
            return self.config.num_texts
        self.config.bert_config.check_num_texts(2)
        return 2


def _class_weights(weights, config, examples, argument):
    """Return the weights of the labels in the training loss, None if they are equal."""
    if weights is None or "train" not in examples:
        return None
    labels = Labels(config.labels, config.task_type)
    return labels.weights(weights, [x.label for x in examples["train"]], argument)


def _best(probabilities, count=None):
    """Return the pairs of labels and the highest probabilities as a dict, the highest first."""
    return dict(sorted(probabilities, key=lambda x: -x[1])[:count])


def _recorded_task_type(checkpoint):
    """Return the task type of a Hugging Face model by the rules of transformers."""
    metadata = read_metadata(checkpoint)
    task_types = {problem_type: name for name, problem_type in PROBLEM_TYPES.items()}
    if recorded := task_types.get(metadata.get("problem_type")):
        return recorded
    is_choice = "BertForMultipleChoice" in (metadata.get("architectures") or ())
    return "regression" if _num_outputs(checkpoint) == 1 and not is_choice else "classification"


def _num_outputs(checkpoint):
    return weight_shapes(checkpoint).get("output_weights", (0,))[0]


def _choose_labels(labels, task_type, trained, checkpoint):
    """Return the given labels, else the labels saved with the model, as a tuple of str."""
    if task_type == "regression":
        if labels is not None:
            raise UserError("`labels` cannot be combined with `task_type=regression`")
        return ()
    if labels is not None:
        labels = label_names(labels)
    elif trained:
        labels = trained.labels
    else:
        # Labels without a head are meaningless: Hugging Face configs have two by default.
        id2label = read_metadata(checkpoint).get("id2label") or {}
        ids = list(map(str, range(_num_outputs(checkpoint))))
        if ids and not id2label.keys() <= {*ids}:
            found = f"found the ids {', '.join(id2label)} in id2label, expected 0 to {ids[-1]}"
            raise UserError(f"{checkpoint}: {found} as in the weights; `labels` overrides them")
        labels = [id2label.get(i, f"LABEL_{i}") for i in ids]
    if not labels:
        problem = f"`labels` must be given: {checkpoint} has no classifier head"
        advice = 'labels=sorted(set(df["label"])), or `task_type=regression` for scores'
        raise UserError(f"{problem}; for example {advice}")
    if task_type == "classification" and len(labels) < 2:
        raise UserError(f"`labels`: found {', '.join(labels)}, expected at least two labels")
    return check_labels(labels)
