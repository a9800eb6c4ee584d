"""Convert weights, config and vocabulary between formats, and resize embedding tables."""

import dataclasses
import os
from typing import Any

import numpy as np

from bert_tf import console
from bert_tf.checkpoints import hugging_face, metadata, release
from bert_tf.checkpoints.hub import local_folder
from bert_tf.checkpoints.names import encoder_shapes, to_hugging_face
from bert_tf.checkpoints.warm_start import (
    TRAINING_STATE,
    check_compatible,
    open_checkpoint,
    read_weights,
)
from bert_tf.configs.model import LAYER_NORM_EPS, RELEASE_ACTIVATIONS, BertConfig
from bert_tf.errors import UserError, abbreviate
from bert_tf.io import files
from bert_tf.tokenization import vocabulary
from bert_tf.tokenization.settings import is_tokenizer_json, resolve_settings

_WORDS = "bert/embeddings/word_embeddings"
_POSITIONS = "bert/embeddings/position_embeddings"
_WORD_BIAS = "cls/predictions/output_bias"


def convert(
    path: str,
    output_dir: str,
    to_format: str,
    config: BertConfig | None = None,
    vocab_file: str | None = None,
    architecture: str | None = None,
    keep_optimizer: bool = False,
    max_position_embeddings: int | None = None,
    vocab_size: int | None = None,
    **settings: Any,
) -> None:
    """Convert a checkpoint to another format in a new folder, or resize its embedding tables.

    >>> convert("mrpc_output", "mrpc_hf", "hugging_face")

    Args:
      path: anything that `open_checkpoint` accepts, or "hf://OWNER/NAME[@REVISION]".
      output_dir: the folder to create.
      to_format: "release" writes `bert_model.ckpt`, `bert_config.json` and `vocab.txt`;
        "hugging_face" writes the files that `transformers` loads.
      config: None for the configuration next to the weights.
      vocab_file: None for the vocabulary next to the weights, if any.
      architecture: class of `transformers` to write for. None reads it from the metadata next to
        the weights, or infers it from the head.
      keep_optimizer: whether to keep the optimizer's moments and the step ("release" only).
      max_position_embeddings: new number of positions, None for no change; see `resize`.
      vocab_size: new number of words, None for no change; see `resize`.
      **settings: `do_lower_case`, `strip_accents` and `tokenize_chinese_chars` for Hugging Face's
        tokenizer files. None reads them from the metadata next to the weights, else means the
        release's behavior.

    Raises:
      UserError: if a file cannot be read, or weights, config and vocabulary do not match.
    """
    if files.exists(output_dir):
        raise UserError(f"`output_dir`: {output_dir} already exists")
    if to_format == "release":
        release.check_path(output_dir, "output_dir")
    files.remove_partial(output_dir)
    if keep_optimizer and to_format != "release":
        raise UserError(f"`keep_optimizer` cannot be combined with `format={to_format}`")
    path = local_folder(path)
    source = open_checkpoint(path, "input")
    config = config or metadata.load_config(path)
    settings = _settings(path, vocab_file, settings)
    check_compatible(source.shapes, encoder_shapes(config), source.path)

    names = [name for name in source.shapes if to_hugging_face(name)]
    state = [name for name in source.shapes if TRAINING_STATE.search(name)]
    if unknown := [name for name in source.shapes if name not in names and name not in state]:
        console.warning("skipped, not part of BERT: %s", abbreviate(unknown, 10))
    if keep_optimizer:
        names += state
    elif state:
        console.info("skipped %d optimizer variables", len(state))
    tensors = read_weights(source, names)
    tensors, config = resize(tensors, config, max_position_embeddings, vocab_size)
    if vocab_file:
        vocabulary.check_vocabulary(vocabulary.load_vocab(vocab_file), config, vocab_file)
    if vocab_file := vocab_file or metadata.find_companion_file(path, metadata.VOCABULARY_FILES):
        text = vocabulary.vocabulary_text(vocab_file)
        is_uncased = settings["do_lower_case"]
        vocabulary.validate_case_matches_vocabulary(is_uncased, text.split(), vocab_file)
    else:
        console.warning("found no vocabulary next to %s; `vocab_file` adds one", path)

    labels = metadata.read_labels(path, len(tensors.get("output_weights", ())))
    saved = metadata.read_metadata(path)
    recorded = (saved.get("architectures") or [None])[0]
    if to_format == "hugging_face":
        if saved.get("numeric_features") and saved.get("numeric_as") == "vector":
            raise UserError(
                f"`format=hugging_face`: found a classifier with numeric features in {path}, which "
                "no class of transformers supports"
            )
        if recorded in hugging_face.ARCHITECTURES:
            architecture = architecture or recorded
        task = saved.get("task_type")
        written = hugging_face.write_hugging_face(
            output_dir, tensors, config, vocab_file, labels, architecture, task, **settings
        )
        console.info("wrote %s: %d weights, for transformers.%s", output_dir, len(tensors), written)
        return
    with files.replacing(output_dir) as (temporary,):
        release.write(os.path.join(temporary, release.RELEASE_CHECKPOINT), tensors)
        files.write_text(os.path.join(temporary, files.CONFIG), config.to_json_string())
        if vocab_file:
            files.write_text(os.path.join(temporary, files.VOCABULARY), text)
    prefix = os.path.join(output_dir, release.RELEASE_CHECKPOINT)
    console.info("wrote %s: %d weights", prefix, len(tensors))
    # What cannot be inferred from the weights.
    lost = [f"{x}={y}" for x, y in settings.items() if y != resolve_settings()[x]]
    if labels:
        lost.append("the labels")
    if recorded not in (None, hugging_face.detect_architecture(tensors)):
        lost.append(f"the architecture {recorded}")
    if config.layer_norm_eps != LAYER_NORM_EPS:
        lost.append(f"layer_norm_eps={config.layer_norm_eps}")
    if config.hidden_act not in RELEASE_ACTIVATIONS:
        lost.append(f"hidden_act={config.hidden_act}")
    if difference := config.differences_from_bert():
        lost.append(difference)
    if lost:
        console.warning(
            f"the release's files and code do not support {' and '.join(lost)} of {path}; to "
            f"convert {output_dir} to Hugging Face later, pass `do_lower_case` and `architecture`"
        )


