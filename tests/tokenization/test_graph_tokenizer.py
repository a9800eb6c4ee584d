"""The tokenizer in the graph gives what the one in Python gives, on every string."""

import json
import os
import pathlib
import shutil
import subprocess
import sys

import hard_strings
import pytest
import tensorflow as tf
from test_tokenization import CODE_POINTS

from bert_tf.errors import UserError
from bert_tf.tasks import classification, tsv
from bert_tf.tokenization import FullTokenizer, packing

graph = pytest.importorskip("bert_tf.tokenization.graph")
pytest.importorskip("tensorflow_text")

TEXT_OPS = {"FastBertNormalize", "FastWordpieceTokenizeWithOffsets"}
COUNT = 6000


@pytest.fixture(scope="module")
def rng(request):
    return hard_strings.fresh_random(request.config)


@pytest.fixture(scope="module")
def golden(shared):
    """For uncased and cased the tokenizers in Python and in the graph."""
    vocab = str(shared / "data/uncased_vocab.txt")
    pairs = {}
    for lower in (True, False):
        python = FullTokenizer(vocab, lower)
        pairs[lower] = python, graph.GraphTokenizer(python.vocab, lower)
    return pairs


@pytest.fixture(scope="module")
def made_up(rng, tmp_path_factory):
    """The same over vocabularies of many scripts, special tokens kept or not."""
    folder = tmp_path_factory.mktemp("vocab")
    pairs = {}
    for lower in (True, False):
        pieces = hard_strings.vocabulary(lower, rng)
        path = hard_strings.write_vocabulary(folder / f"vocab_{lower}.txt", pieces)
        for keep in (True, False):
            pairs[lower, keep] = (
                FullTokenizer(path, lower, keep_special_tokens=keep),
                graph.GraphTokenizer(path, lower, keep_special_tokens=keep),
            )
    return pairs


def _differences(python, texts, ids, starts=None, ends=None):
    """The first few texts where the two differ."""
    if starts is None:
        found = [(want,) for want in python.encode_batch(texts)]
        given = [(row,) for row in ids.to_list()]
    else:
        found = [python.encode_with_offsets(text) for text in texts]
        given = list(zip(ids.to_list(), starts.to_list(), ends.to_list(), strict=True))
    both = zip(texts, found, given, strict=True)
    return [(text, want, got) for text, want, got in both if want != got][:3]


def test_golden_cases(shared, golden):
    lines = (shared / "golden/tokenization/cases.jsonl").read_text(encoding="utf-8").splitlines()
    cases = [json.loads(line) for line in lines]
    texts = [
        bytes.fromhex(case["bytes_hex"]) if "bytes_hex" in case else case["text"].encode()
        for case in cases
    ]
    for lower, key in ((True, "uncased"), (False, "cased")):
        python, ops = golden[lower]
        wanted = [python.convert_tokens_to_ids(case[key]) for case in cases]
        assert ops.tokenize(texts).to_list() == wanted
        assert not _differences(python, texts, *ops.tokenize_with_offsets(texts))


@pytest.mark.parametrize(("context", "lower"), CODE_POINTS)
def test_every_code_point(golden, context, lower):
    python, ops = golden[lower]
    found = hard_strings.digest(
        lambda texts: ops.tokenize(texts).to_list(), python.inv_vocab, context
    )
    assert found == CODE_POINTS[context, lower]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("lower", [True, False])
def test_random_strings(made_up, rng, lower, keep):
    python, ops = made_up[lower, keep]
    texts = [hard_strings.string(rng) for _ in range(COUNT)]
    ids = ops.tokenize(texts)
    assert not _differences(python, texts, ids)
    known = sum(index != python.vocab["[UNK]"] for index in ids.values.numpy())
    assert known > 0.3 * len(ids.values)  # else the test would say little
    assert not _differences(python, texts, *ops.tokenize_with_offsets(texts))


@pytest.mark.parametrize("lower", [True, False])
def test_random_strings_real_vocabulary(golden, rng, lower):
    python, ops = golden[lower]
    texts = [hard_strings.string(rng) for _ in range(COUNT)]
    assert not _differences(python, texts, ops.tokenize(texts))


@pytest.mark.slow
@pytest.mark.parametrize("lower", [True, False])
def test_many_random_strings(made_up, golden, rng, lower):
    for _ in range(20):
        texts = [hard_strings.string(rng) for _ in range(10_000)]
        for python, ops in (golden[lower], made_up[lower, False], made_up[lower, True]):
            assert not _differences(python, texts, ops.tokenize(texts))
            assert not _differences(python, texts[:2000], *ops.tokenize_with_offsets(texts[:2000]))


@pytest.mark.parametrize("lower", [True, False])
def test_small_batches(made_up, lower):
    python, ops = made_up[lower, True]
    for texts in ([], [""], ["", " \0"], ["Σ"], ["aΣ", ""], ["\u0301"], ["[MASK]"], ["x" * 300]):
        texts = [text.encode() for text in texts]
        constant = tf.constant(texts, tf.string)
        assert not _differences(python, texts, ops.tokenize(constant))
        assert not _differences(python, texts, *ops.tokenize_with_offsets(constant))


