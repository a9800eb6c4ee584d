#!/usr/bin/env python3
"""Record outputs of the 2018 release's code for texts of this project, in tests/golden.

    git clone https://github.com/google-research/bert
    python tools/record_golden.py bert tests/golden

Requires Python 3.11, because the release's tokens depend on Python's Unicode version. The release's
modules are imported with `tensorflow.compat.v1` as their TensorFlow, and only functions that need
no graph are called: tokenization, pre-training instances, features, and answers from logits. This
script does not import bert_tf, so it cannot record bert_tf's own output by mistake.
"""

import collections
import hashlib
import importlib
import json
import lzma
import pathlib
import random
import sys
import tempfile
import types
import unicodedata
from unittest import mock

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests import golden_inputs  # noqa: E402

PRETRAINING = {
    "base": {"max_seq_length": 128, "max_predictions_per_seq": 20, "dupe_factor": 3,
             "random_seed": 12345},
    "seq512": {"max_seq_length": 512, "max_predictions_per_seq": 77, "dupe_factor": 2,
               "random_seed": 12345},
    "wwm": {"max_seq_length": 128, "max_predictions_per_seq": 20, "dupe_factor": 2,
            "random_seed": 7, "do_whole_word_mask": True},
    "cased": {"max_seq_length": 128, "max_predictions_per_seq": 20, "dupe_factor": 2,
              "random_seed": 99, "do_lower_case": False},
    "short": {"max_seq_length": 64, "max_predictions_per_seq": 10, "dupe_factor": 1,
              "random_seed": 3, "short_seq_prob": 0.5},
}  # fmt: skip
SQUAD = {
    "v1": {"max_seq_length": 96, "doc_stride": 40, "max_query_length": 12, "n_best_size": 20,
           "max_answer_length": 30, "version_2_with_negative": False,
           "null_score_diff_threshold": 0.0},
    "v2": {"max_seq_length": 128, "doc_stride": 48, "max_query_length": 16, "n_best_size": 10,
           "max_answer_length": 25, "version_2_with_negative": True,
           "null_score_diff_threshold": -1.0},
}  # fmt: skip
FEATURES = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids",
            "masked_lm_weights", "next_sentence_labels")  # fmt: skip
CONTEXTS = ("the{}of", "-{}of", "the {} of")


def release_modules(folder):
    """Return a dict from name to module of the release; the functions below set its flags."""
    import tensorflow as tf

    shim = types.ModuleType("tensorflow")
    shim.__dict__.update({name: getattr(tf.compat.v1, name) for name in dir(tf.compat.v1)})
    shim.flags = mock.MagicMock()
    names = ("tokenization", "create_pretraining_data", "run_classifier", "run_squad")
    sys.path.insert(0, str(folder))
    with mock.patch.dict(sys.modules, {"tensorflow": shim}):
        return {name: importlib.import_module(name) for name in names}


def make_vocabulary(strings, basic_tokenizers):
    """Return pieces that cover much of the texts, including characters of many scripts.

    A word is added as one piece, split into two pieces, or not added.
    """
    rng = random.Random(0)
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "of", "zulu", "hello"]
    words, chars = collections.Counter(), set(map(chr, range(33, 127)))
    for tokenizer in basic_tokenizers:
        for line in golden_inputs.sentences():
            words.update(tokenizer.tokenize(line))
        for string in strings:
            for word in tokenizer.tokenize(string):
                chars.update(char for char in word[:12] if unicodedata.category(char) != "Cn")
                if rng.random() < 0.2 and len(word) > 2:
                    start = rng.randrange(len(word) - 1)
                    words[word[start : start + rng.randint(2, 4)]] += 1
    parts = set()
    for word in sorted(words):
        kind = rng.randrange(4)
        if kind > 1 or len(word) < 4:
            parts.add(word)
        elif kind == 1:
            middle = rng.randrange(2, len(word) - 1)
            parts |= {word[:middle], "##" + word[middle:]}
    for char in sorted(chars):
        kind = rng.randrange(10)
        parts |= {char} if kind < 7 or char.isascii() else set()
        parts |= {"##" + char} if kind > 2 or char.isascii() else set()
    return pieces + sorted(part for part in parts - set(pieces) if part.strip())


def record_tokens(tokenizers, strings):
    """Return the lines of tokenization.jsonl."""
    lines = []
    for string in strings:
        case = {"bytes_hex": string.hex()} if isinstance(string, bytes) else {"text": string}
        case |= {mode: tokenizer.tokenize(string) for mode, tokenizer in tokenizers.items()}
        lines.append(json.dumps(case))
    return lines


def record_code_points(tokenizers):
    """Return digests of the tokens of all code points, one for each context and casing."""
    digests = []
    for context in CONTEXTS:
        for mode, tokenizer in tokenizers.items():
            sha256 = hashlib.sha256()
            for code in range(sys.maxunicode + 1):
                if not 0xD800 <= code < 0xE000:
                    tokens = tokenizer.tokenize(context.format(chr(code)))
                    sha256.update((" ".join(tokens) + "\n").encode())
            digests.append({"context": context, "mode": mode, "sha256": sha256.hexdigest()})
    return digests


