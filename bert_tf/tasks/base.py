"""`Pipeline`, the base of the classes on strings; `StreamingPipeline`, for any number of texts."""

import dataclasses
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from bert_tf import checkpoints, console, serving
from bert_tf.checkpoints import PretrainedFiles
from bert_tf.checkpoints.metadata import replacing_preset
from bert_tf.checkpoints.release import check_path
from bert_tf.commands import environment
from bert_tf.configs.base import unknown_option
from bert_tf.configs.export import ExportConfig, ServingConfig
from bert_tf.configs.task import TaskConfig, check_length
from bert_tf.configs.task_names import TASK_CONFIG_FILES
from bert_tf.configs.train import BatchConfig
from bert_tf.data.containers import iterate_texts
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files
from bert_tf.modeling.layer_states import load_quantized, save_quantized
from bert_tf.modeling.token_layout import can_skip_padding
from bert_tf.tasks.fitting import Trainable
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.packing import LengthCounter, log_truncated, pack_pair
from bert_tf.tokenization.vocabulary import check_vocabulary, to_text
from bert_tf.training import checkpointing
from bert_tf.training.prediction import ModelCache
from bert_tf.training.strategy import default_strategy, model_strategy

_Pipeline = TypeVar("_Pipeline", bound="Pipeline")


