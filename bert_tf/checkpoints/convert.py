"""From one format of weights to another, with config and vocabulary, and to other table sizes."""

import os

import numpy as np
import tensorflow as tf

from bert_tf import console, files
from bert_tf.checkpoints import hugging_face, release
from bert_tf.checkpoints.metadata import beside, find_config, labels_beside, read_metadata
from bert_tf.checkpoints.names import encoder_shapes, is_known, to_hugging_face
from bert_tf.checkpoints.warm_start import SLOTS, check_fits, open_checkpoint, some
from bert_tf.config import BertConfig
from bert_tf.errors import UserError

FORMATS = ("release", "hugging_face")

# The name of the checkpoint in the published models.
RELEASE_CHECKPOINT = "bert_model.ckpt"

_WORDS = "bert/embeddings/word_embeddings"
_POSITIONS = "bert/embeddings/position_embeddings"
_WORD_BIAS = "cls/predictions/output_bias"


def convert(
    path: str,
    output_dir: str,
    to_format: str,
    config: BertConfig | None = None,
    vocab_file: str | None = None,
    do_lower_case: bool | None = None,
    architecture: str | None = None,
    keep_optimizer: bool = False,
    max_position_embeddings: int | None = None,
    vocab_size: int | None = None,
) -> None:
    """Writes the weights at `path` into a new folder, in another format or with other tables.

    Args:
      path: what `open_checkpoint` accepts.
      output_dir: the folder to make. "release" writes `bert_model.ckpt`, `bert_config.json` and
        `vocab.txt`; "hugging_face" what `transformers` loads.
      to_format: one of `FORMATS`.
      config: the model's `BertConfig`, None for the one beside the weights.
      vocab_file: its vocabulary, None for the one beside the weights, if there is one.
      do_lower_case: the casing, for Hugging Face's tokenizer settings; None for what lies beside
        the weights, else True.
      architecture: the class of `transformers` to write for; None for that of the folder that is
        read, else by the head.
      keep_optimizer: whether to write moments and step too ("release" only).
      max_position_embeddings: rows of the position table, None to keep them; see `resize`.
      vocab_size: rows of the word table, None to keep them.

    Raises:
      UserError: if something cannot be read, or weights and config disagree.
    """
    if tf.io.gfile.exists(output_dir):
        raise UserError(f"`output_dir`: {output_dir} exists already")
    if keep_optimizer and to_format != "release":
        raise UserError(f"`keep_optimizer`: the format {to_format} has no place for it")
    source = open_checkpoint(path, "input")
    config = config or find_config(path)
    vocab_file = vocab_file or beside(path, (files.VOCABULARY,))
    check_fits(source.shapes, encoder_shapes(config), source.path)

    known = [name for name in source.shapes if is_known(name)]
    slots = [name for name in source.shapes if SLOTS.search(name)]
    if keep_optimizer:
        known += slots
    elif slots:
        console.info("left out: %d of the optimizer's", len(slots))
    unknown = [name for name in source.shapes if name not in known and name not in slots]
    if unknown:
        console.warning("left out, no part of BERT: %s", some(unknown, 10))
    tensors = {name: source.tensor(name) for name in known}
    tensors, config = resize(tensors, config, max_position_embeddings, vocab_size)

    if to_format == "hugging_face":
        found = read_metadata(path)
        lower = found.get("do_lower_case", True) if do_lower_case is None else do_lower_case
        if lower != found.get("do_lower_case", lower):
            raise UserError(
                f"`do_lower_case={lower}`, but what lies beside {path} says "
                f"{found['do_lower_case']}"
            )
        if found.get("numbers") and found.get("numeric_as") == "vector":
            raise UserError(
                f"`format=hugging_face`: the classifier of {path} takes numbers beside the text, "
                "which no class of transformers does"
            )
        if ours := [name for name in known if to_hugging_face(name) is None]:
            raise UserError(
                f"`format=hugging_face`: no class of transformers has the weights {some(ours, 3)}"
            )
        labels = found.get("labels")
        if labels and len(labels) != len(tensors.get("output_weights", ())):
            labels = None
        kind = hugging_face.write(
            output_dir,
            tensors,
            config,
            vocab_file,
            lower,
            labels,
            architecture or (found.get("architectures") or [None])[0],
            found.get("task_type"),
        )
        console.info("wrote %s: %d weights, for transformers.%s", output_dir, len(tensors), kind)
        return
    with files.replacing_folder(output_dir) as temporary:
        release.write(os.path.join(temporary, RELEASE_CHECKPOINT), tensors)
        files.write_text(os.path.join(temporary, files.CONFIG), config.to_json_string())
        if vocab_file:
            text = files.read_text(vocab_file)
            files.write_text(os.path.join(temporary, files.VOCABULARY), text)
    console.info("wrote %s: %d weights", os.path.join(output_dir, RELEASE_CHECKPOINT), len(tensors))
    if behind := _left_behind(path, tensors):
        console.warning(
            "the release's format has no place for %s, which lies beside %s; to write %s for "
            "Hugging Face again, `do_lower_case` and `architecture` must say it",
            " and ".join(behind), path, output_dir,
        )  # fmt: skip
    if config.hidden_act == "gelu_erf" or "layer_norm_eps" in config.to_dict():
        console.warning(
            "this model has hidden_act=%s and layer_norm_eps=%g; its %s says so, but the release's "
            "own code knows neither",
            config.hidden_act, config.layer_norm_eps, files.CONFIG,
        )  # fmt: skip


