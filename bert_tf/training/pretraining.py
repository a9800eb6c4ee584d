"""`pretrain`: pre-train from records, with the losses of the release."""

import functools
import json
import os

import numpy as np
from keras import ops

from bert_tf import checkpoints, console, tokenization
from bert_tf.checkpoints.metadata import add_published_casing
from bert_tf.configs.model import BertConfig
from bert_tf.configs.pretraining import PretrainingConfig
from bert_tf.data import dynamic_masking, input_pipeline, record_checks, records, tfrecord
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.modeling import BertPretrainer
from bert_tf.tokenization.settings import resolve_settings
from bert_tf.tokenization.vocabulary import check_vocabulary, vocabulary_text
from bert_tf.training.loop import Loop
from bert_tf.training.results import write_eval_results
from bert_tf.training.run import Run
from bert_tf.training.strategy import make_strategy
from bert_tf.training.task import Task, argmax


class PretrainingTask(Task):
    """Trains a `BertPretrainer` on pre-training records; P is the number of prediction slots.

    Without `has_pairs`, text pairs have no labels, and the pooler and the next sentence head are
    not trained.
    """

    loss_names = ("masked_lm_loss", "next_sentence_loss")
    metric_names = (
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
        "loss",
    )

    fit_metric_names = ("masked_lm_accuracy", "next_sentence_accuracy")

    def __init__(self, config, dtype=None, has_pairs=True, model=None):
        self.model = model or BertPretrainer(config, dtype=dtype)
        self._has_pairs = has_pairs
        if not has_pairs:
            self.loss_names = ("masked_lm_loss",)
            self.metric_names = ("masked_lm_accuracy", "masked_lm_loss", "loss")
            self.fit_metric_names = ("masked_lm_accuracy",)

    def loss_weights(self, batch):
        weights = {"masked_lm": ops.sum(self._masks(batch))}
        if self._has_pairs:
            weights["next_sentence"] = ops.sum(self._is_real(batch))
        return weights

    def _masks(self, batch):
        return batch["masked_lm_weights"] * self._is_real(batch)[:, None]

    def losses(self, outputs, batch, weights, training=True):
        factors = self.example_weights(batch)
        masked_lm = self._masked_lm_losses(outputs, batch) * factors[:, None]
        # The release's 1e-5 keeps the loss of a batch without predictions finite.
        losses = {"masked_lm_loss": ops.sum(masked_lm) / (weights["masked_lm"] + 1e-5)}
        if self._has_pairs:
            next_sentence = ops.sum(self._next_sentence_losses(outputs, batch) * factors)
            losses["next_sentence_loss"] = next_sentence / weights["next_sentence"]
        return losses

    def _masked_lm_losses(self, outputs, batch):
        masked_lm = ops.sparse_categorical_crossentropy(
            batch["masked_lm_ids"], outputs["masked_lm_logits"], from_logits=True
        )
        return masked_lm * batch["masked_lm_weights"]

    def _next_sentence_losses(self, outputs, batch):
        labels = ops.squeeze(batch["next_sentence_labels"], -1)
        return ops.sparse_categorical_crossentropy(
            labels, outputs["next_sentence_logits"], from_logits=True
        )

    def _are_correct(self, outputs, batch):
        """Return 1 for each correct word, float32 (B, P), and next sentence, float32 (B,)."""
        labels = [batch["masked_lm_ids"]]
        logits = [outputs["masked_lm_logits"]]
        if self._has_pairs:
            labels.append(ops.squeeze(batch["next_sentence_labels"], -1))
            logits.append(outputs["next_sentence_logits"])
        return [
            ops.cast(ops.equal(argmax(x), ops.cast(y, "int32")), "float32")
            for x, y in zip(logits, labels, strict=True)
        ]

    def fit_metrics(self, outputs, batch):
        weights = (self._masks(batch), self._is_real(batch))
        values = zip(self._are_correct(outputs, batch), weights, strict=False)
        return dict(zip(self.fit_metric_names, values, strict=True))

    def keras_targets(self, batch, weights):
        factors = self.example_weights(batch)
        masked_lm = batch["masked_lm_weights"] * factors[:, None] / (weights["masked_lm"] + 1e-5)
        next_sentence, labels = 0.0 * factors, ops.zeros_like(batch["masked_lm_ids"][:, 0])
        if self._has_pairs:
            labels = ops.squeeze(batch["next_sentence_labels"], -1)
            next_sentence = factors / weights["next_sentence"]
        return (
            {"masked_lm_logits": batch["masked_lm_ids"], "next_sentence_logits": labels},
            {"masked_lm_logits": masked_lm, "next_sentence_logits": next_sentence},
        )

    def predictions(self, outputs, batch):
        masked_lm = self._masked_lm_losses(outputs, batch)
        is_correct, *is_next_correct = self._are_correct(outputs, batch)
        predictions = {
            "masked_lm_loss": ops.sum(masked_lm, -1),
            "masked_lm_correct": ops.sum(is_correct * batch["masked_lm_weights"], -1),
            "masked_lm_weight": ops.sum(batch["masked_lm_weights"], -1),
        }
        if self._has_pairs:
            predictions["next_sentence_loss"] = self._next_sentence_losses(outputs, batch)
            (predictions["next_sentence_correct"],) = is_next_correct
        return predictions

    def metrics(self, predictions):
        sums = {name: np.sum(value, dtype="float64") for name, value in predictions.items()}
        words = sums["masked_lm_weight"] + 1e-5
        results = {
            "masked_lm_accuracy": sums["masked_lm_correct"] / words,
            "masked_lm_loss": sums["masked_lm_loss"] / words,
        }
        if self._has_pairs:
            examples = len(predictions["next_sentence_loss"])
            results["next_sentence_accuracy"] = sums["next_sentence_correct"] / examples
            results["next_sentence_loss"] = sums["next_sentence_loss"] / examples
        results["loss"] = sum(results[name] for name in self.loss_names)
        return results


