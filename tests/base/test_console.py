"""Progress is logged, and shown as a bar on a terminal."""

import io
import json
import logging
import re
import sys

import pytest

from bert_tf import console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def show(monkeypatch):
    """`console.show` in a process without log handlers, with every line of progress."""
    logger = logging.getLogger("bert_tf")
    monkeypatch.setattr(logger, "handlers", [])
    for name in ("propagate", "level"):
        monkeypatch.setattr(logger, name, getattr(logger, name))
    monkeypatch.setattr(console, "SECONDS_PER_LINE", 0.0)
    return console.show


def test_progress_as_lines_and_as_a_bar(show):
    for stream in (io.StringIO(), Terminal()):
        logging.getLogger("bert_tf").handlers.clear()
        show(stream)
        progress = console.ProgressLog("reading", "lines", total=1000)
        for _ in range(1000):
            progress.add()
            if progress.count == 500:
                console.warning("line %d is empty", progress.count)
        progress.done()
        console.ProgressLog("failing", "lines")
        console.error("no space")
        text = stream.getvalue()
        assert "reading: 1000 lines in 0s, " in text
        if not stream.isatty():
            assert re.match(r"reading: 1 of 1000 lines, .* left\n", text)
            assert "\nwarning: line 500 is empty\n" in text and "\r" not in text
            continue
        assert text.endswith("\r") and "reading:   0%" in text
        # The bar is erased before a log line is printed.
        for message in ("warning: line 500 is empty\n", "reading: 1000 lines in 0s"):
            before = text[: text.index(message)]
            assert before.endswith("\r") and not before.split("\r")[-2].strip()


BAD = "a\x1b[2J\r\x07\x7f\x9bé\u200d\tb"
ESCAPED = "a\\u001b[2J\\u000d\\u0007\\u007f\\u009bé\u200d\tb"


def test_messages_have_no_control_characters(show, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    show(rewrite=lambda message: f"{message}!")
    console.info("the label %s\nis new", BAD)
    console.warning(BAD)
    console.ProgressLog(BAD, "lines").done()
    console.error(f"error: {BAD}\nwrote all")
    text = stream.getvalue()
    assert f"the label {ESCAPED}\nis new!\n" in text
    assert f"warning: {ESCAPED}!\n" in text
    assert f"{ESCAPED}: 0 lines" in text
    assert text.endswith(f"error: {ESCAPED}\\nwrote all\n")
    assert not set(text) & set("\x1b\x07\x7f\x9b")


def test_answers_are_escaped_on_a_terminal_only(monkeypatch):
    answer = json.dumps({"label": BAD}, ensure_ascii=False) + "\n"
    for stream in (Terminal(), io.StringIO()):
        monkeypatch.setattr(sys, "stdout", stream)
        console.write(answer)
        text = stream.getvalue()
        assert json.loads(text) == {"label": BAD}
        assert (text == answer) != stream.isatty()
    # UTF-8 in any locale; lone surrogates are printed as JSON escapes.
    stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stream)
    console.write('"é \ud800"\n')
    assert json.loads(stream.buffer.getvalue()) == "é \ud800"