def record_pretraining(module, tokenizers, output):
    """Return settings, number and digest of the instances for each case; write one case in full."""
    import tensorflow as tf

    cases = []
    for name, changes in PRETRAINING.items():
        case = {"name": name, "short_seq_prob": 0.1, "masked_lm_prob": 0.15,
                "do_whole_word_mask": False, "do_lower_case": True, **changes}  # fmt: skip
        module.FLAGS = types.SimpleNamespace(do_whole_word_mask=case["do_whole_word_mask"])
        tokenizer = tokenizers["uncased" if case["do_lower_case"] else "cased"]
        instances = module.create_training_instances(
            [str(golden_inputs.TEXT)], tokenizer, case["max_seq_length"],
            case["dupe_factor"], case["short_seq_prob"], case["masked_lm_prob"],
            case["max_predictions_per_seq"], random.Random(case["random_seed"]),
        )  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            path = f"{folder}/x.tfrecord" if name != "short" else str(output / "short.tfrecord")
            module.write_instance_to_example_files(
                instances, tokenizer, case["max_seq_length"], case["max_predictions_per_seq"],
                [path],
            )  # fmt: skip
            sha256 = hashlib.sha256()
            for record in tf.data.TFRecordDataset(path).as_numpy_iterator():
                features = tf.train.Example.FromString(record).features.feature
                for key in FEATURES:
                    is_float = key == "masked_lm_weights"
                    values = features[key].float_list if is_float else features[key].int64_list
                    array = np.array(values.value, "<f4" if is_float else "<i8")
                    sha256.update(array.tobytes())
        cases.append({**case, "instances": len(instances), "sha256": sha256.hexdigest()})
    return cases


def record_classification(module, tokenizer):
    """Return the features of pairs at two lengths, and of single texts, as a dict of arrays."""
    arrays = {}
    for name, (is_pair, length) in golden_inputs.CLASSIFICATION.items():
        rows = []
        examples = golden_inputs.classification_examples(is_pair)
        for i, (text_a, text_b, label) in enumerate(examples):
            example = module.InputExample(str(i), text_a, text_b, label)
            rows.append(module.convert_single_example(9, example, ["0", "1"], length, tokenizer))
        for key in ("input_ids", "input_mask", "segment_ids", "label_id"):
            arrays[f"{name}/{key}"] = np.array([getattr(row, key) for row in rows], np.int32)
    return arrays


def record_squad(module, tokenizer, version, output):
    """Return settings, counts and digests of features; write the answers for made-up logits."""
    case = dict(SQUAD[version])
    module.FLAGS = types.SimpleNamespace(verbose_logging=False, **case)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "data.json"
        path.write_text(json.dumps(golden_inputs.squad(version)))
        for kind in ("train", "eval"):
            examples = module.read_squad_examples(str(path), kind == "train")
            features = []
            module.convert_examples_to_features(
                examples, tokenizer, case["max_seq_length"], case["doc_stride"],
                case["max_query_length"], kind == "train", features.append,
            )  # fmt: skip
            sha256 = hashlib.sha256()
            for x in features:
                row = [x.unique_id, x.example_index, x.doc_span_index, x.input_ids, x.input_mask,
                       x.segment_ids, x.start_position, x.end_position, x.is_impossible, x.tokens,
                       sorted(x.token_to_orig_map.items()),
                       sorted(x.token_is_max_context.items())]  # fmt: skip
                sha256.update(json.dumps(row).encode())
            case[f"{kind}_features"] = len(features)
            case[f"{kind}_sha256"] = sha256.hexdigest()
        starts, ends = golden_inputs.made_up_logits(len(features), case["max_seq_length"])
        Result = collections.namedtuple("Result", "unique_id start_logits end_logits")
        results = [
            Result(x.unique_id, start.tolist(), end.tolist())
            for x, start, end in zip(features, starts, ends, strict=True)
        ]
        names = ("predictions", "nbest_predictions", "null_odds")
        paths = [f"{folder}/{name}.json" for name in names]
        module.write_predictions(
            examples, features, results, case["n_best_size"], case["max_answer_length"], True,
            *paths,
        )  # fmt: skip
        answers = {
            name: json.loads(pathlib.Path(path).read_text())
            for name, path in zip(names, paths, strict=True)
            if pathlib.Path(path).exists()
        }
    with lzma.open(output / f"squad_{version}.json.xz", "wt", encoding="utf-8") as writer:
        json.dump(answers, writer)
    return case


def main(release, output):
    modules = release_modules(release)
    tokenization = modules["tokenization"]
    with lzma.open(output / "tokenization.jsonl.xz", "rt", encoding="utf-8") as reader:
        cases = list(map(json.loads, reader))
    strings = [bytes.fromhex(x["bytes_hex"]) if "bytes_hex" in x else x["text"] for x in cases]
    basic = [tokenization.BasicTokenizer(lower) for lower in (True, False)]
    vocab = output / "vocab.txt"
    if not vocab.exists():
        vocab.write_text("\n".join(make_vocabulary(strings, basic)) + "\n", encoding="utf-8")
    tokenizers = {
        mode: tokenization.FullTokenizer(str(vocab), mode == "uncased")
        for mode in ("uncased", "cased")
    }
    with lzma.open(output / "tokenization.jsonl.xz", "wt", encoding="utf-8") as writer:
        writer.write("\n".join(record_tokens(tokenizers, strings)) + "\n")
    np.savez_compressed(
        output / "classification.npz",
        **record_classification(modules["run_classifier"], tokenizers["uncased"]),
    )
    manifest = {
        "unicode_version": unicodedata.unidata_version,
        "pretraining": record_pretraining(modules["create_pretraining_data"], tokenizers, output),
        "squad": {
            version: record_squad(modules["run_squad"], tokenizers["uncased"], version, output)
            for version in SQUAD
        },
        "code_points": record_code_points(tokenizers),
    }
    (output / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