def test_chinese_vocabulary(tmp_path, rng):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(0x4E00, 0x9FA6)), "，"]
    pieces += [
        *"abcdefghijklmnopqrstuvwxyz0123456789",
        *("##" + char for char in "abcdefgh0123456"),
    ]
    path = hard_strings.write_vocabulary(tmp_path / "vocab.txt", pieces)
    python, ops = FullTokenizer(path), graph.GraphTokenizer(path)
    texts = ["".join(rng.choices("的一是 在了，abcdé１豈𠀀h0", k=rng.randint(0, 30))).encode()
             for _ in range(500)]  # fmt: skip
    assert not _differences(python, texts, ops.tokenize(texts))


SPECIAL = [
    ("[MASK] is [SEP].", ["[MASK]", "is", "[SEP]", "."], [(0, 6), (7, 9), (10, 15), (15, 16)]),
    ("is[MASK]is", ["is", "[MASK]", "is"], [(0, 2), (2, 8), (8, 10)]),
    ("[mask] [MASK][MASK]\u0301", ["[UNK]", "[UNK]", "[UNK]", "[MASK]", "[MASK]"], None),
    ("ΑΣ[MASK]Α", ["[UNK]", "[MASK]", "[UNK]"], [(0, 2), (2, 8), (8, 9)]),
    ("\U000f0000\U000f0001 \U000f0002[UNK]", ["[UNK]", "[UNK]", "[UNK]"], None),
]


@pytest.mark.parametrize(("text", "pieces", "spans"), SPECIAL)
def test_special_tokens(tmp_path, text, pieces, spans):
    vocab = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "is", "."]
    path = hard_strings.write_vocabulary(tmp_path / "vocab.txt", vocab)
    keeping = FullTokenizer(path, keep_special_tokens=True)
    assert keeping.tokenize(text) == pieces
    if spans:
        _, starts, ends = keeping.encode_with_offsets(text)
        assert list(zip(starts, ends, strict=True)) == spans
    ops = graph.GraphTokenizer(path, keep_special_tokens=True)
    assert not _differences(keeping, [text.encode()], ops.tokenize([text]))
    assert not _differences(keeping, [text.encode()], *ops.tokenize_with_offsets([text]))
    assert "[MASK]" not in FullTokenizer(path).tokenize(text)


def test_truncation_is_the_loop():
    cases = [(a, b, limit) for a in range(14) for b in range(14) for limit in range(2, 14)]
    for limit in range(2, 14):
        chosen = [(a, b) for a, b, other in cases if other == limit]
        lengths = tf.constant(chosen)
        kept = packing.truncated_lengths(lengths[:, 0], lengths[:, 1], limit)
        for (a, b), *got in zip(chosen, *(part.numpy() for part in kept), strict=True):
            one, other = [0] * a, [0] * b
            classification.truncate_pair(one, other, limit)
            assert got == [len(one), len(other)], (a, b, limit)


def _wanted(python, texts, pairs, max_seq_length):
    examples = [tsv.Example("", *both) for both in zip(texts, pairs, strict=True)]
    return list(classification.features(examples, ["0"], python, max_seq_length))


@pytest.mark.parametrize("max_seq_length", [5, 8, 33, 64])
@pytest.mark.parametrize("longest", [False, True])
def test_packing(made_up, rng, max_seq_length, longest):
    python, ops = made_up[True, False]
    texts = [hard_strings.string(rng)[: rng.randint(0, 80)] for _ in range(200)]
    pairs = [hard_strings.string(rng)[: rng.randint(0, 80)] * rng.randint(0, 1) for _ in texts]
    for second in (pairs, None):
        wanted = _wanted(python, texts, second or [None] * len(texts), max_seq_length)
        packed = ops(texts, second, max_seq_length, pad_to_longest=longest)
        size = max_seq_length
        if longest:
            size = max(sum(row["input_mask"]) for row in wanted)
        for name, value in packed.items():
            assert value.dtype == tf.int32
            assert value.numpy().tolist() == [row[name][:size] for row in wanted], name
            assert not any(any(row[name][size:]) for row in wanted)


def test_packing_needs_room(made_up):
    with pytest.raises(UserError, match="max_seq_length must be at least 5, not 4"):
        made_up[True, False][1](["a"], max_seq_length=4)


def test_in_a_dataset(golden):
    python, ops = golden[True]
    dataset = tf.data.Dataset.from_tensor_slices((["Hello!", "ΟΔΟΣ", "x"], ["you", "", "y z"]))
    dataset = dataset.batch(2).map(lambda a, b: ops(a, b, max_seq_length=9))
    assert dataset.element_spec["input_ids"].shape[1] == 9
    rows = [row for batch in dataset for row in batch["input_ids"].numpy().tolist()]
    wanted = _wanted(python, ["Hello!", "ΟΔΟΣ", "x"], ["you", "", "y z"], 9)
    assert rows == [row["input_ids"] for row in wanted]