class Pipeline(Trainable):
    """Base class of the classes that train, apply, save and export a model on strings.

    A task defines the attributes of `TaskSpec` and `arguments`, `_examples`, `_data` and `predict`.
    To train on some of the devices only, create the pipeline in the scope of a `tf.distribute`
    strategy; by default, it uses all devices.

    Attributes:
      model: the Keras model on token ids.
      config: the `TaskConfig`.
      tokenizer: the `FullTokenizer`.
    """

    preset_options: tuple[str, ...] = ()  # of `from_preset`, besides the saved options
    pretrained_head = ""  # the prefix of weights that a model must have
    # Whether predictions use all weights, apart from a pooler that the model declares unused.
    uses_all_weights = True
    keep_special_tokens = False

    def __new__(cls: type[_Pipeline], model: Any, config: Any = None) -> _Pipeline:
        if config is None:  # as in `SentenceTransformer(folder)`
            raise UserError(f"`model`: use `{cls.__name__}.from_preset` to load a model")
        return super().__new__(cls)

    def __init__(self, model: keras.Model, config: TaskConfig):
        self.model, self.config = model, config.keep_vocabulary()
        model.logits_activation = self.activation
        self.tokenizer = FullTokenizer(
            config.vocab, keep_special_tokens=self.keep_special_tokens, **config.tokenizer_settings
        )
        self._cache = ModelCache()

    def __repr__(self):
        labels = self.config.labels
        text = (
            f"<{type(self).__name__} of {type(self.model).__name__}: "
            f"num_layers {self.config.bert_config.num_hidden_layers}, "
            f"num_parameters {self.model.count_params()}, "
            f"max_seq_length {self.config.max_seq_length}"
        )
        return f"{text}, labels {abbreviate(labels, 9)}>" if labels else f"{text}>"

    @classmethod
    def from_preset(
        cls: type[_Pipeline],
        preset: str | os.PathLike | PretrainedFiles,
        labels: Sequence[Any] | None = None,
        max_seq_length: int | None = None,
        do_lower_case: bool | None = None,
        dtype: str | None = None,
        load_weights: bool | str = True,
        **options: Any,
    ) -> _Pipeline:
        """Create the pipeline from a pre-trained or fine-tuned model.

        If the task has a head that the model lacks, it is initialized.

        Args:
          preset: a published model, such as "uncased_L-12_H-768_A-12" or "OWNER/NAME", a
            folder or a checkpoint; see `checkpoints.resolve`.
          labels: the labels of a classifier or a new tagger; None for the saved ones.
          max_seq_length: maximum sequence length, in tokens. None for the saved setting, else the
            default of the task.
          do_lower_case: whether the model is uncased; None for the saved setting.
          dtype: a Keras dtype policy such as "mixed_bfloat16".
          load_weights: whether to load the weights; if False, they are random; "all" raises an
            error if weights that predictions use, such as a head, are missing.
          **options: options of the model, which are attributes of the `config` of this class, None
            for saved values or defaults, and what its description names.

        Raises:
          UserError: if the model does not exist, or an argument does not match it.
        """
        config_class = cls.config_class
        fields = {x.name: x.metadata for x in dataclasses.fields(config_class)}
        options_of = {name: x["saved"] for name, x in fields.items() if x.get("help")}
        known = {*cls.preset_options, *(name for name, is_saved in options_of.items() if is_saved)}
        if labels is not None:
            options["labels"] = labels
        for name in sorted(options.keys() - known):
            owner = f"{cls.__name__}.from_preset"
            if name in {*options_of, *cls.fit_options}:
                script = TASK_CONFIG_FILES[config_class.FILE]
                other = "`fit`" if name in cls.fit_options else script
                raise UserError(f"`{name}` is an option of {other}, not of {owner}")
            raise unknown_option(name, known, owner)
        # A task for uncased models warns if no file specifies the casing.
        default = None if config_class.do_lower_case else False
        found = checkpoints.resolve(preset, default_lower_case=default, do_lower_case=do_lower_case)
        stored = config_class.load(found.config_folder)
        options |= {"max_seq_length": max_seq_length, "do_lower_case": do_lower_case}
        given = {name: value for name, value in options.items() if value is not None}
        values = {
            **cls._config_values(found, stored, given),
            "bert_config": found.bert_config,
            "vocab_file": found.vocab_file,
            **found.tokenizer_settings,
        }
        if stored:
            config = stored.with_options(**values)
        else:
            length = min(config_class.max_seq_length, found.bert_config.max_position_embeddings)
            config = config_class(**{"max_seq_length": length, **values})
        check_length(config.max_seq_length, config.bert_config)
        check_vocabulary(
            config.vocab, config.bert_config, config.vocab_file, config.do_lower_case, found.config
        )
        has_scope = tf.distribute.has_strategy()
        strategy = tf.distribute.get_strategy() if has_scope else default_strategy()
        quantized = None
        with strategy.scope():
            model = cls.make_model(config, dtype)
            if load_weights:
                values = {**model.get_config(), "dtype": dtype, "bert": None, "name": None}
                quantized = load_quantized(found.folder, type(model), values)
            pipeline = cls(quantized or model, config)
        if quantized and stored and stored.labels != config.labels:
            raise UserError(
                f"`labels`: expected {abbreviate(stored.labels, 9)} as in the quantized model"
            )
        loaded = []
        if load_weights and not quantized:
            loaded = checkpoints.warm_start(
                pipeline.model,
                found.checkpoint,
                require_all=load_weights == "all" and cls.uses_all_weights,
                labels=config.labels or None,
                argument="preset",
            )
            if not any(x.startswith(cls.pretrained_head) for x in loaded):
                raise UserError(
                    f"`preset`: found no {cls.pretrained_head} in {found.checkpoint}, expected a "
                    "pre-trained model"
                )
        is_new = not quantized and all(x.startswith("bert/") for x in loaded)
        pipeline._is_random = cls.has_head and is_new
        if pipeline._is_random:
            console.info("the head is randomly initialized; `fit` trains it")
        return pipeline

    @classmethod
    def _config_values(cls, files, stored, values):
        """Return the config attributes that differ from the config `stored` or the defaults.

        `files` are the `PretrainedFiles`, and `values` the given attributes.
        """
        return values

    def _warn_if_blank(self, argument, texts):
        if count := sum(not text.strip() for text in texts):
            console.warning("`%s`: %d of %d texts are blank", argument, count, len(texts))

    def _answers(self, rows, batch_size, options=None, output=None, **changes):
        """Return the answers to rows, dicts of inputs.

        `options` are arguments of `make_servable`; `output` names an output of the model to return
        instead; `changes` override the config.
        """
        self._warn_if_random("the answers")

        def make():
            config = dataclasses.replace(self.config, **changes)
            skip_padding = can_skip_padding(model_strategy(self.model))
            serving_config = ServingConfig(dtype=None, skip_padding=skip_padding)
            servable = self.make_servable(self.model, config, serving_config, **(options or {}))
            return serving.Predictor(servable)

        # By the changes, because a caller may alternate between texts and pairs.
        name, settings = ("predictor", *changes.values()), (self.config, options)
        return self._cache.get(self.model, name, settings, make)(rows, batch_size, output)

    def export(self, folder: str | os.PathLike, version: int | None = None, **options: Any) -> str:
        """Write a SavedModel for TF Serving and for programs without bert_tf.

        `bert_tf.serving.Predictor` runs the model. `export_model.py` writes the same files.

        Args:
          folder: parent folder for all versions of the model.
          version: version number; None for the next free one.
          **options: attributes of `configs.ServingConfig`, such as `inputs` and `weights`. By
            default, `dtype` is that of the model.

        Returns:
          The folder written, FOLDER/VERSION.

        Raises:
          UserError: if the version exists or an argument is invalid.
        """
        self._warn_if_random("the answers of the exported model")
        dtype = self.model.compute_dtype
        if options.get("dtype") is None:
            options["dtype"] = None if dtype == "float64" else dtype
        config = ExportConfig(os.fspath(folder), version=version, serving=ServingConfig(**options))
        if keras.backend.backend() != "tensorflow":
            return _export_by_tensorflow(self, config.export_dir, config.version, options)
        servable = self.make_servable(self.model, self.config, config.serving)
        return serving.export(servable, config.export_dir, config.version)

    def summary(self, **options: Any) -> None:
        """Print the layers of the model; see `keras.Model.summary`."""
        self.model.summary(**options)

    def enable_lora(self, rank: int, **options: Any) -> None:
        """Train only the head and low-rank updates of kernels; see `BertModel.enable_lora`."""
        self.model.enable_lora(rank, **options)

    def quantize(self, mode: Any = None, **options: Any) -> None:
        """Quantize the model, such as to "int8", after training; see `BertModel.quantize`."""
        self.model.quantize(mode, **options)

    def save_to_preset(self, folder: str | os.PathLike, overwrite: bool = False) -> None:
        """Write the model to a folder that `from_preset` loads.

        A fine-tuned model is written in the format of its script, without optimizer state, for
        `--init_checkpoint` of the scripts or `--model_dir` of `export_model.py`. A pre-trained
        model is written as a Hugging Face or sentence-transformers folder. A quantized model is
        written as `quantized.keras`, for this class or Keras only.

        Args:
          folder: the path.
          overwrite: whether to replace an existing model, in a folder without other files.

        Raises:
          UserError: if the folder exists and is not to be replaced, or cannot be written.
        """
        self._warn_if_random("the saved weights")
        if self.has_head:  # written as a checkpoint
            check_path(folder, "folder")
        with replacing_preset(folder, overwrite) as temporary:
            if save_quantized(self.model, temporary):
                self.config.save(temporary)
            else:
                self._write_preset(temporary)

    def _warn_if_random(self, what):
        if self._is_random:
            console.warning(
                "%s come from a randomly initialized head; train it with `fit` first", what
            )

    def __reduce__(self):
        """Pickle or copy the model as Keras does, without traced functions."""
        arguments = self._compile_arguments, self._own_optimizer is None, self._is_random
        return _restore, (type(self), self.model, self.config, *arguments)

    def _write_preset(self, folder):
        optimizer = getattr(self.model, "optimizer", None)
        step = int(keras.ops.convert_to_numpy(optimizer.iterations)) if optimizer else 0
        tensors = {**checkpoints.tensors(self.model), "global_step": np.int64(step)}
        variables = {name: tf.constant(value) for name, value in tensors.items()}
        checkpointing.save(folder, variables)
        self.config.save(folder)


