"""Special tokens, the settings of a tokenizer, and Hugging Face's files that store them.

In these files, steps that differ from BERT's and added tokens are errors, because they give
different ids.
"""

import json
import os

from bert_tf.errors import UserError
from bert_tf.io import files, json_files
from bert_tf.io.json_files import Positive

PAD = "[PAD]"
UNK = "[UNK]"
CLS = "[CLS]"
SEP = "[SEP]"
MASK = "[MASK]"
# Only masking needs [MASK]; see `vocabulary.mask_id`.
REQUIRED_TOKENS = (UNK, CLS, SEP)
SPECIAL_TOKENS = (PAD, *REQUIRED_TOKENS, MASK)

# The encoder's inputs, as the release names them.
INPUTS = ("input_ids", "input_mask", "segment_ids")

# [CLS] a [SEP] b [SEP] with one token in each text.
SHORTEST = 5

# The release's limit; longer words become [UNK].
MAX_CHARS_PER_WORD = 200

# Argument of `FullTokenizer` -> value in the release. None means the value of `do_lower_case`.
RELEASE_SETTINGS = {
    "do_lower_case": True,
    "strip_accents": None,
    "tokenize_chinese_chars": True,
    "max_input_chars_per_word": MAX_CHARS_PER_WORD,
}
# Settings without an option in the release.
EXTRA_SETTINGS = tuple(RELEASE_SETTINGS)[1:]

# Settings in both files: name in `tokenizer_config.json` -> name in the normalizer.
_NORMALIZER_NAMES = {
    "do_lower_case": "lowercase",
    "strip_accents": "strip_accents",
    "tokenize_chinese_chars": "handle_chinese_chars",
}
_CONFIG_FIELDS = {
    "do_lower_case?": bool,
    "strip_accents?": bool | None,
    "tokenize_chinese_chars?": bool,
    "max_input_chars_per_word?": Positive,  # only bert_tf writes it here
}
_FIELDS = {
    "model": {"max_input_chars_per_word?": Positive},
    "normalizer": {"normalizers?": list[dict]}
    | {f"{field}?": _CONFIG_FIELDS[f"{name}?"] for name, field in _NORMALIZER_NAMES.items()},
    "pre_tokenizer": dict,
}
_BERT_CLASSES = [f"{x}Tokenizer" for x in ("Bert", "DistilBert", "Electra")]
_BERT_CLASSES += [f"{name}Fast" for name in _BERT_CLASSES]
# Other values in `tokenizer_config.json` select other tokenizers.
_TOKENIZERS = {
    "do_basic_tokenize": True,
    "word_tokenizer_type": "basic",
    "subword_tokenizer_type": "wordpiece",
}
# Classes that read all settings from `tokenizer.json`.
_GENERIC_CLASSES = ("PreTrainedTokenizerFast", "TokenizersBackend")

_SPECIAL_TOKENS = {f"{x[1:-1].lower()}_token": x for x in (PAD, UNK, CLS, SEP, MASK)}

# Fields with lists or dicts of tokens in `tokenizer_config.json` and `special_tokens_map.json`.
_ADDED_TOKENS = ("added_tokens_decoder", "additional_special_tokens", "extra_special_tokens")


def is_tokenizer_json(path):
    """Return whether a vocabulary has the extension of a `tokenizer.json`."""
    return str(path).endswith(".json")