def _left_behind(path, tensors):
    """What only the files beside a checkpoint say of it, and not its weights: a list of texts."""
    found = read_metadata(path)
    architecture = (found.get("architectures") or [None])[0]
    behind = []
    if not found.get("do_lower_case", True):
        behind.append("do_lower_case=False")
    if labels_beside(path, len(tensors.get("output_weights", ()))):
        behind.append("the labels")
    if architecture not in (None, hugging_face.architecture_of(tensors)):
        behind.append(f"the architecture {architecture}")
    return behind


def resize(tensors, config, max_position_embeddings=None, vocab_size=None, seed=0):
    """Cuts or extends the position table and the word table.

    More positions: the table is repeated (Longformer, arXiv:2004.05150, section 5), so that each
    token starts out knowing its neighbours; pre-training has to go on before it is of use. More
    words: a new row is the mean of all, which leaves the other words' probabilities in proportion,
    and a little noise, so that two new words can grow apart.

    Args:
      tensors: dict of the release's names to arrays; moments of the optimizer must not be among
        those of a table that changes.
      config: its `BertConfig`.
      max_position_embeddings: the new number of positions, None for no change.
      vocab_size: the new number of words, None for no change; fewer is an error.
      seed: of the noise.

    Returns:
      (tensors, config), new ones.

    Raises:
      UserError: if words would be lost, or optimizer moments stand in the way.
    """
    tensors = dict(tensors)
    values = config.to_dict()
    positions = max_position_embeddings or config.max_position_embeddings
    words = vocab_size or config.vocab_size
    if words < config.vocab_size:
        raise UserError(
            f"`vocab_size={words}` would cut {config.vocab_size - words} of the model's "
            f"{config.vocab_size} words"
        )
    changed = (positions != config.max_position_embeddings, words != config.vocab_size)
    if any(changed) and any(SLOTS.search(name) for name in tensors):
        raise UserError("`keep_optimizer`: its moments have no rows for tables of another size")
    if changed[0]:
        table = tensors[_POSITIONS]
        repeats = -(-positions // len(table))
        tensors[_POSITIONS] = np.tile(table, (repeats, 1))[:positions]
        values["max_position_embeddings"] = positions
        console.info("positions: %d instead of %d", positions, len(table))
    if changed[1]:
        table, more = tensors[_WORDS], words - config.vocab_size
        noise = np.random.default_rng(seed).normal(
            scale=config.initializer_range, size=(more, table.shape[1])
        )
        tensors[_WORDS] = np.concatenate([table, (table.mean(0) + noise).astype(table.dtype)])
        if _WORD_BIAS in tensors:
            bias = tensors[_WORD_BIAS]
            tensors[_WORD_BIAS] = np.concatenate([bias, np.full(more, bias.mean(), bias.dtype)])
        values["vocab_size"] = words
        console.info("words: %d instead of %d", words, len(table))
    return tensors, BertConfig.from_dict(values)
