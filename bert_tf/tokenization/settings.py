"""Tokenizer settings: casing, accents, ideographs and the maximum word length."""

from bert_tf.tokenization.tokenizer_json import is_tokenizer_json, read_tokenizer_json_settings
from bert_tf.tokenization.vocabulary import MAX_CHARS_PER_WORD

# Argument of `FullTokenizer` -> value in the release. None means the value of `do_lower_case`.
RELEASE_SETTINGS = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "max_input_chars_per_word": MAX_CHARS_PER_WORD,
}
# Settings without an option in the release.
EXTRA_SETTINGS = tuple(RELEASE_SETTINGS)[1:]


def resolve_settings(vocab_file=None, **given):
    """Return a dict of all tokenizer settings, in the order of `RELEASE_SETTINGS`.

    Settings in `given` that are not None win over a `tokenizer.json` as `vocab_file`.
    """
    if unknown := given.keys() - RELEASE_SETTINGS.keys():
        raise TypeError(f"found the arguments {unknown}, expected {', '.join(RELEASE_SETTINGS)}")
    recorded = {}
    if isinstance(vocab_file, str) and is_tokenizer_json(vocab_file):
        recorded = read_tokenizer_json_settings(vocab_file)
    given = {name: value for name, value in given.items() if value is not None}
    settings = {**RELEASE_SETTINGS, **recorded, **given}
    if settings["strip_accents"] is None:
        settings["strip_accents"] = settings["do_lower_case"]
    return settings


def extra_settings(settings):
    """Return the settings other than `do_lower_case` that differ from the release."""
    release = resolve_settings(do_lower_case=settings["do_lower_case"])
    return {name: value for name, value in settings.items() if value != release[name]}
