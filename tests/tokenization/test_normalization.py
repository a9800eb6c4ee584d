"""The frozen Unicode table, and the rules that depend on neighbouring characters."""

import hashlib
import importlib.util
import itertools
import random
import subprocess
import sys
import unicodedata

import pytest

from bert_tf.tokenization import normalization

UNICODE_14 = pytest.mark.skipif(
    unicodedata.unidata_version != normalization.UNICODE_VERSION,
    reason="needs a Python with Unicode 14.0",
)


@UNICODE_14
@pytest.mark.slow
def test_tool_writes_the_same_tables(root):
    spec = importlib.util.spec_from_file_location("tool", root / "tools/make_unicode_table.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert hashlib.sha256(tool.make().encode()).hexdigest() == normalization.TABLE_SHA256
    assert hashlib.sha256(tool.make_cases().encode()).hexdigest() == normalization.CASES_SHA256


def test_unicode_data_of_this_python_are_not_read(root):
    for path in [*root.glob("*.py"), *root.glob("bert_tf/**/*.py")]:
        assert "unicodedata" not in path.read_text(encoding="utf-8"), path
    code = """
import sys, types
sys.modules["unicodedata"] = None
package = types.ModuleType("bert_tf.tokenization")
package.__path__ = ["bert_tf/tokenization"]
sys.modules["bert_tf.tokenization"] = package
from bert_tf.tokenization import normalization
assert normalization.normalize("A\\u03a3 \\uac00", True) == "a\\u03c2 \\u1100\\u1161"
"""
    subprocess.run([sys.executable, "-c", code], cwd=root, check=True)


@UNICODE_14
def test_normalize_agrees_with_whole_strings():
    """Normalizing single characters equals lower-casing and decomposing the whole text."""
    everything = [chr(code) for code in range(sys.maxunicode + 1)]
    marks = [char for char in everything if unicodedata.combining(char)]
    alphabet = [*"aΣσİßẞǅ가각\u1e9b\u0344é,. ", *marks]
    rng = random.Random(1)
    kept = {mark for mark in marks if unicodedata.category(mark) != "Mn"}
    with_kept = [
        char for char in everything if kept.intersection(unicodedata.normalize("NFD", char.lower()))
    ]
    texts = ["a" + "".join(pair) for pair in itertools.product(with_kept, with_kept)]
    texts += ["".join(rng.choices(alphabet, k=12)) for _ in range(3000)]
    for text in texts:
        whole = unicodedata.normalize("NFD", text.lower())
        plain = "".join(char for char in whole if unicodedata.category(char) != "Mn")
        spaced = "".join(
            f" {char} " if unicodedata.category(char).startswith("P") else char for char in plain
        )
        assert normalization.normalize(text, True).split() == spaced.split(), ascii(text)
