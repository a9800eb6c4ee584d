"""MkDocs hook: adds the pages outside docs/ to the site and adjusts links to them.

In the repository these pages stay in their usual places, and links between files stay relative.
"""

import posixpath
import re

from mkdocs.structure.files import File

# Path from the repository root -> name of the page.
PAGES = {
    "README.md": "readme.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/RESULTS.md": "benchmarks.md",
}
_LINK = re.compile(r"\[([^\]]*)\]\((?!https?://)([^)#\s]*)(#[^)\s]*)?\)")


def on_files(files, config):
    """Add the pages."""
    root = posixpath.dirname(config.config_file_path)
    for path, name in PAGES.items():
        with open(posixpath.join(root, path), encoding="utf-8") as reader:
            text = reader.read()
        files.append(File.generated(config, name, content=_convert_links(text, path)))
    return files


def on_page_markdown(markdown, page, **_):
    """Convert links from docs/ to other files into links to these pages."""
    if page.file.src_uri in PAGES.values():
        return markdown
    return _convert_links(markdown, f"docs/{page.file.src_uri}")


def _convert_links(text, path):
    """Return the text of a repository file with its links converted to those of the site.

    Links to files that are not pages become plain text.
    """

    def convert(link):
        words, target, anchor = link[1], link[2], link[3] or ""
        if not target:
            return link[0]
        linked = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if linked in PAGES:
            return f"[{words}]({PAGES[linked]}{anchor})"
        if linked.startswith("docs/"):
            return f"[{words}]({linked.removeprefix('docs/')}{anchor})"
        return words

    return _LINK.sub(convert, text)
