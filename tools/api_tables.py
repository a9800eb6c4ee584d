"""MkDocs hook that adds a table of its names to each page of docs/api."""

import functools
import pathlib
import re

import griffe

ROOT = pathlib.Path(__file__).resolve().parent.parent


@functools.cache
def _package():
    return griffe.load("bert_tf", search_paths=[ROOT])


def _description(name):
    """Return the first sentence of a docstring."""
    docstring = _package()[name.removeprefix("bert_tf.")].docstring
    return docstring.value.split("\n\n")[0].replace("\n", " ").rstrip(".")


def on_page_markdown(markdown, page, **_):
    """Put the table before the first docstring, and hide the methods of options."""
    names = re.findall(r"(?m)^::: (.+)$", markdown)
    if len(names) < 2 or not page.file.src_uri.startswith("api/"):
        return markdown
    rows = [
        f"| [`{name.removeprefix('bert_tf.')}`](#{name}) | {_description(name)} |" for name in names
    ]
    table = "\n".join(["| name | description |", "| --- | --- |", *rows])
    options = r"(?m)^::: .*(?:[a-z]{4}Options|[^t]Config)$(?!\n )"
    markdown = re.sub(options, r"\g<0>\n    options: {members: false}", markdown)
    return markdown.replace("::: ", f"{table}\n\n::: ", 1)
