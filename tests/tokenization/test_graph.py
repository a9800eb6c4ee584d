"""The graph tokenizer gives the ids of the Python tokenizer for every string."""

import inspect
import json
import os
import random
import re
import shutil
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from bert_tf.tokenization import FullTokenizer, packing
from tests.tokenization import hard_strings

graph = pytest.importorskip("bert_tf.tokenization.graph")
pytest.importorskip("tensorflow_text")

TEXT_OPS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}


@pytest.fixture(scope="module")
def tokenizers(golden_tokenizers):
    """Pairs of Python and graph tokenizers with the vocabulary `vocab_name`."""
    return {
        lower: (python, graph.GraphTokenizer(python.vocab, lower))
        for lower, python in golden_tokenizers.items()
    }


@pytest.fixture(scope="module")
def scripts(script_vocabs):
    """A function from (do_lower_case, keep_special_tokens) to a pair for many scripts."""
    pairs = {}

    def get(*options):
        if options not in pairs:
            path = script_vocabs[options[0]]
            pairs[options] = FullTokenizer(path, *options), graph.GraphTokenizer(path, *options)
        return pairs[options]

    return get


def differences(python, texts, ids, starts=None, ends=None):
    """Return the first few (text, expected, actual) that differ."""
    if starts is None:
        expected = [(row,) for row in python.encode_batch(texts)]
        actual = [(row,) for row in ids.to_list()]
    else:
        expected = [python.encode_with_offsets(text) for text in texts]
        actual = list(zip(ids.to_list(), starts.to_list(), ends.to_list(), strict=True))
    rows = zip(texts, expected, actual, strict=True)
    return [row for row in rows if row[1] != row[2]][:3]


@pytest.mark.parametrize("vocab_name", ["project", "published"], indirect=True)
def test_golden_cases(golden_cases, tokenizers):
    texts = [text if isinstance(text, bytes) else text.encode() for text, _ in golden_cases]
    for lower, (python, ops) in tokenizers.items():
        expected = [python.convert_tokens_to_ids(tokens[lower]) for _, tokens in golden_cases]
        assert ops.tokenize(texts).to_list() == expected
        assert not differences(python, texts, *ops.tokenize_with_offsets(texts))