def pretrain(config: PretrainingConfig, command_line: str | None = None) -> dict | None:
    """Pre-train and evaluate a model on records, as a `PretrainingConfig` specifies.

    A run resumes from its newest checkpoint in `config.output_dir`, where `run.json` records how it
    was made, including the `command_line` (None from Python).

    Returns:
      Dict of metrics, or None without `do_eval`.

    Raises:
      UserError: if an option or a file is not valid.
    """
    model = checkpoints.resolve(config.model, needs=["bert_config_file"])
    config.check_model(model.bert_config)
    data = PretrainingData(config, model)
    data.check()
    strategy = make_strategy(config.device)
    return Pretraining(config, data, strategy, model, command_line).run().get("eval")


class Pretraining(Run):
    """A run of `pretrain`."""

    locks_evaluation = False  # another process may evaluate during training

    def __init__(self, config, data, strategy, model, command_line):
        super().__init__(config, model, strategy, data.paths, command_line)
        self.data = data
        self.check_records = functools.partial(data.check, num_checked=None)
        self._new_files = {}

    def check_folder(self):
        if self.config.do_train:
            self._new_files = _new_model_files(self.folder, self.model)

    def make_loop(self):
        arguments = self.model.bert_config, self.config.train.dtype_policy, self.config.has_pairs
        make_task = functools.partial(PretrainingTask, *arguments)
        return Loop(make_task, self.strategy, self.folder, self.model.checkpoint)

    def prepare(self):
        self.workers.chief_first(lambda: files.write_texts(self._new_files))

    def train(self):
        data = self.data
        if self.config.train.best_metric and data.evaluation.paths == data.train.paths:
            console.warning(
                "`best_metric` without `eval_file` selects the best checkpoint on the training "
                "records"
            )
        self.train_on(data.train, self.config.num_train_steps, data.evaluation)

    def evaluate_and_predict(self):
        if not self.config.do_eval:
            return {}
        results = self.loop.evaluate(self.data.evaluation)
        path = os.path.join(self.folder, "eval_results.txt")
        self.workers.chief_first(lambda: write_eval_results(path, results))
        return {"eval": results}


