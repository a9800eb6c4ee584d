"""Vocabulary files: one piece a line, the line's number (from 0) is its id."""

import re

from bert_tf import console, files
from bert_tf.errors import UserError

REQUIRED = ("[UNK]", "[CLS]", "[SEP]", "[MASK]")

# What a tokenizer keeps whole in a text, if it is told to.
SPECIAL = ("[PAD]", *REQUIRED)

# Folder names of the published models: uncased_L-12_H-768_A-12, wwm_cased_L-24_H-1024_A-16, ...
_PUBLISHED = re.compile(
    r"(?:^|/)((?:wwm_|multi_)?(uncased|cased|multilingual|chinese)_L-\d+_H-\d+_A-\d+)(?:/|$)"
)


def load_vocab(vocab_file):
    """Reads a vocabulary.

    Args:
      vocab_file: path of a UTF-8 text; white space around a piece does not count.

    Returns:
      A dict from piece to id, in the order of the file. Where a piece stands twice its last line
      counts, as in the release.

    Raises:
      UserError: if the file is missing, empty or lacks one of `REQUIRED`.
    """
    lines = files.read_text(vocab_file).split("\n")
    if not lines[-1]:
        lines.pop()
    vocab = {piece.strip(): index for index, piece in enumerate(lines)}
    if not vocab:
        raise UserError(f"{vocab_file}: the vocabulary is empty, one piece a line was expected")
    missing = [piece for piece in REQUIRED if piece not in vocab]
    if missing:
        raise UserError(
            f"{vocab_file}: not the vocabulary of a BERT model, {', '.join(missing)} "
            f"is not among its {len(vocab)} pieces"
        )
    if len(vocab) < len(lines):
        console.warning(
            "%s: %d of %d lines repeat an earlier piece; the last line of each counts",
            vocab_file, len(lines) - len(vocab), len(lines),
        )  # fmt: skip
    if vocab.get("[PAD]", 0) != 0:
        console.warning("%s: [PAD] has id %d, padding uses id 0", vocab_file, vocab["[PAD]"])
    return vocab


def special_tokens(vocab):
    """Returns those of `SPECIAL` that are among the pieces `vocab`, as a list."""
    return [token for token in SPECIAL if token in vocab]


def casing_by_name(path):
    """What a path tells of a published model in it.

    Returns:
      (the model's name, whether it was trained on lower-cased text), None if there is no such name.
    """
    match = _PUBLISHED.search(path.replace("\\", "/"))
    return match and (match.group(1), match.group(2) != "cased")


def validate_case_matches_checkpoint(do_lower_case, init_checkpoint):
    """Warns if a published model is about to be used with the casing of another.

    The release refused to go on; but a folder's name proves nothing about the files in it.

    Args:
      do_lower_case: whether text is lower-cased.
      init_checkpoint: path of the checkpoint, or None.
    """
    named = casing_by_name(init_checkpoint or "")
    if named and named[1] != do_lower_case:
        model, lower = named
        console.warning(
            "the checkpoint's folder is named %s, a model trained with `do_lower_case=%s`, "
            "but `do_lower_case=%s` was given",
            model, lower, do_lower_case,
        )  # fmt: skip