@pytest.mark.parametrize(
    "vocab_name", ["project", pytest.param("published", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize(
    ("context", "lower"),
    [
        pytest.param(context, lower, marks=() if context == "the{}of" else pytest.mark.slow)
        for context, lower in hard_strings.CODE_POINT_DIGESTS
    ],
)
def test_every_code_point(tokenizers, code_point_digests, context, lower):
    python, ops = tokenizers[lower]
    digest = hard_strings.digest(
        lambda texts: ops.tokenize(texts).to_list(), python.inv_vocab, context
    )
    assert digest == code_point_digests[context, lower]


@pytest.mark.parametrize(
    ("lower", "keep"),
    [
        (True, True),
        pytest.param(False, False, marks=pytest.mark.slow),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
)
def test_random_strings(scripts, rng, lower, keep):
    python, ops = scripts(lower, keep)
    texts = [hard_strings.string(rng) for _ in range(4000)]
    ids = ops.tokenize(texts)
    assert not differences(python, texts, ids)
    num_known = sum(index != python.vocab["[UNK]"] for index in ids.values.numpy())
    assert num_known > 0.3 * len(ids.values)  # most tokens are not [UNK]
    assert not differences(python, texts, *ops.tokenize_with_offsets(texts))


@pytest.mark.parametrize("lower", [True, False])
def test_spans_of_texts_without_context(scripts, rng, lower):
    """A batch with a separate accent computes spans differently from a batch without."""
    python, ops = scripts(lower, True)
    context = re.compile(ops._span_class or "(?!)")
    texts = [hard_strings.string(rng) for _ in range(4000)]
    texts = [text for text in texts if not context.search(text.decode("utf-8", "ignore"))]
    texts += [b"ab " + "\u4e01x".encode() * 200 + b" b", b"x" * 202 + b" [MASK]"]
    assert len(texts) > 500
    plain = ops.tokenize_with_offsets(texts)
    assert not differences(python, texts, *plain)
    with_accent = ops.tokenize_with_offsets([*texts, "Ae\u0301 \u03a3".encode()])
    for values, expected in zip(with_accent, plain, strict=True):
        assert values[:-1].to_list() == expected.to_list()


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
def test_many_random_strings(scripts, tokenizers, rng, lower):
    for _ in range(20):
        texts = [hard_strings.string(rng) for _ in range(10_000)]
        for python, ops in (tokenizers[lower], scripts(lower, False), scripts(lower, True)):
            assert not differences(python, texts, ops.tokenize(texts))
            assert not differences(python, texts[:2000], *ops.tokenize_with_offsets(texts[:2000]))


@pytest.mark.parametrize("lower", [True, False])
def test_small_batches(scripts, lower):
    python, ops = scripts(lower, True)
    for texts in ([], [""], ["", " \0"], ["Σ"], ["aΣ", ""], ["\u0301"], ["[MASK]"], ["x" * 300]):
        texts = [text.encode() for text in texts]
        constant = tf.constant(texts, tf.string)
        assert not differences(python, texts, ops.tokenize(constant))
        assert not differences(python, texts, *ops.tokenize_with_offsets(constant))


def test_chinese_vocabulary(write_vocab, rng):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(0x4E00, 0x9FA6)), "，"]
    pieces += "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces += ["##" + char for char in "abcdefgh0123456"]
    path = write_vocab(pieces)
    python, ops = FullTokenizer(path), graph.GraphTokenizer(path)
    alphabet = "的一是 在了，abcdé１豈𠀀h0"
    texts = ["".join(rng.choices(alphabet, k=rng.randint(0, 30))).encode() for _ in range(500)]
    assert not differences(python, texts, ops.tokenize(texts))


def test_special_tokens(write_vocab):
    """Uses the texts of the Python tokenizer's test."""
    path = write_vocab(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "."])
    python = FullTokenizer(path, keep_special_tokens=True)
    ops = graph.GraphTokenizer(path, keep_special_tokens=True)
    texts = ["[MASK] is [SEP].", "is[MASK]is", "[mask] [MASK][MASK]\u0301", "ΑΣ[MASK]Α"]
    texts = [text.encode() for text in [*texts, "\U000f0000\U000f0001 \U000f0002[UNK]"]]
    assert not differences(python, texts, ops.tokenize(texts))
    assert not differences(python, texts, *ops.tokenize_with_offsets(texts))


def records(python, texts, pairs, max_seq_length):
    """Return the model's inputs as in the records of a classifier."""
    ids = zip(python.encode_batch(texts), python.encode_batch(pairs), strict=True)
    return [packing.pack_pair(a, b, python, max_seq_length) for a, b in ids]


@pytest.mark.parametrize(("max_seq_length", "longest"), [(5, False), (8, True), (33, False)])
def test_packing(scripts, rng, max_seq_length, longest):
    python, ops = scripts(True, False)
    texts = [hard_strings.string(rng)[: rng.randint(0, 80)] for _ in range(200)]
    pairs = [hard_strings.string(rng)[: rng.randint(0, 80)] * rng.randint(0, 1) for _ in texts]
    for second in (pairs, None):
        expected = records(python, texts, second or [""] * len(texts), max_seq_length)
        packed = ops(texts, second, max_seq_length, pad_to_longest=longest)
        size = max_seq_length
        if longest:
            size = max(sum(row["input_mask"]) for row in expected)
        for name, value in packed.items():
            assert value.dtype == tf.int32
            assert value.numpy().tolist() == [row[name][:size] for row in expected], name
            assert not any(any(row[name][size:]) for row in expected)


class Served(tf.Module):
    """A model with a tokenizer, as exported for serving."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)] * 2)
    def pack(self, texts, pairs):
        return self.tokenizer(texts, pairs, max_seq_length=48)


@pytest.fixture(scope="module")
def saved(scripts, seed, tmp_path_factory):
    """A saved tokenizer: its folder, texts, and the expected results."""
    python, ops = scripts(True, True)
    folder = str(tmp_path_factory.mktemp("saved"))
    tf.saved_model.save(Served(ops), folder)
    rng = random.Random(f"{seed} saved")
    texts = [hard_strings.string(rng) for _ in range(1000)]
    texts += ["ISTANBUL İstanbul ıIiİ ΟΔΟΣ".encode()]
    rows = zip(*(python.encode_with_offsets(text) for text in texts), strict=True)
    packed = records(python, texts, texts[::-1], 48)
    expected = {
        "ids": python.encode_batch(texts),
        "offsets": [list(part) for part in rows],
        "packed": [row["input_ids"] for row in packed],
    }
    return folder, texts, expected


def locale_environment(name, folder):
    """Return environment variables for a locale, and compile the locale if necessary."""
    variables = {"LC_ALL": name}
    probe = [sys.executable, "-c", "import locale; locale.setlocale(locale.LC_ALL, '')"]
    if subprocess.run(probe, env={**os.environ, **variables}, capture_output=True).returncode:
        language, encoding = name.split(".")
        command = ["localedef", "-i", language, "-f", encoding, str(folder / name)]
        if not shutil.which("localedef") or subprocess.run(command, capture_output=True).returncode:
            pytest.skip(f"the locale {name} is not installed and cannot be compiled")
        variables["LOCPATH"] = str(folder)
    return variables


# The slow test also runs this in a process without bert_tf.
def reload(folder, texts):
    """Load a saved tokenizer and return its results."""
    loaded = tf.saved_model.load(folder)
    ids, starts, ends = loaded.tokenizer.tokenize_with_offsets(tf.constant(texts))
    packed = loaded.pack(tf.constant(texts), tf.constant(texts[::-1]))
    return {
        "ids": loaded.tokenizer.tokenize(tf.constant(texts)).to_list(),
        "offsets": [ids.to_list(), starts.to_list(), ends.to_list()],
        "packed": packed["input_ids"].numpy().tolist(),
    }


def test_saved_ops_are_in_tf_serving(saved):
    """Only two ops are not in core TensorFlow."""
    folder, _, _ = saved
    saved_model = saved_model_pb2.SavedModel()
    with open(os.path.join(folder, "saved_model.pb"), "rb") as reader:
        saved_model.ParseFromString(reader.read())
    library = saved_model.meta_graphs[0].graph_def
    functions = {function.signature.name for function in library.library.function}
    names = {node.op for node in library.node}
    names |= {node.op for function in library.library.function for node in function.node_def}
    assert {name for name in names - functions if not hasattr(tf.raw_ops, name)} == TEXT_OPS


CHILD = """
import json, locale, sys
locale.setlocale(locale.LC_ALL, "")
import tensorflow as tf
import tensorflow_text
exec(open("reload.py").read())
texts = [bytes.fromhex(line) for line in open("texts")]
results = {"locale": locale.setlocale(locale.LC_ALL), **reload(sys.argv[1], texts)}
results["bert_tf"] = [name for name in sys.modules if name.startswith("bert_tf")]
json.dump(results, open("results.json", "w"))
"""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["C.UTF-8", "tr_TR.UTF-8"])
def test_reloaded_in_a_process_without_bert_tf(saved, tmp_path, name):
    folder, texts, expected = saved
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", **locale_environment(name, tmp_path)}
    environment.pop("PYTHONPATH", None)
    (tmp_path / "texts").write_text("".join(text.hex() + "\n" for text in texts))
    (tmp_path / "reload.py").write_text(inspect.getsource(reload))
    (tmp_path / "child.py").write_text(CHILD)
    child = [sys.executable, "child.py", folder]
    done = subprocess.run(child, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-3000:]
    results = json.loads((tmp_path / "results.json").read_text())
    assert name in results.pop("locale")
    assert not results.pop("bert_tf")
    assert results == expected


def test_python_tokenizer_needs_no_tensorflow(root):
    """Making records does not import TensorFlow either."""
    code = "import bert_tf.tokenization, sys; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True)
