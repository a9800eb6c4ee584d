"""MkDocs hook that adds pages from outside docs/, such as README.md, to the site.

The files stay where people expect them in the repository, with relative links between them; the
hook rewrites these links for the site.
"""

import posixpath
import re

from mkdocs.structure.files import File

# Path in the repository -> name of the page.
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
        files.append(File.generated(config, name, content=_rewrite_links(text, path)))
    return files


def on_page_markdown(markdown, page, **_):
    """Rewrite the links of a page in docs/."""
    if page.file.src_uri in PAGES.values():
        return markdown
    return _rewrite_links(markdown, f"docs/{page.file.src_uri}")


def _rewrite_links(text, path):
    """Return the text of a file with its links to other files as they are on the site.

    Links to files that are not pages of the site become plain text.

    Args:
      text: Markdown.
      path: path of the file in the repository.
    """

    def rewrite(link):
        label, target, anchor = link[1], link[2], link[3] or ""
        if not target:
            return link[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
        if target in PAGES:
            return f"[{label}]({PAGES[target]}{anchor})"
        if target.startswith("docs/"):
            return f"[{label}]({target.removeprefix('docs/')}{anchor})"
        return label

    return _LINK.sub(rewrite, text)
