"""`pretrain`: pre-train from records, with the losses of the release."""

import dataclasses
import json
import os

import numpy as np
from keras import ops

from bert_tf import checkpoints, console, tokenization
from bert_tf.checkpoints.metadata import add_published_casing
from bert_tf.configs.model import BertConfig
from bert_tf.configs.pretraining import PretrainingConfig
from bert_tf.data import dynamic_masking, input_pipeline, records, tfrecord
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling import BertPretrainer
from bert_tf.tokenization.settings import resolve_settings
from bert_tf.tokenization.vocabulary import check_vocabulary, vocabulary_text
from bert_tf.training.engine import Engine
from bert_tf.training.objective import Objective, argmax
from bert_tf.training.results import write_eval_results
from bert_tf.training.run import Run

# Keeps the loss of a batch without predictions finite, as in the release.
_EPSILON = {"masked_lm": 1e-5, "next_sentence": 0.0}


class PretrainingObjective(Objective):
    """Trains a `BertPretrainer` on pre-training records; P is the number of prediction slots.

    Without `has_pairs`, text pairs have no labels, and the pooler and the next sentence head are
    not trained.
    """

    def __init__(self, config, dtype=None, has_pairs=True, model=None):
        self.model = model or BertPretrainer(config, dtype=dtype)
        self._heads = [*_EPSILON][: 1 + has_pairs]
        self.loss_names = tuple(f"{head}_loss" for head in self._heads)
        self.fit_metric_names = tuple(f"{head}_accuracy" for head in self._heads)
        names = (f"{head}_{x}" for head in self._heads for x in ("accuracy", "loss"))
        self.metric_names = (*names, "loss")

    def _labels(self, batch, factors):
        """Return (head, labels, weights) of each head.

        Labels and weights have the shape (B, P) or (B,); `factors` of the examples, (B,).
        """
        labels = [(batch["masked_lm_ids"], batch["masked_lm_weights"] * factors[:, None])]
        if "next_sentence" in self._heads:
            labels.append((ops.squeeze(batch["next_sentence_labels"], -1), factors))
        return [(head, *x) for head, x in zip(self._heads, labels, strict=True)]

    def denominators(self, batch):
        labels = self._labels(batch, self._is_real(batch))
        return {head: ops.sum(weights) for head, _, weights in labels}

    def losses(self, outputs, batch, denominators, training=True):
        losses = {}
        for head, labels, factors in self._labels(batch, self.example_weights(batch)):
            values = _cross_entropy(labels, outputs[f"{head}_logits"]) * factors
            losses[f"{head}_loss"] = ops.sum(values) / (denominators[head] + _EPSILON[head])
        return losses

    def fit_metrics(self, outputs, batch):
        return {
            f"{head}_accuracy": (_are_correct(labels, outputs[f"{head}_logits"]), weights)
            for head, labels, weights in self._labels(batch, self._is_real(batch))
        }

    def keras_targets(self, batch, denominators):
        labels = batch["masked_lm_ids"]
        # The model has both outputs in any case.
        targets = {"next_sentence_logits": ops.zeros_like(labels[:, 0])}
        factors = {"next_sentence_logits": ops.zeros(ops.shape(labels)[:1])}
        for head, labels, values in self._labels(batch, self.example_weights(batch)):
            targets[f"{head}_logits"] = labels
            factors[f"{head}_logits"] = values / (denominators[head] + _EPSILON[head])
        return targets, factors

    def predictions(self, outputs, batch):
        predictions = {}
        for head, labels, weights in self._labels(batch, self._is_real(batch)):
            logits = outputs[f"{head}_logits"]
            values = {
                f"{head}_loss": _cross_entropy(labels, logits) * weights,
                f"{head}_correct": _are_correct(labels, logits) * weights,
                f"{head}_weight": weights,
            }
            is_word = len(weights.shape) > 1
            predictions |= {name: ops.sum(x, -1) if is_word else x for name, x in values.items()}
        return predictions

    def metrics(self, predictions):
        sums = {name: np.sum(value, dtype="float64") for name, value in predictions.items()}
        results = {}
        for head in self._heads:
            count = sums[f"{head}_weight"] + _EPSILON[head]
            results[f"{head}_accuracy"] = sums[f"{head}_correct"] / count
            results[f"{head}_loss"] = sums[f"{head}_loss"] / count
        results["loss"] = sum(results[name] for name in self.loss_names)
        return results


def _cross_entropy(labels, logits):
    return ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)


def _are_correct(labels, logits):
    """Return 1 where the label has the largest logit, else 0, float32."""
    return ops.cast(ops.equal(argmax(logits), ops.cast(labels, "int32")), "float32")


def pretrain(config: PretrainingConfig, command_line: str | None = None) -> dict | None:
    """Pre-train and evaluate a model on records, as a `PretrainingConfig` specifies.

    A run resumes from its newest checkpoint in `config.output_dir`, where `run.json` records how it
    was made, including the `command_line` (None from Python).

    Returns:
      Dict of metrics, or None without `do_eval`.

    Raises:
      UserError: if an option or a file is not valid.
    """
    pretrained = checkpoints.resolve(config.model, needs=["bert_config_file"])
    rate = config.train.attention_probs_dropout_prob
    pretrained = dataclasses.replace(pretrained, attention_probs_dropout_prob=rate)
    config.check_model(pretrained.bert_config)
    *inputs, paths = make_inputs(config, pretrained)
    engine = Engine.make(config.device)
    run = PretrainingRun(config, inputs, paths, engine, pretrained, command_line)
    return run.run().get("eval")