class PretrainingData:
    """The records of a run; `evaluation` reads the training files without an `eval_file`."""

    def __init__(self, config, model):
        train, self._config = config.train, config
        schema = records.pretraining_schema(config.has_pairs, not config.dynamic_masking)
        paths = files.expand(config.input_file, "input_file")
        eval_paths = files.expand(config.eval_file, "eval_file") if config.eval_file else []
        self.paths = [*paths, *eval_paths]
        self._sizes = tfrecord.sizes(self.paths)
        self.train = input_pipeline.TrainingInput(
            paths, schema, config.lengths, train.train_batch_size, train.seed,
            limits=records.limits(schema, model.bert_config, config.lengths),
            masking=_make_masking(config, model), sizes=self._sizes[: len(paths)],
            num_input_streams=config.num_input_streams,
        )  # fmt: skip
        self.evaluation = input_pipeline.EvaluationInput(
            eval_paths or paths, schema, config.lengths, train.eval_batch_size,
            config.max_eval_steps, limits=self.train.limits, masking=self.train.masking,
        )  # fmt: skip

    def check(self, num_checked=record_checks.NUM_CHECKED):
        """Check `num_checked` of the files, None for all; see `record_checks.check`."""
        count, sizes = self.train.num_input_streams, self.train.sizes
        if len(sizes) % count:
            raise UserError(
                f"`num_input_streams={count}`: found {len(sizes)} input files, expected a multiple "
                f"of {count}"
            )
        if count > 1 and not all(sum(sizes[i::count]) for i in range(count)):
            raise UserError(f"`num_input_streams={count}`: all files of a stream are empty")
        if self._config.dynamic_masking:
            num_checked = None  # reading does not detect records that are already masked
        count = len(self.train.paths)
        for part in (slice(count), slice(count, None)):
            if paths := self.paths[part]:
                record_checks.check(
                    paths, self.train.schema, self.train.lengths, self._config.dynamic_masking,
                    self._sizes[part], num_checked,
                )  # fmt: skip


def _make_masking(config, model):
    if not config.dynamic_masking:
        return None
    if not model.vocab_file:
        raise UserError("`dynamic_masking` requires `vocab_file`")
    vocab, probability = _load_vocab(model), config.masked_lm_prob
    return dynamic_masking.DynamicMasking(vocab, config.lengths, probability, config.train.seed)


def _load_vocab(model):
    """Return the vocabulary; UserError if it does not fit the model."""
    vocab = tokenization.load_vocab(model.vocab_file)
    check_vocabulary(vocab, model.bert_config, model.vocab_file, config_file=model.config)
    return vocab


def _new_model_files(folder, model):
    """Return missing model files as {path: text}; UserError if existing ones differ."""
    bert_config, texts, exists = model.bert_config, {}, files.exists
    path = os.path.join(folder, files.CONFIG)
    if not exists(path):
        texts[path] = bert_config.to_json_string()
    elif (stored := BertConfig.from_json_file(path)) != bert_config:
        old, new = stored.to_dict(), bert_config.to_dict()
        names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
        raise UserError(
            f"`bert_config_file`: found a run with a different {', '.join(names)} in {folder}; "
            "continue it with the same config, or use another `output_dir`"
        )
    if not model.vocab_file:
        return texts
    _load_vocab(model)
    path, text = os.path.join(folder, files.VOCABULARY), vocabulary_text(model.vocab_file)
    if not exists(path):
        texts[path] = text
    elif files.read_text(path) != text:
        raise UserError(
            f"`vocab_file`: found a run with a different vocabulary in {folder}; continue it with "
            "the same file, or use another `output_dir`"
        )
    settings = checkpoints.read_settings(model.vocab_file)
    add_published_casing(settings, model.vocab_file)
    settings = settings and resolve_settings(**settings)
    path = os.path.join(folder, files.TOKENIZER_CONFIG)
    if settings and not exists(path):
        texts[path] = json.dumps(settings, indent=2) + "\n"
    return texts
