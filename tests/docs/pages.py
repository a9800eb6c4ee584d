"""The code blocks in pages and script help, and the commands in them."""

import ast
import pathlib
import re
import shlex
from typing import NamedTuple

from bert_tf.__main__ import COMMANDS


class Block(NamedTuple):
    """A fenced code block."""

    page: str  # path relative to the root
    line: int  # line number of the opening fence
    language: str
    text: str

    @property
    def place(self):
        return f"{self.page}, line {self.line}"


class Command(NamedTuple):
    """A command of a block that runs a script of this repository.

    `script` is "SCRIPT.py", "bert-tf COMMAND" or "-m MODULE".
    """

    place: str
    script: str
    flags: list


def paths(root):
    """Return the paths of the pages, README.md first."""
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    pages = [root / name for name in names] + sorted((root / "docs").glob("*.md"))
    return [path for path in [*pages, root / "benchmarks" / "RESULTS.md"] if path.exists()]


def blocks(root: pathlib.Path):
    """Yield each `Block` of all pages."""
    for path in paths(root):
        start, lines = None, []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.startswith("```"):
                lines.append(line)
            elif start is None:
                start, language, lines = number, line[3:].strip(), []
            else:
                page = str(path.relative_to(root))
                yield Block(page, start, language, "\n".join(lines) + "\n")
                start = None
        assert start is None, f"{path}, line {start}: the block has no end"


def help_blocks(root):
    """Yield a `Block` of the examples in the help of each script and command."""
    for path in sorted([*root.glob("*.py"), *(root / "bert_tf" / "cli").glob("*.py")]):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        lines = [line for line in text.splitlines() if line.startswith("    ")]
        yield Block(str(path.relative_to(root)), 1, "", "\n".join(lines) + "\n")


def commands(block):
    """Yield each `Command` of a block.

    Redirections (`> file`), assignments (`NAME=value`) and here documents (`<<`) are omitted.
    """
    text = block.text.replace("\\\n", " ").replace("$seed", "0")
    text = re.sub(r"<<\s*'?(\w+)'?\n.*?\n\1\n", "\n", text, flags=re.DOTALL)
    for line in text.splitlines():
        try:
            parts = list(_split(line))
        except ValueError as error:
            assert block.language != "bash", f"{block.place}: {error}: {line}"
            continue
        for words in parts:
            while words and re.fullmatch(r"[A-Za-z_]\w*=.*", words[0], re.DOTALL):
                words = words[1:]
            if words and (script := _script(words, block.place)):
                yield Command(block.place, *script)


def _script(words, place):
    """Return a script and its flags, or None for other programs."""
    if is_python := re.search(r"(^|/)python3?$", words[0]):
        words = words[1:]
    name, *rest = words
    if is_python and name == "-m":
        if rest[0].startswith(("bert_tf.", "examples.")):
            return f"-m {rest[0]}", rest[1:]
        name = {"bert_tf": "bert-tf"}.get(rest.pop(0))
    # Scripts in tools/ need libraries that the tests lack.
    if re.fullmatch(r"(\./)?(benchmarks/)?\w+\.py", name or ""):
        return name, rest
    if not re.search(r"(^|/)bert-tf$", name or "") or (rest and rest[0].startswith("-")):
        return None
    for length in (2, 1):
        if " ".join(rest[:length]) in COMMANDS:
            return f"bert-tf {' '.join(rest[:length])}", rest[length:]
    raise AssertionError(f"{place}: there is no command {' '.join(words)}")


def _split(line):
    """Return the commands of a line as lists of words, without redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    parts, skip_next = [[]], False
    for word in lexer:
        if set(word) <= set("|&;()"):
            parts.append([])
        elif set(word) <= set("<>"):
            skip_next = True
        elif skip_next:
            skip_next = False
        else:
            parts[-1].append(word)
    return filter(None, parts)
