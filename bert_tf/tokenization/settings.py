"""The settings of a tokenizer: casing, accents, ideographs and the longest word."""

from bert_tf.tokenization.tokenizer_json import is_tokenizer_json, read_settings_of
from bert_tf.tokenization.vocabulary import MAX_CHARS_PER_WORD

# Those of the release, by the names of the arguments of `FullTokenizer`. None: as `do_lower_case`.
RELEASE_SETTINGS = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "max_input_chars_per_word": MAX_CHARS_PER_WORD,
}
# Those that the release has no option for.
EXTRA_SETTINGS = tuple(RELEASE_SETTINGS)[1:]


def resolve_settings(vocab_file=None, **given):
    """Return the settings of a tokenizer, a dict in the order of `RELEASE_SETTINGS`.

    Args:
      vocab_file: path of the vocabulary. A `tokenizer.json` has settings of its own.
      **given: settings that take precedence; None if not given.
    """
    recorded = {}
    if isinstance(vocab_file, str) and is_tokenizer_json(vocab_file):
        recorded = read_settings_of(vocab_file)
    given = {name: value for name, value in given.items() if value is not None}
    settings = {**RELEASE_SETTINGS, **recorded, **given}
    if settings["strip_accents"] is None:
        settings["strip_accents"] = settings["do_lower_case"]
    return settings


def extra_settings(settings):
    """Return those of the settings, apart from `do_lower_case`, that differ from the release."""
    release = resolve_settings(do_lower_case=settings["do_lower_case"])
    return {name: value for name, value in settings.items() if value != release[name]}
