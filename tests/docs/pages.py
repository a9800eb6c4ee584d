"""The blocks of code in README.md, docs/ and benchmarks/RESULTS.md, and the commands in them."""

import pathlib
import re
import shlex
from typing import NamedTuple


class Block(NamedTuple):
    """What stands between two lines of ```."""

    page: str  # path from the root
    line: int  # of its first ```
    language: str
    text: str

    @property
    def place(self):
        return f"{self.page}, line {self.line}"


class Command(NamedTuple):
    """One command of a block: `words` behind `python`, or all of them."""

    place: str
    words: list
    is_script: bool


def paths(root):
    """The pages, README.md first."""
    names = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"]
    found = [root / name for name in names] + sorted((root / "docs").glob("*.md"))
    return [path for path in [*found, root / "benchmarks" / "RESULTS.md"] if path.exists()]


def blocks(root: pathlib.Path):
    """Yields each `Block` of all pages."""
    for path in paths(root):
        start, kept = None, []
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.startswith("```"):
                kept.append(line)
            elif start is None:
                start, language, kept = number, line[3:].strip(), []
            else:
                page = str(path.relative_to(root))
                yield Block(page, start, language, "\n".join(kept) + "\n")
                start = None
        assert start is None, f"{path}, line {start}: the block has no end"


def commands(block):
    """Yields each `Command` of a block; of one without a language, those that run a script.

    Programs with files of their own (`> file`) and what is only a setting (`NAME=value`) are left
    out; so are the lines of a file that is written as it stands (`<<`).
    """
    text = block.text.replace("\\\n", " ")
    text = re.sub(r"<<\s*'?(\w+)'?\n.*?\n\1\n", "\n", text, flags=re.DOTALL)
    for line in text.splitlines():
        try:
            words = _split(line)
        except ValueError as error:
            assert block.language != "bash", f"{block.place}: {error}: {line}"
            continue
        for part in words:
            while part and re.fullmatch(r"[A-Za-z_]\w*=.*", part[0], re.DOTALL):
                part = part[1:]
            if not part:
                continue
            name, *rest = part
            if re.search(r"(^|/)python3?$", name):
                name, *rest = rest
            if name.startswith("tools/"):  # their flags are those of another library
                continue
            is_script = name.endswith(".py") or [name, *rest[:1]] == ["-m", "bert_tf.toy_corpus"]
            if name == "-m" and is_script:
                name, rest = f"-m {rest[0]}", rest[1:]
            if is_script or block.language == "bash":
                yield Command(block.place, [name, *rest], is_script)


def _split(line):
    """The commands of a line as lists of words, without what they are read from or written to."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    found, skip = [[]], False
    for word in lexer:
        if set(word) <= set("|&;()"):
            found.append([])
        elif set(word) <= set("<>"):
            skip = True
        elif skip:
            skip = False
        else:
            found[-1].append(word)
    return filter(None, found)
