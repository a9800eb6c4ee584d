"""Words of one's own in the [unusedN] slots: same ids, found in text, mistakes said."""

import subprocess
import sys

import pytest

from bert_tf import tokenization
from bert_tf.errors import UserError

PIECES = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "cat", "##s"]


def test_words_take_the_slots_in_order():
    changed, new = tokenization.put_words(PIECES, ["lynx", "cat", "##ish", "lynx"])
    assert new == ["lynx", "##ish"]
    assert changed == ["[PAD]", "lynx", "##ish", *PIECES[3:]]
    assert PIECES[1] == "[unused0]"


@pytest.mark.parametrize(
    ("word", "lower", "reason"),
    [
        ("Lynx", True, "'Lynx' would never be found, text with it is read as lynx"),
        ("covid-19", True, "read as covid - 19"),
        ("two words", False, "read as two words"),
        ("caf\u00e9", True, "read as cafe"),
        ("\u200b", True, "read as nothing"),
        ("[PAD", True, r"read as \[ pad"),
    ],
)
def test_words_that_no_text_has(word, lower, reason):
    with pytest.raises(UserError, match=reason):
        tokenization.put_words(PIECES, [word], lower)


def test_casing_and_room():
    assert tokenization.put_words(PIECES, ["Lynx", "caf\u00e9"], False)[1] == ["Lynx", "caf\u00e9"]
    with pytest.raises(UserError, match=r"3 words are new .* only 2 \[unusedN\] slots"):
        tokenization.put_words(PIECES, ["a", "b", "c"])


def test_script(root, tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "words.txt").write_text("lynx\n\ncat\n")
    command = [sys.executable, "-m", "bert_tf", "vocab", "add", "--vocab_file=vocab.txt",
               "--words_file=words.txt", "--output_file=new/vocab.txt"]  # fmt: skip
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "1 words put into [unusedN] slots, 1 were there already" in done.stderr
    before = tokenization.FullTokenizer(str(tmp_path / "vocab.txt"))
    after = tokenization.FullTokenizer(str(tmp_path / "new/vocab.txt"))
    assert before.tokenize("A lynx, cats") == ["[UNK]", "[UNK]", "[UNK]", "cat", "##s"]
    assert after.tokenize("lynx cats") == ["lynx", "cat", "##s"]
    assert after.vocab["lynx"] == before.vocab["[unused0]"]
    assert {**after.vocab, "[unused0]": 1}.items() >= before.vocab.items()
    (tmp_path / "words.txt").write_text("Lynx\n")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "'Lynx' would never be found" in done.stderr and "Traceback" not in done.stderr