def read_tokenizer_json(path):
    """Return the vocabulary, a dict sorted by id, and a dict of arguments of `FullTokenizer`."""
    values = json_files.read(path, _FIELDS)
    model, normalizer = values["model"], values["normalizer"]
    parts = normalizer.get("normalizers")
    if parts and [x.get("type") for x in parts] == ["Lowercase", "BertNormalizer"]:
        # Written by sentence-transformers. The second decides whether to strip accents.
        normalizer = parts[1]
        strips = normalizer.get("strip_accents")
        strips = normalizer.get("lowercase", True) if strips is None else strips
        normalizer = {**normalizer, "lowercase": True, "strip_accents": strips}
    _expect(path, "model.type", model.get("type", "WordPiece"), "WordPiece")
    _expect(path, "model.unk_token", model.get("unk_token"), UNK)
    _expect(path, "model.continuing_subword_prefix", model.get("continuing_subword_prefix"), "##")
    vocab = model.get("vocab")
    if not isinstance(vocab, dict) or not all(type(x) is int and x >= 0 for x in vocab.values()):
        raise UserError(f"{path}: model.vocab is {json_files.quoted(vocab)}, expected ids by piece")
    if (count := len(set(vocab.values()))) < len(vocab):
        raise UserError(f"{path}: model.vocab has {len(vocab)} pieces, but {count} different ids")
    _check_added_tokens(path, "added_tokens", values.get("added_tokens"), vocab)

    _expect(path, "normalizer.type", normalizer.get("type"), "BertNormalizer")
    _expect(path, "normalizer.clean_text", normalizer.get("clean_text", True), True)
    _expect(path, "pre_tokenizer.type", values["pre_tokenizer"].get("type"), "BertPreTokenizer")
    _check_post_processor(path, values.get("post_processor"))

    settings = {x: normalizer.get(y, RELEASE_SETTINGS[x]) for x, y in _NORMALIZER_NAMES.items()}
    settings["max_input_chars_per_word"] = model.get("max_input_chars_per_word", 100)
    return dict(sorted(vocab.items(), key=lambda item: item[1])), settings


def read_tokenizer_settings(folder, tokenizer=files.TOKENIZER):
    """Return the settings in the tokenizer files of a folder, an empty dict if it has none.

    As in transformers, `tokenizer_config.json` overrides the `tokenizer.json`, unless its
    `tokenizer_class` reads all settings from `tokenizer.json`.
    """
    vocab_file = os.path.join(folder, tokenizer)
    has_json = files.exists(vocab_file)
    settings = read_tokenizer_json(vocab_file)[1] if has_json else {}
    path, values = _read_if_exists(folder, files.TOKENIZER_CONFIG, _CONFIG_FIELDS)
    class_path = path
    name = values.get("tokenizer_class")
    if name is None:
        class_path, model = _read_if_exists(folder, "config.json")
        name = model.get("tokenizer_class")
    if name not in (None, *_BERT_CLASSES) and not (has_json and name in _GENERIC_CLASSES):
        _expect(class_path, "tokenizer_class", name, "BertTokenizer")
    for field, expected in _TOKENIZERS.items():
        _expect(path, field, values.get(field, expected), expected)
    _check_special_tokens(path, values)
    if "added_tokens_decoder" not in values:  # it replaces both files, as in transformers
        _check_special_tokens(*_read_if_exists(folder, "special_tokens_map.json"))
        other, added = _read_if_exists(folder, "added_tokens.json")
        _check_added_tokens(other, "the file", [*added])
    if has_json and name in _GENERIC_CLASSES:
        return settings
    return settings | {name: values[name] for name in RELEASE_SETTINGS if name in values}


