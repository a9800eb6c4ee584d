"""The frozen Unicode table, and the rules that depend on neighbouring characters."""

import importlib.util
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
    assert tool.make() == normalization.TABLE_PATH.read_text(encoding="ascii")
    assert tool.make_cases() == normalization.CASES_PATH.read_text(encoding="ascii")


def test_unicode_data_of_this_python_are_not_read(root):
    for path in [*root.glob("*.py"), *root.glob("bert_tf/**/*.py")]:
        assert "unicodedata" not in path.read_text(encoding="utf-8"), path