def test_vocabularies_that_cannot_be(tmp_path):
    head = ["[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    path = hard_strings.write_vocabulary(tmp_path / "vocab.txt", [*head, "\U00010400" * 100])
    with pytest.raises(UserError, match="has more than 256 bytes"):
        graph.GraphTokenizer(path)
    with pytest.raises(UserError, match="cannot be read"):
        graph.GraphTokenizer(str(tmp_path / "none.txt"))


class _Served(tf.Module):
    """What a served model has of a tokenizer."""

    def __init__(self, tokenizer):
        super().__init__()
        self.tokenizer = tokenizer

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string)] * 2)
    def pack(self, texts, pairs):
        return self.tokenizer(texts, pairs, max_seq_length=48)


RELOADED = """
import json, locale, os, sys
locale.setlocale(locale.LC_ALL, "")
import tensorflow as tf
from tensorflow.python.framework import op_def_registry
folder = sys.argv[1]
names = set()
def collect(nodes):
    for node in nodes:
        names.add(node.op)
from tensorflow.core.protobuf import saved_model_pb2
saved = saved_model_pb2.SavedModel()
saved.ParseFromString(open(os.path.join(folder, "saved_model.pb"), "rb").read())
graph_def = saved.meta_graphs[0].graph_def
collect(graph_def.node)
functions = {function.signature.name for function in graph_def.library.function}
for function in graph_def.library.function:
    collect(function.node_def)
foreign = sorted(name for name in names - functions if op_def_registry.get(name) is None)
import tensorflow_text
loaded = tf.saved_model.load(folder)
texts = [bytes.fromhex(line) for line in open(sys.argv[2])]
ids, starts, ends = loaded.tokenizer.tokenize_with_offsets(tf.constant(texts))
packed = loaded.pack(tf.constant(texts), tf.constant(texts[::-1]))
json.dump({
    "locale": locale.setlocale(locale.LC_ALL),
    "foreign": foreign,
    "ours": [name for name in sys.modules if name.startswith("bert_tf")],
    "ids": loaded.tokenizer.tokenize(tf.constant(texts)).to_list(),
    "offsets": [ids.to_list(), starts.to_list(), ends.to_list()],
    "packed": packed["input_ids"].numpy().tolist(),
}, open(sys.argv[3], "w"))
"""


def _with_locale(locale, folder):
    """The environment of a process in that locale; where it is not installed it is made."""
    environment = {**os.environ, "LC_ALL": locale, "CUDA_VISIBLE_DEVICES": ""}
    environment.pop("PYTHONPATH", None)
    probe = "import locale; locale.setlocale(locale.LC_ALL, '')"
    command = [sys.executable, "-c", probe]
    if subprocess.run(command, env=environment, capture_output=True).returncode:
        language, encoding = locale.split(".")
        made = ["localedef", "-i", language, "-f", encoding, str(folder / locale)]
        if not shutil.which("localedef") or subprocess.run(made, capture_output=True).returncode:
            pytest.skip(f"this system has no locale {locale} and cannot make it")
        environment["LOCPATH"] = str(folder)
    return environment


@pytest.mark.parametrize("locale", [pytest.param("C.UTF-8", marks=pytest.mark.slow), "tr_TR.UTF-8"])
def test_reloaded_in_a_fresh_process(made_up, rng, tmp_path, locale):
    environment = _with_locale(locale, tmp_path)
    python, ops = made_up[True, True]
    tf.saved_model.save(_Served(ops), str(tmp_path / "model"))
    texts = [hard_strings.string(rng) for _ in range(1000)]
    texts += ["ISTANBUL İstanbul ıIiİ ΟΔΟΣ".encode()]
    (tmp_path / "texts").write_text("".join(text.hex() + "\n" for text in texts))
    (tmp_path / "child.py").write_text(RELOADED)
    child = [sys.executable, "child.py", "model", "texts", "found.json"]
    done = subprocess.run(child, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert not done.returncode, done.stderr[-3000:]
    found = json.loads((tmp_path / "found.json").read_text())
    assert locale in found["locale"]
    assert not found["ours"]
    # Whatever core TensorFlow does not know comes from tensorflow-text.
    assert set(found["foreign"]) == TEXT_OPS
    assert found["ids"] == python.encode_batch(texts)
    both = zip(*(python.encode_with_offsets(text) for text in texts), strict=True)
    assert found["offsets"] == [list(part) for part in both]
    wanted = _wanted(python, texts, texts[::-1], 48)
    assert found["packed"] == [row["input_ids"] for row in wanted]


def test_nothing_else_is_imported_for_it():
    """Records and training need no tensorflow-text."""
    code = "import bert_tf.tokenization, sys; assert 'tensorflow_text' not in sys.modules"
    root = pathlib.Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True, capture_output=True)
