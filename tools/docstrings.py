"""Griffe extension for the reference: examples become code, and options show their help."""

import ast
import re

import griffe

# An example: lines from >>> to the next empty line.
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Adapts docstrings to Markdown."""

    def on_instance(self, *, node, obj, agent=None, **_):
        """Put examples into fences; `>>>` alone would be a quotation."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(lambda x: f"```pycon\n{x[0]}\n```", text)

    def on_attribute_instance(self, *, node, attr, agent=None, **_):
        """Show `NAME: TYPE = option(DEFAULT, HELP)` with its default, and the help below it."""
        value = getattr(node, "value", None)
        if not isinstance(value, ast.Call) or getattr(value.func, "id", "") != "option":
            return
        default, *help_text = value.args
        attr.value = ast.unparse(default)
        if help_text and isinstance(help_text[0], ast.Constant):
            attr.docstring = griffe.Docstring(help_text[0].value, parent=attr)