def tokenizer_json(vocab, settings):
    """Return the contents of a `tokenizer.json` for `vocab` and `settings` of a `FullTokenizer`."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    max_chars = settings["max_input_chars_per_word"]
    model = models.WordPiece(vocab, unk_token=UNK, max_input_chars_per_word=max_chars)
    tokenizer = Tokenizer(model)
    values = {_NORMALIZER_NAMES[name]: x for name, x in _normalizer_settings(settings).items()}
    tokenizer.normalizer = normalizers.BertNormalizer(**values)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{CLS} $A {SEP}",
        pair=f"{CLS} $A {SEP} $B:1 {SEP}:1",
        special_tokens=[(token, vocab[token]) for token in (CLS, SEP)],
    )
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.add_special_tokens([x for x in _SPECIAL_TOKENS.values() if x in vocab])
    return json.loads(tokenizer.to_str())


def tokenizer_config(settings, max_position_embeddings):
    """Return the contents of a `tokenizer_config.json`, from `settings` of a `FullTokenizer`."""
    return {
        "tokenizer_class": "BertTokenizer",
        "model_max_length": max_position_embeddings,
        **_normalizer_settings(settings),
        **_SPECIAL_TOKENS,
    }


def _normalizer_settings(settings):
    values = {name: settings[name] for name in _NORMALIZER_NAMES}
    if values["strip_accents"] == values["do_lower_case"]:
        values["strip_accents"] = None  # follows `do_lower_case`
    return values


def _expect(path, field, value, expected):
    if value != expected:
        found = f"{field} is {json_files.quoted(value, 80)}, which is not supported"
        raise UserError(f"{path}: {found}; expected {json.dumps(expected)}")


def _read_if_exists(folder, name, hint=dict):
    path = os.path.join(folder, name)
    return path, json_files.read(path, hint) if files.exists(path) else {}


def _check_special_tokens(path, values):
    for name, value in values.items():
        if name in _SPECIAL_TOKENS:
            expected = _SPECIAL_TOKENS[name]
            _expect(path, name, expected if value is None else _content(value), expected)
        elif name in _ADDED_TOKENS:
            _check_added_tokens(path, name, [*value.values()] if isinstance(value, dict) else value)
        elif name.endswith("_token") and isinstance(value, str | dict):
            _check_added_tokens(path, name, [value])


def _check_added_tokens(path, field, tokens, vocab=None):
    """Raise UserError unless all tokens are special tokens, with the same ids as in `vocab`."""
    json_files.check(tokens, list | None, f"{path}: ", name=field)
    for token in tokens or ():
        content = _content(token)
        allowed = _SPECIAL_TOKENS.values()
        index = token.get("id") if isinstance(token, dict) else None
        if content not in allowed or (vocab is not None and index != vocab.get(content)):
            ids = "" if vocab is None else " with their ids in model.vocab"
            found = f"{field} has {json_files.quoted(content)}, which is not supported"
            raise UserError(f"{path}: {found}; expected only {', '.join(allowed)}{ids}")


def _content(token):
    return token.get("content") if isinstance(token, dict) else token


def _check_post_processor(path, values):
    """Raise UserError unless the templates are [CLS] A [SEP] and [CLS] A [SEP] B [SEP]."""
    values = values if isinstance(values, dict) else {"type": values}
    if values.get("type") == "BertProcessing":
        pairs = [values.get(name) for name in ("cls", "sep")]
        tokens = [pair[0] if isinstance(pair, list) and pair else pair for pair in pairs]
        _expect(path, "post_processor", tokens, [CLS, SEP])
        return
    _expect(path, "post_processor.type", values.get("type"), "TemplateProcessing")
    for name, expected in (
        ("single", f"{CLS}:0 A:0 {SEP}:0"),
        ("pair", f"{CLS}:0 A:0 {SEP}:0 B:1 {SEP}:1"),
    ):
        try:
            parts = [next(iter(part.values())) for part in values[name]]
            template = " ".join(f"{part['id']}:{part['type_id']}" for part in parts)
        except (KeyError, TypeError, AttributeError, StopIteration):
            template = values.get(name)
        _expect(path, f"post_processor.{name}", template, expected)


def resolve_settings(vocab_file=None, **options):
    """Return a dict of all tokenizer settings, in the order of `RELEASE_SETTINGS`.

    Settings in `options` that are not None override a `tokenizer.json` as `vocab_file`.
    """
    if unknown := options.keys() - RELEASE_SETTINGS.keys():
        raise TypeError(f"found the arguments {unknown}, expected {', '.join(RELEASE_SETTINGS)}")
    recorded = {}
    if isinstance(vocab_file, str) and is_tokenizer_json(vocab_file):
        recorded = read_tokenizer_settings(*os.path.split(vocab_file))
    specified = {name: value for name, value in options.items() if value is not None}
    settings = {**RELEASE_SETTINGS, **recorded, **specified}
    if settings["strip_accents"] is None:
        settings["strip_accents"] = settings["do_lower_case"]
    return settings


def extra_settings(settings):
    """Return the settings other than `do_lower_case` that differ from the release."""
    release = resolve_settings(do_lower_case=settings["do_lower_case"])
    return {name: value for name, value in settings.items() if value != release.get(name, value)}
