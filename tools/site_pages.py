"""MkDocs hook that adds files from outside docs/ to the site, such as README.md and the notebooks.

The files keep their relative links for readers of the repository; the hook rewrites them for the
site. It also replaces comments such as `<!-- flags: TrainConfig OptimizerConfig.layer_decay -->`
and `<!-- arguments: FitConfig -->` by a table of the options that these configurations declare.
"""

import dataclasses
import html
import importlib
import json
import pathlib
import posixpath
import re

from mkdocs.structure.files import File

from bert_tf.cli.flags import RELEASE_FLAGS
from bert_tf.configs.base import Config

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Path in the repository -> name of the page.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
    "tests/golden/README.md": "golden.md",
}
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
PAGES |= {f"notebooks/{path.name}": f"{path.stem}.md" for path in NOTEBOOKS}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)([^)#\s]*)(#[^)\s]*)?\)")
# README.md has images in HTML, with a width for package indexes.
_IMAGE = re.compile(r'<img src="docs/([^"]*)"[^>]* alt="([^"]*)">')
# Badges are dropped, because browsers would load them from another server.
_BADGE = re.compile(r"(?m)^!\[[^\]]*\]\(https?://[^)]*\)\n")
# Terminal colors and progress bars.
_TERMINAL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[^\n]*\r(?!\n)")
# Short code such as --flags, in which lines should not break.
_SHORT_CODE = re.compile(r"<code>(?=[^<\s]{1,44}</code>)")
# Jupyter's anchors have capitals, unlike MkDocs' anchors.
_JUPYTER_ANCHOR = re.compile(r"\]\(#[^)]*\)")
# The title of a folded cell.
_TITLE = re.compile(r"# @title (.+?)(?: \{.*\})?\n")
# Longer outputs of notebooks are collapsed.
_MAX_LINES = 30
_OPTIONS = re.compile(r"<!-- (flag|argument)s: (.+?) -->")


def on_files(files, config):
    """Add the pages."""
    for path, name in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        if path.endswith(".ipynb"):
            text = notebook_to_markdown(json.loads(text))
        text = _rewrite_links(_BADGE.sub("", text), path, name)
        text = _IMAGE.sub(r"![\2](\1)", text)
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown, page, **_):
    """Rewrite the links of a page in docs/; rank the API reference after the guides in search."""
    name = page.file.src_uri
    if name.startswith("api/"):
        page.meta["search"] = {"boost": 0.3}
    markdown = _OPTIONS.sub(_options_table, markdown)
    return markdown if name in PAGES.values() else _rewrite_links(markdown, f"docs/{name}", name)


def on_page_content(content, **_):
    """Mark short code, for site.css."""
    return _SHORT_CODE.sub('<code class="short">', content)


def _options_table(comment):
    """Return the options in a comment, names of `Config` classes or CLASS.OPTION, as a table."""
    is_flag, rows = comment[1] == "flag", {}
    for class_name in comment[2].split():
        class_name, _, only = class_name.partition(".")
        for field in dataclasses.fields(_configs()[class_name]):
            text = field.metadata.get("help")
            if not text or only not in ("", field.name):
                continue
            known = not is_flag or field.name in RELEASE_FLAGS.split()
            mark = "" if known else " (bert_tf)"
            if choices := field.metadata["choices"]:
                text += f" One of {', '.join(f'`{x}`' for x in choices)}."
            default = "" if field.default in (None, (), "") else f"`{field.default}`"
            if field.default is dataclasses.MISSING:
                default = "required"
            name = f"--{field.name}" if is_flag else field.name
            rows[name] = f"| `{name}` | {default.lower() if is_flag else default} | {text}{mark} |"
    return "\n".join(
        [f"| {comment[1]} | default | meaning |", "| --- | --- | --- |", *rows.values()]
    )


def _configs():
    """Return all configurations by the names of their classes."""
    for pattern in ("configs/*.py", "tasks/*/options.py"):
        for path in (ROOT / "bert_tf").glob(pattern):
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    classes = [Config]
    for cls in classes:
        classes += cls.__subclasses__()
    return {cls.__name__: cls for cls in classes}


def notebook_to_markdown(notebook):
    """Convert a notebook with its saved outputs to Markdown."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(_JUPYTER_ANCHOR.sub(lambda link: link[0].lower(), source))
        elif cell["cell_type"] == "code" and source.strip():
            parts.append(_code(source))
            parts += map(_output, cell["outputs"])
    return "\n\n".join(filter(None, parts)) + "\n"


def _code(source):
    """Return code as Markdown, collapsed if it starts with a title as in Colab's forms."""
    code = _fenced(source, "python")
    title = _TITLE.match(source)
    if not title:
        return code
    return f"<details markdown><summary>{html.escape(title[1])}</summary>\n\n{code}\n\n</details>"


def _output(output):
    data = output.get("data", {})
    if "image/png" in data:
        content = "".join(data["image/png"]).replace("\n", "")
        return f'<p class="output"><img alt="" src="data:image/png;base64,{content}"></p>'
    text = "".join(data.get("text/plain") or output.get("text", ()))
    text = _TERMINAL.sub("", text).rstrip()
    if not text:
        return ""
    if text.count("\n") < _MAX_LINES:
        return f'<div class="output" markdown>\n\n{_fenced(text, "text")}\n\n</div>'
    summary = f"<summary>{text.count(chr(10)) + 1} lines of output</summary>"
    return f'<details class="output" markdown>{summary}\n\n{_fenced(text, "text")}\n\n</details>'


def _fenced(text, language):
    fence = "`" * max(3, *(len(run) + 1 for run in re.findall("`+", text)), 3)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


def _rewrite_links(text, path, name):
    """Rewrite links to other files for the site; drop links to files that are not on it.

    Args:
      text: Markdown.
      path: path of the file in the repository.
      name: name of its page.
    """

    def rewrite(link):
        label, target, anchor = link[1], link[2], link[3] or ""
        if not target:
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        page = PAGES.get(target) or target.removeprefix("docs/") * target.startswith("docs/")
        if not page:
            return label
        return f"[{label}]({posixpath.relpath(page, posixpath.dirname(name) or '.')}{anchor})"

    return _LINK.sub(rewrite, text)
