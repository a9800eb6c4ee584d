"""Progress is logged, and shown as a bar on a terminal."""

import io
import json
import logging
import sys

import pytest

from bert_tf import console


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def logger(monkeypatch):
    """The bert_tf logger without handlers, as in a new process."""
    logger = logging.getLogger("bert_tf")
    monkeypatch.setattr(logger, "handlers", [])
    monkeypatch.setattr(logger, "propagate", logger.propagate)
    level = logger.level
    yield logger
    logger.setLevel(level)


def count_to_1000(initial=0):
    progress = console.ProgressLog("reading", "lines", total=1000, initial=initial)
    for _ in range(1000 - initial):
        progress.add()
        if progress.count == 500:
            console.warning("line %d is empty", progress.count)
    progress.done()


def test_log_lines(logger, monkeypatch):
    monkeypatch.setattr(console, "SECONDS_PER_LINE", 0.0)
    stream = io.StringIO()
    console.show(stream)
    count_to_1000(initial=400)
    lines = stream.getvalue().splitlines()
    assert lines[0].startswith("reading: 401 of 1000 lines, ") and lines[0].endswith(" left")
    assert "warning: line 500 is empty" in lines
    assert lines[-1].startswith("reading: 1000 lines in 0s, ") and lines[-1].endswith(" lines/s")
    assert "\r" not in stream.getvalue()


def test_bar_on_a_terminal(logger):
    stream = Terminal()
    console.show(stream)
    with console.closing_bars():
        count_to_1000()
        console.ProgressLog("failing", "lines")
    text = stream.getvalue()
    assert text.endswith("\r") and "reading:   0%" in text
    # The bar is erased before a log line is printed.
    for message in ("warning: line 500 is empty\n", "reading: 1000 lines in 0s"):
        before = text[: text.index(message)]
        assert before.endswith("\r") and not before.split("\r")[-2].strip()


BAD, ESCAPED = (
    "a\x1b[2J\r\x07\x7f\x9bé\u200d\tb",
    "a\\u001b[2J\\u000d\\u0007\\u007f\\u009bé\u200d\tb",
)


def test_messages_have_no_control_characters(logger, monkeypatch):
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    console.show(rewrite=lambda message: f"{message}!")
    console.info("the label %s\nis new", BAD)
    console.warning(BAD)
    progress = console.ProgressLog(BAD, "lines")
    progress.add()
    progress.done()
    console.error(f"error: {BAD}\nwrote all")
    text = stream.getvalue()
    assert f"the label {ESCAPED}\nis new!\n" in text
    assert f"warning: {ESCAPED}!\n" in text
    assert text.count(f"{ESCAPED}: 0 lines") and f"{ESCAPED}: 1 lines in" in text
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