class PretrainingRun(Run):
    """A run of `pretrain`."""

    locks_evaluation = False  # another process may evaluate during training

    def __init__(self, config, inputs, paths, engine, pretrained, command_line):
        """Create a run with the training and the evaluation input, of files with these paths."""
        super().__init__(config, pretrained, engine, paths, command_line)
        self.train, self.evaluation = inputs
        self._new_files = {}

    def check_folder(self):
        if self.config.do_train:
            self._new_files = _new_model_files(self.folder, self.pretrained)

    def make_objective(self):
        config, bert_config = self.config, self.pretrained.bert_config
        return PretrainingObjective(bert_config, config.train.dtype_policy, config.has_pairs)

    def prepare(self):
        self.engine.chief_first(lambda: files.write_texts(self._new_files))

    def training_inputs(self):
        if self.config.train.best_metric and self.evaluation.paths == self.train.paths:
            console.warning("`best_metric` without `eval_file` selects on the training records")
        return self.train, self.config.num_train_steps, self.evaluation, None

    def evaluate_and_predict(self):
        if not self.config.do_eval:
            return {}
        results = self.loop.evaluate(self.evaluation)
        path = os.path.join(self.folder, "eval_results.txt")
        self.engine.chief_first(lambda: write_eval_results(path, results))
        return {"eval": results}


def make_inputs(config, pretrained):
    """Return the training input, the evaluation input and the paths of the files of a run.

    Without an `eval_file`, the evaluation reads the training files.

    Raises:
      UserError: if the files do not suit the streams or the schema.
    """
    train, count, masking = config.train, config.num_input_streams, None
    schema = records.pretraining_schema(config.has_pairs, not config.dynamic_masking)
    paths = files.expand(config.input_file, "input_file")
    eval_paths = files.expand(config.eval_file, "eval_file") if config.eval_file else []
    all_sizes = tfrecord.sizes([*paths, *eval_paths])
    sizes, eval_sizes = all_sizes[: len(paths)], all_sizes[len(paths) :]
    if config.dynamic_masking:
        if not pretrained.vocab_file:
            raise UserError("`dynamic_masking` requires `vocab_file`")
        vocab, probability = _load_vocab(pretrained), config.masked_lm_prob
        masking = dynamic_masking.DynamicMasking(vocab, config.lengths, probability, train.seed)
    limits = records.limits(schema, pretrained.bert_config, config.lengths)
    options = {"limits": limits, "masking": masking}
    if len(sizes) % count:
        raise UserError(
            f"`num_input_streams={count}`: expected a divisor of the {len(sizes)} input files"
        )
    if count > 1 and not all(sum(sizes[i::count]) for i in range(count)):
        raise UserError(f"`num_input_streams={count}`: all files of a stream are empty")
    for checked, their_sizes in ((paths, sizes), (eval_paths, eval_sizes)):
        if checked:
            records.check(checked, schema, config.lengths, config.dynamic_masking, their_sizes)
    size, seed = train.train_batch_size, train.seed
    training = input_pipeline.TrainingInput(
        paths, schema, config.lengths, size, seed, sizes, num_input_streams=count, **options
    )
    size, steps = train.eval_batch_size, config.max_eval_steps
    evaluation = input_pipeline.EvaluationInput(
        eval_paths or paths, schema, config.lengths, size, steps, **options
    )
    return training, evaluation, [*paths, *eval_paths]


def _load_vocab(pretrained):
    """Return the vocabulary; raise UserError if it does not fit the model."""
    vocab_file, config_file = pretrained.vocab_file, pretrained.config_file
    vocab = tokenization.load_vocab(vocab_file)
    check_vocabulary(vocab, pretrained.bert_config, vocab_file, config_file=config_file)
    return vocab


def _new_model_files(folder, pretrained):
    """Return missing model files as {path: text}; raise UserError if existing ones differ."""
    new = {}

    def add(name, text, argument=None, read=files.read_text):
        path = os.path.join(folder, name)
        if not files.exists(path):
            new[path] = text
        elif argument and read(path) != text:
            raise UserError(
                f"`{argument}`: found a run with a different {name} in {folder}; continue it with "
                "the same file, or use another `output_dir`"
            )

    def read_config(path):
        return BertConfig.from_json_file(path).to_json_string()

    text = pretrained.bert_config.to_json_string()
    add(files.CONFIG, text, "bert_config_file", read_config)
    if pretrained.vocab_file:
        _load_vocab(pretrained)
        add(files.VOCABULARY, vocabulary_text(pretrained.vocab_file), "vocab_file")
        settings = checkpoints.read_settings(pretrained.vocab_file)
        add_published_casing(settings, pretrained.vocab_file)
        if settings:
            text = json.dumps(resolve_settings(**settings), indent=2) + "\n"
            add(files.TOKENIZER_CONFIG, text)
    return new