def _settings(path, vocab_file, options):
    specified = {name: value for name, value in options.items() if value is not None}
    if vocab_file and is_tokenizer_json(vocab_file):
        return resolve_settings(vocab_file, **specified)
    recorded = metadata.read_settings(path, vocab_file)
    for name, value in specified.items():
        if recorded.get(name) not in (None, value):
            raise UserError(f"`{name}={value}`: expected {recorded[name]} as next to {path}")
    metadata.add_published_casing(recorded, path)
    return resolve_settings(**{**recorded, **specified})


def resize(tensors, config, max_position_embeddings=None, vocab_size=None):
    """Return (tensors, config) with a different number of positions, or with more words.

    New positions repeat the rows of the table (Longformer, arXiv:2004.05150, section 5); the model
    still needs further pre-training. New words are initialized to the mean of all rows, which
    preserves the probability ratios of the other words, plus a little noise so that training can
    separate them. Raises UserError if words would be lost, or if a table changes and `tensors` has
    optimizer moments.
    """
    tensors = dict(tensors)
    positions = max_position_embeddings or config.max_position_embeddings
    words = vocab_size or config.vocab_size
    if words < config.vocab_size:
        raise UserError(f"`vocab_size={words}`: expected at least the model's {config.vocab_size}")
    # This checks the upper bounds.
    resized = dataclasses.replace(config, max_position_embeddings=positions, vocab_size=words)
    if resized != config and any(map(TRAINING_STATE.search, tensors)):
        raise UserError("`keep_optimizer` cannot be combined with resized tables")
    if positions != config.max_position_embeddings:
        table = tensors[_POSITIONS]
        tensors[_POSITIONS] = np.resize(table, (positions, table.shape[1]))  # repeats rows
        console.info("positions: %d instead of %d", positions, len(table))
    if words != config.vocab_size:
        table = tensors[_WORDS]
        num_new = words - config.vocab_size
        shape = (num_new, table.shape[1])
        noise = np.random.default_rng(0).normal(0.0, config.initializer_range, shape)
        tensors[_WORDS] = np.concatenate([table, (table.mean(0) + noise).astype(table.dtype)])
        if _WORD_BIAS in tensors:
            bias = tensors[_WORD_BIAS]
            tensors[_WORD_BIAS] = np.concatenate([bias, np.full(num_new, bias.mean(), bias.dtype)])
        console.info("words: %d instead of %d", words, len(table))
    return tensors, resized
