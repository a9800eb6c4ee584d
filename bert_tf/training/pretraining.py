"""`pretrain`: pre-train from records, as run_pretraining.py does."""

import contextlib
import dataclasses
import functools
import json
import os

import tensorflow as tf

from bert_tf import checkpoints, console, tokenization
from bert_tf.checkpoints.metadata import add_published_casing
from bert_tf.configs.model import BertConfig
from bert_tf.configs.pretraining import PretrainingConfig
from bert_tf.configs.task import check_length
from bert_tf.data import dynamic_masking, input_pipeline, record_checks, record_files, records
from bert_tf.errors import UserError
from bert_tf.io import files
from bert_tf.optimization import make_optimizer
from bert_tf.tokenization.settings import resolve_settings
from bert_tf.tokenization.vocabulary import check_vocabulary, vocabulary_text
from bert_tf.training.checkpointing import check_metric
from bert_tf.training.loop import exclusive_directory
from bert_tf.training.pretraining_task import PretrainingTask
from bert_tf.training.results import write_eval_results
from bert_tf.training.run_record import RunRecord
from bert_tf.training.strategy import Workers, check_batch_sizes, make_strategy, set_seed
from bert_tf.training.trainer import Trainer


def pretrain(config: PretrainingConfig, command_line: str | None = None) -> dict | None:
    """Pre-train and evaluate a model on records, as a `PretrainingConfig` specifies.

    A run resumes from its newest checkpoint in `config.output_dir`, where `run.json` records how it
    was made, including the `command_line` (None from Python).

    Returns:
      Dict of metrics, or None without `do_eval`.

    Raises:
      UserError: if an option or a file is not valid.
    """
    config.check()
    files.check_all_reachable(config)
    model = checkpoints.resolve(config.model, needs=["bert_config_file"])
    bert_config, given = model.bert_config, config
    paths = {
        "init_checkpoint": model.checkpoint,
        "bert_config_file": model.config,
        "vocab_file": model.vocab_file,
    }
    config = dataclasses.replace(config, model=dataclasses.replace(config.model, **paths))
    check_length(config.max_seq_length, bert_config)
    config.train.check_frozen_layers(bert_config)
    data = PretrainingData(config, bert_config)
    data.check()
    record = RunRecord(given, data.paths, model, command_line)
    strategy = make_strategy(**dataclasses.asdict(config.device))
    train = config.train
    evaluates = config.do_eval or train.eval_steps > 0
    check_batch_sizes(train, strategy, config.do_train, evaluates, predict=False)
    with contextlib.ExitStack() as stack:
        check_all = functools.partial(data.check, num_checked=None)
        stack.enter_context(record_checks.naming_bad_records(data.paths, check_all))
        if config.do_train:  # another process may evaluate during training
            stack.enter_context(exclusive_directory(config.output_dir, Workers(strategy)))
        results = _run(config, bert_config, strategy, data, record)
        Workers(strategy).chief_first(lambda: record.finish({"eval": results} if results else {}))
        return results


class PretrainingData:
    """The records of a run; `evaluation` reads the training files without an `eval_file`."""

    def __init__(self, config, bert_config):
        train, self._config = config.train, config
        has_pairs = config.objective != "none"
        schema = records.pretraining_schema(has_pairs, not config.dynamic_masking)
        paths = files.expand(config.input_file, "input_file")
        eval_paths = files.expand(config.eval_file, "eval_file") if config.eval_file else []
        self.paths = [*paths, *eval_paths]
        self._sizes = record_files.sizes(self.paths)
        self.train = input_pipeline.TrainingInput(
            paths, schema, config.lengths, train.train_batch_size, train.seed,
            limits=records.limits(schema, bert_config, config.lengths),
            masking=_make_masking(config, bert_config), sizes=self._sizes[: len(paths)],
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


def _make_masking(config, bert_config):
    if not config.dynamic_masking:
        return None
    vocab_file = config.model.vocab_file
    if not vocab_file:
        raise UserError("`dynamic_masking` requires `vocab_file`")
    vocab = tokenization.load_vocab(vocab_file)
    check_vocabulary(vocab, bert_config, vocab_file, config_file=config.model.bert_config_file)
    probability, seed = config.masked_lm_prob, config.train.seed
    return dynamic_masking.DynamicMasking(vocab, config.lengths, probability, seed)


def _new_model_files(config, bert_config):
    """Return missing model files as {path: text}; UserError if existing ones differ."""
    folder, model = config.output_dir, config.model
    texts, exists = {}, tf.io.gfile.exists
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
    vocab = tokenization.load_vocab(model.vocab_file)
    check_vocabulary(vocab, bert_config, model.vocab_file, config_file=model.bert_config_file)
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


def _run(config, bert_config, strategy, data, record):
    train = config.train
    set_seed(train.seed)
    workers = Workers(strategy)
    model_files: dict[str, str] = {}
    if config.do_train:
        # The chief locks the folder before the other workers read checkpoints.
        workers.chief_first(lambda: model_files.update(_new_model_files(config, bert_config)))
    trainer = Trainer(
        lambda: PretrainingTask(bert_config, train.dtype_policy, config.objective != "none"),
        strategy,
        config.output_dir,
        config.model.init_checkpoint,
    )
    check_metric(train.best_metric, trainer.task.metric_names)
    workers.chief_first(lambda: files.write_texts(model_files))
    workers.chief_first(record.start)
    if config.do_train:
        if train.best_metric and data.evaluation.paths == data.train.paths:
            console.warning(
                "`best_metric` without `eval_file` selects the best checkpoint on the training "
                "records"
            )
        steps = config.num_train_steps
        optimizer = make_optimizer(config.optimizer, steps)
        trainer.fit(data.train, optimizer, steps, train, data.evaluation)
    if not config.do_eval:
        return None
    if train.best_metric:
        trainer.use_best(train.best_metric)
    results = trainer.evaluate(data.evaluation)
    path = os.path.join(config.output_dir, "eval_results.txt")
    trainer.workers.chief_first(lambda: write_eval_results(path, results))
    return results