class StreamingPipeline(Pipeline):
    """Base class; a task defines `stream`, and `save_to_preset` writes a Hugging Face folder."""

    has_head = False

    def stream(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Any:
        """Yield the answer to each text of an iterable; an iterator is read lazily."""
        raise NotImplementedError

    def predict(self, texts: Any, batch_size: int = BatchConfig.batch_size) -> Any:
        """Return a list of the answers of `stream`, or a single answer if `texts` is a str."""
        if isinstance(texts, str):
            return self.predict([texts], batch_size)[0]
        return list(self.stream(texts, batch_size))

    def _run(
        self, function, rows, schema, batch_size, description, bytes_per_row=0, key=None, **lengths
    ):
        """Yield (item, dict of arrays) for pairs (item, dict of lists, the features of `schema`).

        `function` converts outputs of the model, as in `BatchRunner`; `key` as in `_runner`.
        """
        runner = self._runner(function, schema, {"S": self.config.max_seq_length, **lengths}, key)
        items = ((item, {name: np.array(x[name]) for name in schema}) for item, x in rows)
        return runner.run(items, batch_size, description, bytes_per_row=bytes_per_row)

    def _pack(self, rows):
        """Yield (item, dict of features) for (item, ids of a text, ids of a second text or [])."""
        limit, config = self.config.max_seq_length, self.config.bert_config
        lengths, num_blank = LengthCounter(limit), 0
        for item, ids_a, ids_b in rows:
            num_blank += not ids_a
            if ids_b:
                config.check_num_texts(2)
            yield item, pack_pair(ids_a, ids_b, self.tokenizer, limit, lengths, pad=False)
        if num_blank:
            total = lengths.counts["texts"]
            console.warning("`texts`: %d of %d texts are blank", num_blank, total)
        log_truncated("input", lengths.counts, limit, config.max_position_embeddings)

    def _write_preset(self, folder):
        self._write_pretrained(folder, checkpoints.tensors(self.model), self.config.bert_config)

    def _write_pretrained(self, folder, tensors, bert_config):
        """Write a Hugging Face folder, which must not exist; `tensors` have the release's names."""
        settings = self.tokenizer.settings
        with tempfile.TemporaryDirectory() as temporary:
            vocab_file = os.path.join(temporary, files.VOCABULARY)
            files.write_text(vocab_file, to_text(self.tokenizer.vocab))
            checkpoints.write_hugging_face(folder, tensors, bert_config, vocab_file, **settings)


def check_layers(option, layers, count):
    """Raise UserError if one of the `layers` of an option is not among the model's `count`."""
    for layer in layers:
        if not -count <= layer < count:
            raise UserError(
                f"`{option}`: found {layer}, expected numbers from -{count} to {count - 1}, "
                f"because the model has {count} layers"
            )


def read_pairs(texts):
    """Yield (text, second text or "") for each str; " ||| " separates a pair, as in the release."""
    for text in iterate_texts(texts, "texts"):
        first, separator, second = text.strip().rpartition(" ||| ")
        yield (first, second) if separator else (second, "")


def _restore(pipeline_class, model, config, compile_arguments, is_default, is_random):
    pipeline = pipeline_class(model, config)
    pipeline._compile_arguments, pipeline._is_random = compile_arguments, is_random
    if is_default and model.compiled:
        pipeline._default_optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
    return pipeline


def _export_by_tensorflow(pipeline, folder, version, options):
    """Export the model, through a preset, in a process with the TensorFlow backend."""
    with tempfile.TemporaryDirectory() as temporary:
        preset = os.path.join(temporary, "preset")
        pipeline.save_to_preset(preset)
        arguments = json.dumps([os.path.abspath(folder), version, options])
        program = (
            "import json, sys, bert_tf; "
            f"pipeline = bert_tf.{type(pipeline).__name__}.from_preset(sys.argv[1]); "
            "folder, version, options = json.loads(sys.argv[2]); "
            "print(pipeline.export(folder, version, **options))"
        )
        # No GPUs, because JAX has reserved their memory.
        variables = {"KERAS_BACKEND": "tensorflow", "CUDA_VISIBLE_DEVICES": "-1"}
        done = subprocess.run(
            [sys.executable, "-c", program, preset, arguments],
            env={**environment(), **variables},
            capture_output=True,
            text=True,
        )
    if done.returncode:
        message = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise UserError(f"the export with TensorFlow failed: {message}")
    return os.path.join(folder, os.path.basename(done.stdout.splitlines()[-1]))
