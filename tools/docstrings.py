"""Griffe extension that formats examples and options for the API reference."""

import ast
import re

import griffe

# An example spans from >>> to the next empty line.
_EXAMPLE = re.compile(r"^>>> .*(?:\n.+)*", re.MULTILINE)


class Docstrings(griffe.Extension):
    """Adapts docstrings to Markdown."""

    def on_instance(self, *, node, obj, agent=None, **_):
        """Fence examples, because Markdown reads `>>>` as a quotation."""
        if obj.docstring:
            text = obj.docstring.value
            obj.docstring.value = _EXAMPLE.sub(lambda x: f"```pycon\n{x[0]}\n```", text)

    def on_attribute_instance(self, *, node, attr, agent=None, **_):
        """Show the default and the help of `NAME: TYPE = option(DEFAULT, HELP)`."""
        value = getattr(node, "value", None)
        if not isinstance(value, ast.Call) or getattr(value.func, "id", "") != "option":
            return
        default, *help_text = value.args
        attr.value = ast.unparse(default)
        if help_text and isinstance(help_text[0], ast.Constant):
            attr.docstring = griffe.Docstring(help_text[0].value, parent=attr)
